/*
 * What is kept of an object that the client has destroyed and its streams may still touch, and of
 * an event descriptor that is to be written.
 */
#pragma once

#include <stdint.h>

struct release_record {
    /* kept */
    uint64_t session;
    uint32_t kind; /* enum release_kind */
    uint32_t slot; /* of the object */
    uint64_t n;
    struct {
        uint64_t position;
        uint64_t stream;
    } fence[];
};

struct event_fd_record {
    /* kept */
    uint64_t session;
    uint64_t target;
    uint32_t number;
    uint32_t ipc;              /* target: of a record of an IPC event; else a position */
    uint32_t slot, generation; /* of the open IPC event, or of the stream, without generation */
};
