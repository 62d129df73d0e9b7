/*
 * Envelopes: messages with a few fields of their own and a body, one of many (oneof). libprotobuf-c
 * visits every field that a message could have each time it counts, packs, unpacks or frees one; for
 * the 49 bodies of a Request that was two thirds of what a request costs a client. Here it is shown
 * the fields that are there. The bytes are the same.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/**
 * Packs any message, if it has no more than `room` bytes. Returns how many it has. Other threads
 * must not use the message meanwhile.
 */
size_t envelope_pack(struct ProtobufCMessage *message, uint8_t *data, size_t room);

/**
 * Unpacks an envelope, which has no required or repeated fields of its own. envelope_free() frees
 * it, and nothing else does. NULL: the bytes are none, or no memory.
 */
struct ProtobufCMessage *envelope_unpack(const struct ProtobufCMessageDescriptor *type,
                                         const uint8_t *data, size_t size);

/** NULL: nothing happens. */
void envelope_free(struct ProtobufCMessage *message);
