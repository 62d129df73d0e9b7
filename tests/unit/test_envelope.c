/* Envelopes: the same bytes as libprotobuf-c makes, and nothing left when they are freed. */
#include <check.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/envelope.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "unit.h"

static const ProtobufCMessageDescriptor *const envelopes[] = {&npud__request__descriptor,
                                                              &npud__reply__descriptor};

static ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = calloc(1, type->sizeof_message);

    ck_assert_ptr_nonnull(m);
    protobuf_c_message_init(type, m);
    return m;
}

/* Own fields that are not as they were made. */
static void fill_own_fields(ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        void *field = (char *)m + f->offset;

        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            return;
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        if (f->type == PROTOBUF_C_TYPE_STRING)
            *(char **)field = strdup("a sentence");
        else if (f->type == PROTOBUF_C_TYPE_UINT64)
            *(uint64_t *)field = UINT64_MAX - i;
        else if (f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_INT32)
            *(int32_t *)field = -1;
    }
}

static void set_body(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    ProtobufCMessage *body = message_new(f->descriptor);

    *(uint32_t *)((char *)m + f->quantifier_offset) = f->id;
    *(ProtobufCMessage **)((char *)m + f->offset) = body;
    fill_own_fields(body);
}

static void expect_same(ProtobufCMessage *m)
{
    static uint8_t ours[PACKET_MAX], theirs[PACKET_MAX];
    const ProtobufCMessageDescriptor *type = m->descriptor;
    size_t size = protobuf_c_message_pack(m, theirs);

    memset(ours, 0xa5, sizeof(ours));
    ck_assert_uint_eq(envelope_pack(m, ours, size - 1), size);
    ck_assert_uint_eq(ours[0], 0xa5);
    ck_assert_ptr_eq(m->descriptor, type);
    ck_assert_uint_eq(envelope_pack(m, ours, size), size);
    ck_assert_uint_eq(ours[size], 0xa5);
    ck_assert_mem_eq(ours, theirs, size);
    ck_assert_ptr_eq(m->descriptor, type);
    envelope_free(m); /* the sanitizers say what is left */
    m = protobuf_c_message_unpack(type, NULL, size, ours);
    ck_assert_ptr_nonnull(m);
    envelope_free(m);
}

START_TEST(each_body_packs_as_it_always_did)
{
    const ProtobufCMessageDescriptor *type = envelopes[_i];
    ProtobufCMessage *m = message_new(type);
    unsigned bodies = 0;

    fill_own_fields(m);
    expect_same(m);
    for (unsigned i = 0; i < type->n_fields; i++) {
        if (!(type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) {
            ck_assert_msg(bodies == 0, "%s follows a body", type->fields[i].name);
            continue;
        }
        bodies++;
        m = message_new(type);
        fill_own_fields(m);
        set_body(m, &type->fields[i]);
        expect_same(m);
    }
    ck_assert_uint_gt(bodies, 10);
}
END_TEST

START_TEST(messages_without_a_body_go_through)
{
    Npud__AdminRequest request = NPUD__ADMIN_REQUEST__INIT;
    uint8_t ours[PACKET_MAX], theirs[PACKET_MAX];
    size_t size;

    request.id = 7;
    request.protocol = PROTOCOL;
    request.topic = NPUD__ADMIN_REQUEST__TOPIC__STATUS;
    size = protobuf_c_message_pack(&request.base, theirs);
    ck_assert_uint_eq(envelope_pack(&request.base, ours, sizeof(ours)), size);
    ck_assert_mem_eq(ours, theirs, size);
    envelope_free(NULL);
}
END_TEST

/* A body that this build does not know: from a peer that is newer. It is dropped with its bytes. */
START_TEST(unknown_bodies_are_freed)
{
    static const uint8_t packet[] = {0x08, 7, 0xfa, 0x3f, 2, 'h', 'i'}; /* id 7; field 1023 */
    Npud__Request *request = npud__request__unpack(NULL, sizeof(packet), packet);

    ck_assert_ptr_nonnull(request);
    ck_assert_uint_eq(request->id, 7);
    ck_assert_uint_eq(request->base.n_unknown_fields, 1);
    envelope_free(&request->base);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("envelope");
    TCase *t = suite_case(suite, "bytes", 30, NULL, NULL);

    tcase_add_loop_test(t, each_body_packs_as_it_always_did, 0, 2);
    tcase_add_test(t, messages_without_a_body_go_through);
    tcase_add_test(t, unknown_bodies_are_freed);
    return run_suite(suite);
}
