/* What is kept of a session, of its use of a device, and of its allocations. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define SESSION_TABLE_COUNT 5 /* core/session.h */

struct session_record {
    /* kept */
    uint64_t id;
    uint64_t since_ns;
    uint64_t socket_key, pidfd_key, page_key; /* page_key 0: before Hello */
    int32_t pid;
    uint32_t uid;
    uint32_t peer_id;
    uint32_t ring_depth;
    uint32_t protocol; /* that it speaks */
    uint8_t state;     /* enum session_state */
    uint8_t end_part;  /* while it is being freed */
    uint8_t takes_fds;
    uint8_t left;
    uint64_t streams_made;
    /* of each table: no slot was taken with a later generation */
    uint32_t latest[SESSION_TABLE_COUNT];
    uint32_t faults; /* ends of the server by a fault with this in hand that are not forgiven */
    char program[64];
    uint64_t job; /* its number; 0: none, or it is not known yet */
    /* Appended after 0.9.0, of the last of faults */
    uint32_t fault_s;     /* when: seconds of CLOCK_MONOTONIC */
    uint16_t fault_death; /* the number of that end */
    uint8_t fault_by;     /* 1 + the thread that had the session in hand */
    uint8_t idle;         /* enum session_idle_state */
    uint64_t unused_words[2];
    /* live */
    uint64_t requests;
};

struct attach_record {
    /* kept */
    uint64_t session;
    uint64_t bell_key;
    uint32_t device;
    uint32_t executor; /* of the session (executor_record.h); 0: none */
    /* live, under the lock of the device's engine */
    struct attach_live {
        _Atomic uint64_t exceptions; /* head of the exception ring */
        _Atomic uint64_t lost;       /* why the device was lost, until that was told; 0 */
        _Atomic uint64_t loss;       /* the last one that was told, or is to be */
    } live;
};

struct memory_record {
    /* kept */
    uint64_t session;
    uint64_t size;
    uint64_t key;
    uint32_t slot, generation; /* in its table */
    uint32_t device;
    uint32_t kind; /* enum mem_kind */
    /* Appended after 0.9.0: of memory that was exported once. 0: it never was */
    uint64_t pages; /* their number, in the records of all that hold them */
    uint64_t maker; /* id of the session that has allocated them */
    int32_t maker_pid;
    uint32_t maker_uid;
    uint64_t imported; /* bytes that were exported; 0: it is the maker's */
    uint64_t address;  /* that the backend has given the session; 0: none */
    uint64_t freed;    /* 1: while work that has begun uses it */
    uint64_t left;     /* of the first of those that hold the pages: struct sharers */
    uint32_t since;    /* struct sharer, of its session */
    uint32_t over;     /* the same */
    uint64_t deserted; /* of the first of those that hold the pages: struct pages */
    /* Appended after 0.10.0: what the backend knows it by (struct backend_note); 0: by its file */
    uint64_t executor, handle;
    uint64_t origin_executor, origin_handle; /* where it was imported from; 0: nowhere */
};

/*
 * An export of memory. The processes that may import it are in a record of kind MEMORY_PIDS
 * (importers_record.h), by the number of the export.
 */
struct memory_export_record {
    /* kept */
    uint64_t session;
    uint64_t number;
    uint64_t size; /* of what is exported, from the first byte on */
    uint32_t slot; /* of the allocation, in the table of the session */
    uint8_t any_pid, by_number;
    uint8_t unused[2];
    uint8_t key[48]; /* struct export_key, unless it is named by its number */
};

/*
 * An answer that was made certain together with what its request has changed. If the request is
 * still in the socket when npud ends, the next npud sends the answer (once more).
 */
/* What the client gets. */
enum answer_file {
    ANSWER_FILE_COPY,      /* a copy of what an object has under the key */
    ANSWER_FILE_READ_ONLY, /* the same, opened anew for reading */
    ANSWER_FILE_OWN,       /* what the answer itself has under the key */
};

struct answer_record {
    /* kept */
    uint64_t session;
    uint64_t request; /* its id */
    uint32_t size;    /* of data */
    uint32_t n_fds;
    struct {
        uint64_t key;
        uint64_t file; /* enum answer_file */
    } fd[3];
    uint8_t data[]; /* the packet */
};
