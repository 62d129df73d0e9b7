/* npud's sockets, from npuctl's side. A negative errno on error. */
#pragma once

#include <stdint.h>

#include "client/tools/npuctl/command.h"
#include "proto/wire/packet.h"

/** The path in the environment's variable, or else `otherwise`. */
const char *socket_find(const char *variable, const char *otherwise);

/** A connected socket. */
int socket_connect(const char *path);

/**
 * What npud at path answers: a message of this type, which the caller frees, and what came with it.
 * NULL, with a sentence on stderr, if it does not: STATUS_UNREACHABLE.
 */
void *socket_ask(int fd, const char *path, const ProtobufCMessage *request,
                 const ProtobufCMessageDescriptor *type, struct packet *packet);

/**
 * The report of `size` bytes in the memory file that came with the packet, empty if size is 0.
 * STATUS_ERROR, with a sentence on stderr, if it cannot be read. The caller frees it.
 */
enum status socket_read_report(const struct packet *packet, uint64_t size, Npud__Report **report);

/** Sentences on stderr, each about one thing that npud did not do. */
enum status socket_explain_unreachable(const char *path, int error);
enum status socket_explain_refusal(const char *sentence, int32_t code);
