/*
 * A backend: what makes devices work. The engine knows streams, events and waiting; a backend knows
 * how bytes move and how long work takes. One table of functions, so that a vendor's library can
 * stand beside `sim`.
 *
 * Memory is the backend's: no other module knows where it is, or whether npud can read it at all.
 * Work names it by handle and offset.
 *
 * No call waits for a device. What a session asks for and takes its time returns -EINPROGRESS, and
 * is asked for once more after backend_told(). Work may be away (WORK_AWAY): poll() tells the
 * engine when that is over.
 *
 * Threads: open(), close(), and what is about sessions and memory, in the control thread; what is
 * about work in the engine thread of its device, or in another that holds the engine's lock; words
 * anywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct backend_memory;
struct backend_space;
struct server;
struct user;

struct backend_device_info {
    const char *soc_name; /* lives as long as the backend is open */
    uint64_t memory;      /* bytes */
    bool strict;          /* programs cannot read its memory, but for kernels */
    bool away;            /* nobody can map its memory */
    /* Of the library and its driver, of the place of the device, and what was seen to work: words
     * that live as long as the backend is open. NULL: there is nothing to say. */
    const char *version, *bus, *can;
};

/** A process that does device work (daemon/backend/executors.h), for a report. */
struct backend_executor {
    uint32_t number;         /* from 1, in the order of their begins */
    int32_t pid;             /* that it has, or had */
    uid_t uid;               /* of the user who pays */
    uid_t runs_as;           /* of the process */
    uint64_t session;        /* for which it works; 0: all of the user */
    const char *state, *why; /* why: how it has ended, else "". Until the step is over */
    uint32_t devices;        /* a bit each */
    uint32_t lanes;          /* in use */
    uint64_t memory;         /* bytes of devices that it has made or imported */
    uint64_t since_ns;       /* CLOCK_MONOTONIC: when it was started */
};

/** The same, counted since this npud began. */
struct backend_executors {
    uint64_t started;
    uint64_t failed; /* ended otherwise than because nobody needed them any more */
};

/** How a device is. What it says of itself is there if `told`; INT32_MIN: not that. */
struct backend_health {
    bool told;
    int32_t temperature; /* degrees Celsius */
    int32_t power;       /* milliwatts */
    uint32_t errors;     /* of memory, uncorrected */
    int32_t unwell;      /* a process that has used it, was killed, and does not end; 0: none */
};

/** The session for which something is asked. */
struct backend_client {
    uint64_t session;
    uid_t uid; /* of the user who pays */
    int32_t pid;
};

/** What is kept of a session's memory beside its address. */
struct backend_note {
    uint64_t executor, handle;
    uint64_t origin_executor, origin_handle;
};

enum work_kind {
    WORK_COPY,
    WORK_SET,
    WORK_DELAY,
    WORK_REDUCE,
    WORK_WORD_READ,  /* the word at src: into `word`. For words that word_read() cannot read */
    WORK_WORD_WRITE, /* `word` into the word at dst: the same for word_write() */
    WORK_LAUNCH,     /* a kernel: dst is binary and function, src struct executor_launch and more */
};

/** A place in memory. */
struct work_place {
    struct backend_memory *memory;
    uint64_t offset;
};

/** One piece of work, within the memory that it names. Owned by the stream that runs it. */
struct work {
    struct work_place dst, src;
    uint64_t size;
    uint64_t progress; /* bytes done so far, which the backend counts up; kept by the engine */
    /*
     * WORK_REDUCE: where the result of this step is to be put, in place of dst + progress: at most
     * DEVICE_SLICE_MAX bytes.
     */
    void *slice;
    union {
        uint64_t delay_ns; /* WORK_DELAY */
        uint64_t word;     /* WORK_WORD_READ, WORK_WORD_WRITE; WORK_LAUNCH: executor_launch_sum() */
    };
    union {
        uint64_t ready_ns; /* the backend's, zeroed: when bytes are moved; lost when npud ends */
        /*
         * Of work that is away: which it is there. The engine keeps it from WORK_NOTE on, and an
         * npud that comes later gives it back: so work is given to a device once. Below
         * TICKET_DROPPED; 0: it was not given.
         */
        uint64_t ticket;
    };
    int32_t result; /* WORK_DELAY: what to fail with, 0: succeed */
    uint8_t kind;   /* enum work_kind */
    uint8_t value;
    uint8_t reduce; /* WORK_REDUCE: aclrtReduceKind, aclDataType, a pair of proto/util/reduce.h */
    uint8_t type;
};

/** Bytes from which on work may be lent: below, the way there and back takes longer. */
#define WORK_LENT (256u << 10)
/** Works that are given to a device at once, at most. */
#define WORK_AHEAD 64u

enum work_state {
    WORK_DONE,    /* *result is the outcome */
    WORK_MORE,    /* call step() again when others have had their turn */
    WORK_PENDING, /* it is under way: call step() again at *deadline */
    WORK_NOTE,    /* it has a ticket: keep that, give() it, and call step() again at once */
    WORK_AWAY,    /* a device does it: call step() again when poll() has named it */
};

