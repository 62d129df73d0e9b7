/*
 * The process: is this still the one that used the library? A forked child shares nothing with
 * npud: its parent's session is not its own, and the arena is not mapped there. So every call of a
 * child fails with a clear error until the child calls aclInit itself.
 *
 * The state is a page that the kernel wipes in a forked child (MADV_WIPEONFORK): one load tells, no
 * handler is installed, and it works for raw clone() too.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/core/api_call.h"

struct check_writer;
struct session;

struct process {
    _Atomic(struct session *) session; /* NULL: not connected (yet), or forked */
    /*
     * The serial of the session, unless that is lost or closed; 0: there is none, or forked. One
     * load tells the fast ways that all is well.
     */
    _Atomic uint64_t live;
    _Atomic bool alive; /* the library is set up in this very process */
    /* It writes down what it does: checked_runs(). Here for the cache line. */
    _Atomic bool checked;
    /* Those that are told what calls read and write: enum access_reader. For the same reason. */
    _Atomic uint8_t accesses_told;
    /* All zero is a valid mutex: that is what a child finds. */
    pthread_mutex_t lock;       /* set-up, connecting, init counting */
    pthread_mutex_t store_lock; /* sentences of the whole process (err_msg_mode "1"): see error.c */
    size_t store_length;
    pthread_mutex_t callback_lock; /* callbacks: see callback.h */
    pthread_cond_t callback_idle;  /* one has returned, or a thread has left */
    /*
     * client/kernel: handles of kernels and binaries; and what libraries have registered. A child
     * that exits runs their destructors, which take the second one, whatever its parent did.
     */
    pthread_mutex_t kernel_lock, known_lock;
    pthread_mutex_t door_lock; /* client/core/api_call.c */
    /* threads that end and give back what they kept, and a session that goes; before its locks */
    pthread_mutex_t threads_lock;
    unsigned init_count;
    bool finalized; /* init_count has been above zero before */
    /* client/check/check_writer.c: a child that is to be checked begins a file of its own. */
    struct {
        pthread_mutex_t lock;
        struct check_head *head;   /* of the file, mapped */
        uint64_t end;              /* of the file; under lock */
        uint32_t writers;          /* that there are; under lock */
        struct check_writer *idle; /* of threads that have ended; under lock */
    } check;
};

/* At least a page of the machine: arm64 has pages of 64 KiB, too. */
#ifdef __x86_64__
#define PROCESS_PAGE ((size_t)4 << 10)
#else
#define PROCESS_PAGE ((size_t)64 << 10)
#endif

/* All of it is wiped in a forked child, so nothing else may be in its pages. */
extern union process_page {
    struct process process;
    char page[PROCESS_PAGE];
} process_page;

static struct process *const process = &process_page.process;

enum access_reader {
    ACCESS_CHECKED = 1,
    ACCESS_TRACED = 2,
};

/** This reader is told what calls read and write, or no more. Any thread. */
static inline void process_tell_accesses(enum access_reader reader, bool on)
{
    if (on)
        atomic_fetch_or_explicit(&process->accesses_told, reader, memory_order_release);
    else
        atomic_fetch_and_explicit(&process->accesses_told, ~(unsigned)reader, memory_order_release);
}

/** Is one told? */
static inline bool process_tells_accesses(void)
{
    return __builtin_expect(atomic_load_explicit(&process->accesses_told, memory_order_relaxed), 0);
}

/** The process that the library is set up in; 0: a forked child that has not called aclInit. */
pid_t process_id(void);

/** Slow part of process_enter(). */
int process_enter_slow(void) __attribute__((cold));

/** aclInit in a forked child: begin anew. */
void process_begin(void);

/** First line of every call: 0, or the error of a forked child. */
static inline int process_enter(void)
{
    if (__builtin_expect(atomic_load_explicit(&process->alive, memory_order_acquire), 1))
        return 0;
    return process_enter_slow();
}
