/*
 * Envelopes: Request and Reply, messages with a few fields of their own and a body, one of many.
 * libprotobuf-c visits every field that a message could have each time it counts, packs, unpacks or
 * frees one. Here the fields of an envelope are packed by hand, and its body by libprotobuf-c,
 * which unpacks both. The bytes are the same. A request of row 10 takes 2,960 instructions in the
 * client and 4,200 in npud; 5,680 and 5,660 if libprotobuf-c packs all of it; 6,390 and 7,010 if it
 * also unpacks and frees in its own way (callgrind, x86-64, 2026-11-27).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/** Packs any message, if it has no more than `room` bytes. Returns how many it has. */
size_t envelope_pack(const struct ProtobufCMessage *message, uint8_t *data, size_t room);

/**
 * Unpacks an envelope of this type. envelope_free() frees it, and nothing else does. NULL: the
 * bytes are none, or no memory.
 */
struct ProtobufCMessage *envelope_unpack(const struct ProtobufCMessageDescriptor *type,
                                         const uint8_t *data, size_t size);

/** NULL: nothing happens. */
void envelope_free(struct ProtobufCMessage *message);
