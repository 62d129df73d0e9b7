/*
 * Messages out of a few bytes: whatever the bytes, a message that parses, so that a fuzzer need not
 * learn protobuf first.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "fuzz.h"

struct output {
    uint8_t data[20000]; /* more than a packet holds */
    size_t size;
};

/** Nothing yet. Bytes behind size are not set: to clear them all would cost more than a request. */
static inline void output_begin(struct output *out)
{
    out->size = 0;
}

/** Append field number with a varint. */
void put_varint_field(struct output *out, uint32_t number, uint64_t value);
/** Append field number with bytes. */
void put_bytes_field(struct output *out, uint32_t number, const void *data, size_t size);

/**
 * Append every field of a message of this type, with values from in. Fields of type bytes are left
 * out.
 */
void encode_message(struct output *out, const ProtobufCMessageDescriptor *type, struct input *in);
