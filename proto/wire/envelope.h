/*
 * Envelopes: messages with a few fields of their own and a body, one of many (oneof). libprotobuf-c
 * visits every field that a message could have each time it counts, packs or frees one; for the 49
 * bodies of a Request that was two thirds of what a request costs a client. Here it is shown the
 * fields that are there. The bytes are the same.
 *
 * For any message; those without a body go through as they are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;

/** Packs it, if it has no more than `room` bytes. Returns how many it has. Other threads must not
 * use the message meanwhile. */
size_t envelope_pack(struct ProtobufCMessage *message, uint8_t *data, size_t room);

/** Frees a message that was unpacked with malloc(). NULL: nothing happens. */
void envelope_free(struct ProtobufCMessage *message);
