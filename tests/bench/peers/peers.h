/*
 * `make bench-peers`: a message of 64 bytes there and back between two processes that sleep, by
 * what Debian has for that and by npud's queues. What is not installed is left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MESSAGE 64

#ifdef __cplusplus
extern "C" {
#endif

/** A way to send messages. Two processes have it: the first one sends, the second one answers. */
struct peer {
    const char *name;
    /** In the process before it forks the second one. */
    void (*prepare)(void);
    /** In each of the two. other: the second one's pid, for the first one. */
    void (*begin)(bool first, int other);
    void (*send)(bool first, const void *message);
    void (*receive)(bool first, void *message);
};

/** Weak: NULL if its package is not installed. */
#define WEAK __attribute__((weak))
extern const struct peer peer_pipe, peer_socket, peer_mq, peer_npud_bytes, peer_npud_buffer;
extern const struct peer peer_zmq WEAK, peer_nanomsg WEAK, peer_boost WEAK;

/** Buffers and rings of DPDK in one thread, beside npud's: ns of one. */
struct pair_cost {
    double buffer; /* allocated and freed */
    double ring;   /* put and taken */
};
struct pair_cost dpdk_measure(void) WEAK;
struct pair_cost npud_measure(void);

/** What one call of once() takes: the median of many rounds, in ns. */
double peers_median(void (*once)(void));

/** End with this text if a call has failed. */
void peers_check(bool ok, const char *what);

#ifdef __cplusplus
}
#endif
