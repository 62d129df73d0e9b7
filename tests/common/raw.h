/*
 * A client without the library: it speaks the protocol packet by packet and holds the shared memory
 * bare. For tests that misbehave.
 *
 * Nothing here asserts: that npud ends the session, or refuses, is what its users are after.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/arena.h"
#include "proto/shm/ipc_page.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define RAW_STREAMS SESSION_STREAMS_MAX
#define RAW_MAPS    512

/** Something mapped writable, of whatever kind. */
struct raw_map {
    void *at;
    size_t size;
    int fd; /* kept open only when raw.keep_fds is set; else -1 */
};

struct raw_stream {
    uint32_t slot;
    uint32_t device;
    uint64_t tail; /* ours: shared memory may be garbage */
    struct stream_ctrl *ctrl;
    struct task *ring;
};

struct raw {
    int socket; /* -1: not connected, or npud has ended the session */
    uint64_t last_id;
    int32_t error; /* of the last request that was answered */
    uint32_t depth;
    uint32_t n_devices;
    bool keep_fds;
    struct session_page *page;
    int bell[DEVICES_MAX];
    void *segment[RAW_STREAMS / ARENA_STREAMS];
    struct raw_stream stream[RAW_STREAMS];
    unsigned n_streams;
    struct raw_map map[RAW_MAPS]; /* all of the above and more */
    unsigned n_maps;
};

/** An object that npud gave a slot. */
struct raw_object {
    uint32_t slot;
    uint32_t generation;
    uint32_t opener; /* IPC events */
    void *at;        /* its memory; NULL for plain events */
};

/** A connected socket without Hello, or -1. */
int raw_connect(void);

/** Connect and say Hello. False: npud is not there or refuses. */
bool raw_open(struct raw *r);
/** Give back everything. Safe on a zeroed struct whose socket is -1. */
void raw_close(struct raw *r);

/**
 * Number the request and send it, without waiting for an answer. 0 or -errno. flags: as of
 * sendmsg(2).
 */
int raw_send(struct raw *r, Npud__Request *request, int flags);
/**
 * Send and wait for the answer. Returns the reply (free with npud__reply__free_unpacked), or NULL:
 * npud has ended the session, and the socket is closed. *fd (when not NULL) is the descriptor that
 * came along, or -1.
 */
Npud__Reply *raw_ask(struct raw *r, Npud__Request *request, int *fd);
/** The same with n descriptors. */
Npud__Reply *raw_ask_fds(struct raw *r, Npud__Request *request, int *fds, unsigned n);

/** The requests. True: npud has done it. False: r->error says why not, or the session is gone. */
bool raw_open_device(struct raw *r, uint32_t device);
bool raw_create_stream(struct raw *r, uint32_t device);
/** The last one in the table takes its place there. */
bool raw_destroy_stream(struct raw *r, unsigned i);
/** The first step of an abort. Positions after *from up to *to are discarded. */
bool raw_hold_stream(struct raw *r, unsigned i, uint64_t *from, uint64_t *to);
/**
 * The second step, or the whole of it. told: the code for streams that wait for what is discarded.
 */
bool raw_abort_stream(struct raw *r, unsigned i, int32_t told);
bool raw_create_event(struct raw *r, struct raw_object *event);
bool raw_create_ipc(struct raw *r, struct raw_object *event);
bool raw_export_ipc(struct raw *r, uint32_t slot, uint8_t handle[64]);
bool raw_open_ipc(struct raw *r, const void *handle, struct raw_object *event);
bool raw_close_ipc(struct raw *r, uint32_t slot);
bool raw_malloc(struct raw *r, bool host, uint64_t size, struct raw_object *memory);
bool raw_free(struct raw *r, uint32_t slot);

/** Put a task into the stream's ring, without looking for room, and without ringing. */
void raw_put(struct raw *r, struct raw_stream *s, const struct task *task);
/** Tell npud of it. */
void raw_ring(struct raw *r, struct raw_stream *s);
/** Sleep until the stream has retired all that was put. */
void raw_wait(struct raw_stream *s);
/** It has at this moment. */
bool raw_passed(const struct raw_stream *s);
