#include "proto/wire/envelope.h"

#include <assert.h>
#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/npud.pb-c.h"

/* --- packed --- */

/* Bytes of what is neither sentence nor body, at most: tags and numbers. */
#define HEAD_MAX 48u

/* Both kinds of envelopes: a Request has neither error nor sentence. */
struct envelope {
    uint64_t id;
    int32_t error;
    const char *sentence;
    uint32_t kind;
    const ProtobufCMessage *body; /* NULL: none */
};

/* False: it is another message. Each kind of body is a pointer, in the same place. */
static bool read_envelope(struct envelope *e, const ProtobufCMessage *message)
{
    const Npud__Request *request = (const Npud__Request *)message;
    const Npud__Reply *reply = (const Npud__Reply *)message;

    if (message->descriptor == &npud__request__descriptor)
        *e = (struct envelope){.id = request->id,
                               .sentence = "",
                               .kind = request->body_case,
                               .body = (const ProtobufCMessage *)request->hello};
    else if (message->descriptor == &npud__reply__descriptor)
        *e = (struct envelope){.id = reply->id,
                               .error = reply->error,
                               .sentence = reply->message ? reply->message : "",
                               .kind = reply->body_case,
                               .body = (const ProtobufCMessage *)reply->hello};
    else
        return false;
    if (e->kind == 0)
        e->body = NULL;
    return true;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* value: the number, or how many bytes follow. */
static uint8_t *put_field(uint8_t *at, uint32_t number, ProtobufCWireType type, uint64_t value)
{
    return put_varint(put_varint(at, number << 3 | type), value);
}

static size_t pack_parts(const struct envelope *e, size_t sentence, size_t body, uint8_t *data)
{
    uint8_t *at = data;

    if (e->id != 0)
        at = put_field(at, 1, PROTOBUF_C_WIRE_TYPE_VARINT, e->id);
    if (e->error != 0)
        at = put_field(at, 2, PROTOBUF_C_WIRE_TYPE_VARINT, (uint64_t)e->error);
    if (sentence > 0)
        at = mempcpy(put_field(at, 3, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sentence), e->sentence,
                     sentence);
    if (e->body) {
        at = put_field(at, e->kind, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, body);
        at += protobuf_c_message_pack(e->body, at);
    }
    return (size_t)(at - data);
}

size_t envelope_pack(const ProtobufCMessage *message, uint8_t *data, size_t room)
{
    struct envelope e;
    size_t size;

    if (read_envelope(&e, message)) {
        size_t sentence = strlen(e.sentence);
        size_t body = e.body ? protobuf_c_message_get_packed_size(e.body) : 0;

        if (HEAD_MAX + sentence + body <= room)
            return pack_parts(&e, sentence, body, data);
    }
    /* Another message, or room for it may be short. */
    size = protobuf_c_message_get_packed_size(message);
    if (size <= room)
        protobuf_c_message_pack(message, data);
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
