/* Envelopes: the same bytes as libprotobuf-c makes, and nothing left when they are freed. */
#include <check.h>
#include <limits.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/envelope.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "unit.h"

/* --- memory --- */

static unsigned pieces = UINT_MAX; /* that malloc() still gives */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    if (pieces == 0)
        return NULL;
    pieces--;
    return __real_malloc(size);
}

/* --- messages --- */

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

/* As libprotobuf-c unpacks it, which packs it again. The sanitizers say what is left. */
static void expect_unpacked(const ProtobufCMessageDescriptor *type, const uint8_t *data,
                            size_t size)
{
    static uint8_t again[PACKET_MAX];
    ProtobufCMessage *m = envelope_unpack(type, data, size);

    ck_assert_ptr_nonnull(m);
    ck_assert_ptr_eq(m->descriptor, type);
    ck_assert_uint_eq(protobuf_c_message_get_packed_size(m), size);
    protobuf_c_message_pack(m, again);
    ck_assert_mem_eq(again, data, size);
    envelope_free(m);
}

static void expect_same(ProtobufCMessage *m)
{
    static uint8_t ours[PACKET_MAX], theirs[PACKET_MAX];
    const ProtobufCMessageDescriptor *type = m->descriptor;
    size_t size = protobuf_c_message_pack(m, theirs);

    memset(ours, 0xa5, sizeof(ours));
    ck_assert_uint_eq(envelope_pack(m, ours, size - 1), size);
    ck_assert_uint_eq(ours[0], 0xa5);
    for (size_t room = size; room < size + 64; room++) {
        memset(ours, 0xa5, size + 64);
        ck_assert_uint_eq(envelope_pack(m, ours, room), size);
        ck_assert_uint_eq(ours[size], 0xa5);
        ck_assert_mem_eq(ours, theirs, size);
    }
    protobuf_c_message_free_unpacked(m, NULL);
    expect_unpacked(type, theirs, size);
}

START_TEST(each_body_packs_as_it_always_did)
{
    const ProtobufCMessageDescriptor *type = envelopes[_i];
    ProtobufCMessage *m = message_new(type);
    unsigned bodies = 0;

    fill_own_fields(m);
    expect_same(m);
    for (unsigned i = 0; i < type->n_fields; i++) {
        ck_assert_int_eq(type->fields[i].label, PROTOBUF_C_LABEL_NONE);
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

/* The empty packet, which is the end. What a body points to counts for its kind only. */
START_TEST(an_empty_envelope_takes_no_bytes)
{
    Npud__DestroyStream destroy = NPUD__DESTROY_STREAM__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Reply reply = NPUD__REPLY__INIT;
    uint8_t data[PACKET_MAX];

    request.destroy_stream = &destroy;
    ck_assert_uint_eq(envelope_pack(&request.base, data, sizeof(data)), 0);
    reply.message = NULL;
    ck_assert_uint_eq(envelope_pack(&reply.base, data, sizeof(data)), 0);
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
    Npud__Request *request =
        (Npud__Request *)envelope_unpack(&npud__request__descriptor, packet, sizeof(packet));

    ck_assert_ptr_nonnull(request);
    ck_assert_uint_eq(request->id, 7);
    ck_assert_uint_eq(request->base.n_unknown_fields, 1);
    envelope_free(&request->base);
}
END_TEST

/* A request with so many routes. Returns how many bytes it is packed. */
static size_t pack_routes(uint32_t n, uint8_t *data)
{
    Npud__Route route = NPUD__ROUTE__INIT, *list[ROUTES_MAX];
    Npud__BindRoutes bind = NPUD__BIND_ROUTES__INIT;
    Npud__Request request = NPUD__REQUEST__INIT;

    for (uint32_t i = 0; i < n; i++)
        list[i] = &route;
    route.source = route.destination = 7;
    bind.n_routes = n;
    bind.routes = list;
    request.id = 1;
    request.body_case = NPUD__REQUEST__BODY_BIND_ROUTES;
    request.bind_routes = &bind;
    return npud__request__pack(&request, data);
}

/* What is small has one piece of memory, and what is not has more. */
START_TEST(a_message_of_any_size_is_unpacked)
{
    static uint8_t data[PACKET_MAX];

    for (uint32_t n = 0; n <= ROUTES_MAX; n += n < 64 ? 1 : 64)
        expect_unpacked(&npud__request__descriptor, data, pack_routes(n, data));
    for (size_t length = 0; length < 1024; length++) {
        Npud__Reply reply = NPUD__REPLY__INIT;
        char message[1024];

        memset(message, 'x', length);
        message[length] = '\0';
        reply.id = 1;
        reply.message = message;
        expect_unpacked(&npud__reply__descriptor, data, npud__reply__pack(&reply, data));
    }
}
END_TEST

/* The sanitizers say what is left. */
START_TEST(a_cut_packet_is_no_message)
{
    static uint8_t data[PACKET_MAX];

    for (uint32_t n = 1; n <= 64; n *= 8) {
        size_t size = pack_routes(n, data);

        for (size_t cut = size - 1; cut > 2; cut--) /* 2: the id alone is a message */
            ck_assert_ptr_null(envelope_unpack(&npud__request__descriptor, data, cut));
    }
}
END_TEST

START_TEST(a_message_that_finds_no_memory_leaves_none)
{
    static uint8_t data[PACKET_MAX];
    size_t size = pack_routes(64, data);
    ProtobufCMessage *m = NULL;
    unsigned n;

    for (n = 0; !m; n++) {
        pieces = n;
        m = envelope_unpack(&npud__request__descriptor, data, size);
        pieces = UINT_MAX;
    }
    ck_assert_uint_gt(n, 2); /* the block, and what found no room in it */
    envelope_free(m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("envelope");
    TCase *t = suite_case(suite, "bytes", 30, NULL, NULL);

    tcase_add_loop_test(t, each_body_packs_as_it_always_did, 0, 2);
    tcase_add_test(t, an_empty_envelope_takes_no_bytes);
    tcase_add_test(t, messages_without_a_body_go_through);
    tcase_add_test(t, unknown_bodies_are_freed);
    tcase_add_test(t, a_message_of_any_size_is_unpacked);
    tcase_add_test(t, a_cut_packet_is_no_message);
    tcase_add_test(t, a_message_that_finds_no_memory_leaves_none);
    return run_suite(suite);
}
