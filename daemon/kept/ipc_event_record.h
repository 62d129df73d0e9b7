/*
 * What is kept of an IPC event, of its openers and exporters, and of the records that have failed.
 */
#pragma once

#include <stdint.h>

struct ipc_event_record {
    /* kept */
    uint64_t id;
    uint64_t page_key;
    uint64_t linger_order; /* 0: it does not linger; else a later one is larger */
    uint32_t uid;          /* the creator's */
    uint32_t device;
    int32_t last_exporter;
    uint32_t unused;
    uint8_t handle[64]; /* struct ipc_handle */
    uint64_t unused_too[4];
    /* live, under the lock of the event's waiters */
    struct ipc_event_live {
        uint64_t forgotten; /* newest failure that is in no table any more */
        /*
         * Of the control thread: all waiters are to fail, because an opener had damaged the page.
         * 1 + the newest record then, stored last; 0: they have failed.
         */
        uint64_t damaged_at;
        uint64_t damaged_by; /* pid */
        uint64_t unused[1];
    } live;
};

/** A record that has failed, and the process to blame. The number is stored last. */
struct ipc_failure {
    uint64_t number; /* 0: the place is free */
    int32_t pid;
    uint32_t unsubmitted; /* it was in no stream: core/ipc_search.h */
};

/*
 * The failures of an event, by number: all of it is live, under the lock of the event's waiters. A
 * larger one takes its place when it is complete, so that a kill may leave both.
 */
struct ipc_failures_record {
    uint64_t event;
    uint64_t size;
    struct ipc_failure failure[];
};

/** A number that an opener of the event has, or has had. */
struct ipc_opener_record {
    /* kept */
    uint64_t event;
    uint32_t number;
    int32_t pid; /* of the last process that had it; 0: none so far */
};

struct ipc_open_record {
    /* kept */
    uint64_t session, event;
    uint32_t slot, generation; /* in the session's table */
    uint32_t opener;           /* its number */
    uint32_t state;            /* enum ipc_open_state */
};

struct ipc_export_record {
    /* kept */
    uint64_t session, event;
};

/** A number that is set aside, because its session's process lives on. */
struct ipc_left_record {
    /* kept */
    uint64_t event;
    uint64_t survivor; /* id of the session that it has outlived */
    uint64_t opener;   /* its number */
};
