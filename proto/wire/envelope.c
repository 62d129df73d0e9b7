#include "proto/wire/envelope.h"

#include <protobuf-c/protobuf-c.h>

#define OWN_FIELDS_MAX 3u

/* A message, described by the fields that are in it. */
struct narrow {
    ProtobufCMessageDescriptor descriptor;
    ProtobufCFieldDescriptor fields[OWN_FIELDS_MAX + 1];
};

/*
 * The descriptor to use in place of the message's. Fields are sorted by their numbers, and a body's
 * are higher than the envelope's own (unit/test_envelope looks at all messages).
 */
static const ProtobufCMessageDescriptor *describe(const ProtobufCMessage *m, struct narrow *narrow)
{
    const ProtobufCMessageDescriptor *all = m->descriptor;
    const ProtobufCFieldDescriptor *body;
    unsigned n = 0;
    uint32_t which;

    while (n < all->n_fields && n <= OWN_FIELDS_MAX &&
           !(all->fields[n].flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        n++;
    if (n == all->n_fields || n > OWN_FIELDS_MAX)
        return all;
    for (unsigned i = 0; i < n; i++)
        narrow->fields[i] = all->fields[i];
    which = *(const uint32_t *)((const char *)m + all->fields[n].quantifier_offset);
    body = which ? protobuf_c_message_descriptor_get_field(all, which) : NULL;
    if (body)
        narrow->fields[n++] = *body;
    narrow->descriptor = *all;
    narrow->descriptor.fields = narrow->fields;
    narrow->descriptor.n_fields = n;
    return &narrow->descriptor;
}

size_t envelope_pack(ProtobufCMessage *message, uint8_t *data, size_t room)
{
    const ProtobufCMessageDescriptor *all = message->descriptor;
    struct narrow narrow;
    size_t size;

    message->descriptor = describe(message, &narrow);
    size = protobuf_c_message_get_packed_size(message);
    if (size <= room)
        protobuf_c_message_pack(message, data);
    message->descriptor = all;
    return size;
}

void envelope_free(ProtobufCMessage *message)
{
    struct narrow narrow;

    if (!message)
        return;
    message->descriptor = describe(message, &narrow);
    protobuf_c_message_free_unpacked(message, NULL);
}