/** What a stream waits for in a word of memory: the flags of aclrtValueWait(). */
enum word_condition { WORD_GEQ, WORD_EQ, WORD_AND, WORD_NOR, WORD_CONDITIONS };

/**
 * What the session with this place has asked for is over: the function that has returned
 * -EINPROGRESS is to be called again with the same arguments. Until then what was made is the
 * backend's, and goes with space_free(). Control thread. npud.c sets it.
 */
extern void (*backend_told)(struct backend_space **space);
/**
 * Work of the session that a stream has dropped is over with the device, which may have gone on
 * with it meanwhile, in any memory of the session.
 */
extern void (*backend_landed)(struct backend_space **space);
/** What did the device work of the session has ended: its memory is lost, on all devices. */
extern void (*backend_lost)(struct backend_space **space, int32_t code);

struct backend {
    const char *name;
    /** Find the devices. Returns their number and the backend's state, or a negative errno after
     * logging. */
    int (*open)(struct server *server, void **state);
    void (*close)(void *state);
    void (*device_info)(void *state, uint32_t device, struct backend_device_info *info);

    /*
     * For reports. NULL: no process does its device work.
     */
    /** The executor with the smallest number above `after`. False: there is none. */
    bool (*executor_next)(void *state, uint32_t after, struct backend_executor *executor);
    void (*executors)(void *state, struct backend_executors *count);
    /**
     * What the device has said last, and ask it anew, for the next one who wants to know. False:
     * nothing is known, or only what is too old.
     */
    bool (*device_health)(void *state, uint32_t device, struct backend_health *health);

    /**
     * The session is to use the device. *space: what it has at the backend, NULL so far if that is
     * nothing. May be called again. 0, -EINPROGRESS, or -errno. NULL: there is nothing to do.
     */
    int (*attach)(void *state, struct backend_space **space, uint32_t device,
                  const struct backend_client *client);
    /** The same for restoring, as far as an npud before was. False: no memory. */
    uint32_t (*attach_note)(const struct backend_space *space);
    bool (*attach_back)(void *state, struct backend_space **space, uint32_t note,
                        const struct backend_client *client);
    /** All is there again that was. NULL: there is nothing to do. */
    void (*restored)(void *state);

    /**
     * Memory of the device, `size` bytes (a multiple of the page size), for a session that uses
     * that. *fd: the file by which clients map it, which stays the memory's; -1: none can.
     * 0, -EINPROGRESS or -errno.
     */
    int (*memory_new)(void *state, struct backend_space *space, uint32_t device, uint64_t size,
                      struct backend_memory **memory, int *fd);
    /**
     * Make a sealed memfd usable by work of the device, for a session: pinned memory of the host,
     * or what memory_new() of an npud before has made (device_memory). It is the memory's then.
     * NULL: no memory, and fd is still the caller's.
     */
    struct backend_memory *(*memory_attach)(void *state, struct backend_space *space,
                                            uint32_t device, int fd, uint64_t size,
                                            bool device_memory);
    /**
     * The same memory for another session, or for the same under another name. Both are given back.
     * 0, -EINPROGRESS or -errno.
     */
    int (*memory_share)(void *state, struct backend_space *space, uint32_t device,
                        struct backend_memory *memory, struct backend_memory **shared);
    /**
     * What a later npud needs to know the memory again, and the memory again. fd: its file, which
     * is the memory's then; -1: it has none. memory_back() may return what another name has. NULL,
     * and fd is still the caller's: it cannot be. NULL functions: memory is all in its file.
     */
    struct backend_note (*memory_note)(const struct backend_memory *memory);
    struct backend_memory *(*memory_back)(void *state, struct backend_space *space, uint32_t device,
                                          int fd, uint64_t size, uint64_t address,
                                          const struct backend_note *note);
    /**
     * Kernels for a device that the session uses: a file of so many bytes, at the begin of pinned
     * memory of the session. magic: what they are for (ACL_RT_BINARY_MAGIC_*), 0: the file says.
     * The binary is memory in which no byte has a place. 0, -EINPROGRESS or -errno: -EBADMSG: the
     * library refuses it, -EOPNOTSUPP: the device runs no kernels. NULL: none does.
     */
    int (*binary_new)(void *state, struct backend_space *space, uint32_t device,
                      struct backend_memory *file, uint64_t size, uint32_t magic,
                      struct backend_memory **binary);
    /**
     * The function of the binary with this name has this number in work from now on. May be asked
     * for again. The same; -EBADMSG: there is none.
     */
    int (*function_new)(void *state, struct backend_space *space, struct backend_memory *binary,
                        const char *name, uint32_t number);
    /** What the library has said of what it has last refused to the session. Never NULL. */
    const char *(*refusal)(const struct backend_space *space);
    /** No engine uses it any more. user: whose it was (deferred_close_free_memory()). */
    void (*memory_free)(void *state, struct backend_memory *memory, const struct user *user);
    /**
     * What npud notes, in bytes, which are charged: of an address as long as it is given out, and
     * of a session from its first one on. 0: the device has no addresses.
     */
    uint64_t (*address_bytes)(void *state);
    uint64_t (*space_bytes)(void *state);
    /**
     * The device's address, for a session that is to have so many bytes of it: what its program
     * takes for a pointer. 0: the device has none, and the library maps the memory where it likes.
     * *space: the session's addresses, NULL so far if it has none. -errno;
     * -ENOSPC: they are used up.
     */
    int (*address_new)(void *state, struct backend_space **space, uint32_t device,
                       const struct backend_memory *memory, uint64_t size, uint64_t *address);
    /** 0: nothing. */
    void (*address_free)(struct backend_space *space, uint32_t device, uint64_t address);
    /** An npud before has given it out. False: no memory, or it cannot be. */
    bool (*address_note)(void *state, struct backend_space **space, uint32_t device,
                         uint64_t address, uint64_t size);
    /** The session has no address and no memory any more. NULL: it had nothing. */
    void (*space_free)(struct backend_space *space);
    /** Can it be used? It may be made usable by that; false: npud has not the means for it. */
    bool (*memory_usable)(struct backend_memory *memory);

