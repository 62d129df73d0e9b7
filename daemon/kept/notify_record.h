/* What is kept of a notify and of its open handles. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct notify_record {
    /* kept */
    uint64_t number;
    uint32_t uid; /* the creator's */
    uint32_t device;
    uint32_t id; /* on the device */
    uint8_t counts, exported, any_pid;
    uint8_t unused;
    uint8_t key[48]; /* struct export_key, if it is exported */
    uint64_t unused_too[3];
    /*
     * Live, under the lock of the notify's waiters. What a task changes here and in the record of
     * its stream, or of a stream that it lets go, changes at once: kept_words_begin().
     */
    struct notify_live {
        _Atomic uint64_t value;      /* the bit, or the counter */
        _Atomic uint64_t failed_pid; /* 0, or notify_failed_by(): a record was dropped while no
                                     * stream waited */
        _Atomic uint64_t arrivals;   /* of waits, so far */
        _Atomic uint64_t looking, look_from, changes; /* core/notify.h */
        _Atomic uint64_t failing, fail_before;
        _Atomic uint64_t reset_by; /* 1 + the id of the client's latest request to reset it */
        _Atomic uint64_t deserted_before, deserted_by; /* core/notify.h; 0: it is not */
        uint64_t unused[1];
    } live;
};

struct notify_open_record {
    /* kept */
    uint64_t session, notify;
    uint32_t slot, generation; /* in the session's table */
    uint32_t creator;          /* it is that of the session that has made the notify */
    uint32_t over;             /* its program has finalized, and its streams are done */
};
