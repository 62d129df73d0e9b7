/*
 * Contexts and the binding of threads to them. A context is a matter of this process alone: npud
 * knows sessions, devices and streams.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/session.h"
#include "client/core/thread.h"
#include "proto/util/slots.h"

struct stream;
struct worker;

#define CONTEXT_OPTIONS 3 /* ACL_OPT_DETERMINISTIC to ACL_OPT_STRONG_CONSISTENCY */

struct context {
    struct slot slot; /* in session->contexts */
    struct session *session;
    uint32_t device;
    bool primary;
    bool hidden;     /* context_lock_copier() */
    uint32_t number; /* npud's name of it: no two of a session have the same */
    /* failure mode: on a failure all its streams stop; written under a lock of one of them */
    _Atomic bool stop;
    struct stream *default_stream;
    _Atomic uint8_t option[CONTEXT_OPTIONS]; /* its value + 1; 0: not set */
    struct worker *host; /* runs its host functions; NULL: none launched so far */
    /* Once a reset ends it: a kernel may run for so long after that began; 0: for ever */
    uint64_t kernel_ns, ends_ns;
};

/** The current context if there is one and it is alive; no binding to a default device, no error.
 */
static inline struct context *context_peek(struct thread *t)
{
    struct context *c = t->context;
    struct session *s = session_peek();

    /* The object's memory is type-stable within its session; the tag tells whether it is still the
     * one that was bound. */
    if (__builtin_expect(c != NULL && s != NULL && t->session == s->serial &&
                             atomic_load_explicit(&c->slot.tag, memory_order_acquire) ==
                                 t->context_tag,
                         1))
        return c;
    return NULL;
}

/**
 * Does the calling thread work in c, and does c live? Asked for what goes with the device when that
 * is reset: npud has given it, and it enters its table only if this holds under the lock by which a
 * reset empties the table (memory_lock, memory_pool_lock). A context dies before its device takes
 * these locks, so what enters is there to be taken, and what comes late goes back to npud.
 */
static inline bool context_is_current(const struct context *c)
{
    return context_peek(thread_self()) == c;
}

/**
 * A kernel must not call this: it would wait for the end of what it is itself, or end that. 0, or
 * 207000 inside of a kernel.
 */
int context_refuse_kernel(const char *function);

/** 107002, with its sentence: the context ended during the call. */
int context_error_gone(const char *function) __attribute__((cold));

/**
 * The current context, binding the default device of acl.json if one is configured. NULL with
 * *error set (forked, 107002); *error is 0 otherwise.
 */
struct context *context_get_slow(const char *function, int *error) __attribute__((cold));

static inline struct context *context_get(const char *function, int *error)
{
    struct context *c;

    if (__builtin_expect(atomic_load_explicit(&process->alive, memory_order_acquire), 1)) {
        c = context_peek(thread_self());
        *error = 0;
        if (__builtin_expect(c != NULL && !session_lost(c->session), 1))
            return c;
    }
    return context_get_slow(function, error);
}

/**
 * Lock a stream on the device that the program does not know of: for copies that the library makes.
 * It stops at no failure of others, and is there until the last context of the device ends. NULL
 * with *error set.
 */
struct stream *context_lock_copier(struct session *s, const char *function, uint32_t device,
                                   int *error);

/** Will context_lock_copier() make one more stream on the device of c, when it is first called? */
bool context_will_copy(struct context *c);

/** The device of c may reach the other device, as after aclrtDeviceEnablePeerAccess. */
void context_enable_peer_device(struct context *c, uint32_t peer);