    /**
     * Do a bounded amount (at most tens of microseconds) of work, in usable memory. Bytes that are
     * all done may be asked for once more: WORK_DONE with the same result. now: CLOCK_MONOTONIC
     * nanoseconds.
     */
    enum work_state (*step)(void *state, uint32_t device, struct work *work, uint64_t now,
                            uint64_t *deadline, int32_t *result);
    /**
     * Other streams of the device have tasks: another thread of npud may go on with this copy or
     * set, of at least WORK_LENT bytes in usable memory, for a while. poll() tells when it is back.
     * An npud that comes later does these bytes again. False: no, and step() is to be called. NULL,
     * with recall(): it is never lent.
     */
    bool (*lend)(void *state, uint32_t device, struct work *work, uint64_t now);
    /**
     * True: it is not lent, or is back, and its progress counts what was done. cut: it is by that,
     * before long.
     */
    bool (*recall)(void *state, uint32_t device, struct work *work, bool cut);
    /**
     * Call over() for all work of the device that was away, or lent, and is over. NULL, with
     * sleep(): there is never any.
     */
    void (*poll)(void *state, uint32_t device, void (*over)(struct work *work));
    /**
     * The engine is about to sleep, or awake again: until then its eventfd is written when work is
     * over. False: some is over already. Engine thread.
     */
    bool (*sleep)(void *state, uint32_t device, bool asleep);
    /**
     * NULL, with the next ones: no work is ever away, and no memory out of npud's reach.
     *
     * How many of these could be given to a device together: the first has its ticket, and the
     * others would have those behind it.
     */
    unsigned (*ahead)(void *state, const struct work *works, unsigned n);
    /** The tickets are noted: give them to the device, where each is done once. */
    void (*give)(void *state, uint32_t device, const struct work *works, unsigned n);
    /**
     * An npud before had these tickets, up to the last one, for work of a stream of the session.
     * False: they were not given, and count as never taken.
     */
    bool (*resume)(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                   uint64_t last);
    /** Is this the work that was given with this ticket? Also if that cannot be told any more. */
    bool (*gave)(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                 const struct work *work);
    /**
     * Nobody asks for this ticket any more: the work is over, and its end kept, or its stream does
     * not go on with it. all: nor for those that were given behind it.
     */
    void (*forget)(void *state, struct backend_space *space, uint32_t device, uint64_t ticket,
                   bool all);
    /** Is all over that was given up to this ticket, which was forgotten? */
    bool (*is_over)(void *state, struct backend_space *space, uint64_t ticket);
    /**
     * The same for a request, without the engine's lock: 0 or -EINPROGRESS. A device that can ends
     * what it has begun of it.
     */
    int (*await_over)(void *state, struct backend_space *space, uint32_t device, uint64_t ticket);

    /*
     * Words, which are aligned, in usable memory. A thread that sees what word_write() has written
     * sees what came before it; word_read() is the other side of that. False: npud cannot reach the
     * memory, and it takes work.
     */
    bool (*word_read)(struct work_place at, uint64_t *value);
    bool (*word_write)(struct work_place at, uint64_t value);
    /** Copy `words` words from there, each read once. */
    bool (*words_read)(struct work_place at, uint64_t *to, unsigned words);
    /** Put the result of a slice of WORK_REDUCE where it belongs. */
    void (*slice_put)(struct work_place at, const void *slice, uint64_t size);
};

extern const struct backend backend_sim, backend_acl, backend_cuda;

/** The backend called name, or NULL. */
const struct backend *backend_find(const char *name);
