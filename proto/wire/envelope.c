#include "proto/wire/envelope.h"

#include <assert.h>
#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>

#define OWN_FIELDS_MAX 3u

/* --- packed --- */

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

/* --- unpacked --- */

#ifdef __SANITIZE_ADDRESS__ /* which sees where a piece ends if it is malloc()'s own */
#define BLOCK_ROOM 96
#else
#define BLOCK_ROOM 512
#endif

/* A message with all that it points to, unless that is much. It begins with the envelope. */
struct block {
    alignas(max_align_t) unsigned char room[BLOCK_ROOM];
    size_t used;
    bool spilled; /* some of it has memory of its own */
};

static void *take_room(void *arg, size_t size)
{
    struct block *block = arg;
    void *taken = &block->room[block->used];

    if (size >= sizeof(block->room) - block->used) {
        block->spilled = true;
        return malloc(size);
    }
    block->used += (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    return taken;
}

static void give_room_back(void *arg, void *taken)
{
    if ((uintptr_t)taken - (uintptr_t)arg >= BLOCK_ROOM)
        free(taken);
}

ProtobufCMessage *envelope_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data,
                                  size_t size)
{
    ProtobufCMessageDescriptor narrow = *type;
    struct block *block = malloc(sizeof(*block));
    ProtobufCAllocator allocator = {take_room, give_room_back, block};
    ProtobufCMessage *message;

    assert(type->sizeof_message < BLOCK_ROOM);
    if (!block)
        return NULL;
    block->used = 0;
    block->spilled = false;
    /*
     * A field that came is found by its number. The others are visited for those that are required
     * or repeated, and an envelope has none.
     */
    narrow.n_fields = 0;
    message = protobuf_c_message_unpack(&narrow, &allocator, size, data);
    if (!message)
        free(block);
    return message;
}

void envelope_free(ProtobufCMessage *message)
{
    struct block *block = (struct block *)message;
    ProtobufCAllocator allocator = {take_room, give_room_back, block};

    if (message && block->spilled)
        protobuf_c_message_free_unpacked(message, &allocator);
    free(block);
}
