/*
 * What is kept of an executor (daemon/backend/executors.h). The process itself is nobody's child
 * that matters: its socket, and the memory that it shares with npud, are with the keeper.
 */
#pragma once

#include <stdint.h>

/** A uid that is not free: what has had it is being killed. */
struct executor_uid_record {
    uint32_t own_uid;
    uint32_t unused;
};

struct executor_record {
    /* kept */
    uint64_t session; /* whose it is; 0: of all of the user */
    uint32_t uid;
    int32_t pid;
    uint64_t pidfd, socket, ring, page, log; /* keys */
    uint32_t number;        /* by which other records name it: no two had the same */
    uint32_t own_uid;       /* 0: none */
    uint32_t begun, usable; /* devices */
    uint64_t since_ns;      /* CLOCK_MONOTONIC: when it was started */
    /* live */
    struct executor_live {
        /* Of npud, with it: its requests and handles are apart. Before npud asks for anything. */
        _Atomic uint64_t life;
    } live;
};
