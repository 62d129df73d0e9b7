/* npud's sockets, from npuctl's side. A negative errno on error. */
#pragma once

#include <stdint.h>

#include "client/tools/npuctl/task.h"
#include "proto/wire/packet.h"

/** The path in the environment's variable, or else `otherwise`. */
const char *socket_find(const char *variable, const char *otherwise);

/** A connection, which is made anew when npud ends before it has answered. */
struct connection {
    const char *path;
    int fd;          /* -1: closed */
    unsigned limit;  /* seconds that npud may take for an answer */
    unsigned broken; /* how often it was */
};

#define ANSWER_LIMIT_S  10  /* npud answers within milliseconds, or it hangs */
#define UPGRADE_LIMIT_S 200 /* more than the supervisor gives a program to become ready */

/** Connects: path and limit are set. 0 or a negative errno. */
int connection_open(struct connection *c);
void connection_close(struct connection *c);

/**
 * What npud answers: a message of this type, which the caller frees, and what came with it. Asks
 * the same again if npud ends under it. NULL, with a sentence on stderr, if there is no answer:
 * STATUS_UNREACHABLE.
 */
void *connection_ask(struct connection *c, ProtobufCMessage *request,
                     const ProtobufCMessageDescriptor *type, struct packet *packet);

/** The bytes of that report, as they are: freed by the caller. NULL: they cannot be read. */
uint8_t *socket_read_bytes(const struct packet *packet, uint64_t size);

/**
 * The report of `size` bytes in the memory file that came with the packet, empty if size is 0.
 * STATUS_ERROR, with a sentence on stderr, if it cannot be read. The caller frees it.
 */
enum status socket_read_report(const struct packet *packet, uint64_t size, Npud__Report **report);

/** Sentences on stderr, each about one thing that npud did not do. */
enum status socket_explain_unreachable(const char *path, int error);
enum status socket_explain_refusal(const char *sentence, int32_t code);
