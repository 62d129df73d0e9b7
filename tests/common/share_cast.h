/*
 * A cast for tests of shared buffers and queues: processes that are told call by call what to do,
 * and messages that are accounted for.
 *
 * The test itself is no client: it directs. A member is a fork of it, so an order is any function
 * of the test with three numbers. What a member is told it does while the test goes on, until the
 * test asks for the answer: a member may sleep in a call, be stopped, or be killed.
 *
 * Messages are numbered. The number is in the user data of the head, and all over the data of each
 * buffer of the message, so that the receiver knows which message it is, and that it is whole. What
 * became of it is noted in memory shared by all.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"

#define CAST_MEMBERS  6
#define CAST_QUEUES   8
#define CAST_MESSAGES 512

/*
 * What holds in a process that works fast, or may be killed: check notes each of its own assertions
 * in a file, also when all is well, and a process that is killed while writing there leaves half a
 * note.
 */
#define MUST(what) MUST_SAY(what, "does not hold: %s", #what)
#define MUST_SAY(what, ...)                                                                        \
    do {                                                                                           \
        if (!(what))                                                                               \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

struct answer {
    aclError code;
    int64_t value;
    char sentence[256]; /* aclGetRecentErrMsg() when code is not 0 */
};

struct order {
    aclError (*fn)(const struct order *o, int64_t *value);
    int64_t a, b, c;
};

/** One message, as far as its sender and its receivers have got to note. */
struct cast_message {
    _Atomic int32_t queue; /* where it was tried to be put, + 1; 0: nowhere */
    _Atomic int32_t sender;
    _Atomic uint32_t put; /* the call has returned with success */
    _Atomic uint32_t got; /* how often it was received */
};

/** Shared by the test and the cast. */
struct cast_shared {
    _Atomic uint32_t next;             /* number of the next message, from 1 */
    _Atomic uint32_t qid[CAST_QUEUES]; /* ids of queues, by the numbers that the test gives them */
    _Atomic int32_t leads_to[CAST_QUEUES]; /* queue + 1 where its messages arrive; 0: itself */
    _Atomic int32_t pid[CAST_MEMBERS];
    _Atomic int32_t taking[CAST_MEMBERS]; /* queue + 1 that the member is taking from */
    _Atomic uint32_t puts[CAST_MEMBERS];  /* messages that it has put, ... */
    _Atomic uint32_t takes[CAST_MEMBERS]; /* ... and taken */
    struct cast_message message[CAST_MESSAGES];
};
extern struct cast_shared *cast;

/** Map what is shared. Before the members are started. */
void cast_begin(void);
/** Unmap it, after they have ended. */
void cast_finish(void);

/** Start a member, which makes a session at once when it says hello. */
void member_start(int who, bool hello);
pid_t member_pid(int who);
/** Tell it to do something; only when it has answered what it was told before. */
void member_tell(int who, struct order o);
/** Has it answered? Looks, or waits so long. False also when it has died. */
bool member_answered(int who, int ms);
/** Its answer. Asserts that it comes. */
struct answer member_answer(int who);
/** Both. */
struct answer member_do(int who, struct order o);
/** Both, and it must succeed. Returns the value. */
int64_t member_does(int who, struct order o);
/** It must fail with this code. */
void member_fails(int who, aclError code, struct order o);
/** Leave, and reap. */
void member_end(int who);
/** SIGKILL, and reap. */
void member_kill(int who);
/** It has died by SIGKILL: reap it. */
void member_reap(int who);
/**
 * Does the member sleep in this function of the API? It is on npud's list of waiters, and not about
 * to run.
 */
bool member_sleeps(int who, const char *call);
/** Wait until it does. */
void member_await_sleep(int who, const char *call);

/* --- orders --- */

/** Make queue a of depth b. */
aclError order_create(const struct order *o, int64_t *value);
aclError order_destroy(const struct order *o, int64_t *value);
/** Grant queue a to pid b with rights c. */
aclError order_grant(const struct order *o, int64_t *value);
/** Attach queue a, waiting b ms; value: the rights. */
aclError order_attach(const struct order *o, int64_t *value);
/** Put a new message of b buffers into queue a, waiting c ms. value: its number. */
aclError order_put(const struct order *o, int64_t *value);
/** The same, and keep a reference to it. */
aclError order_put_keep(const struct order *o, int64_t *value);
/** Take a message from queue a, waiting b ms, and keep it. value: its number. */
aclError order_take(const struct order *o, int64_t *value);
/** Take a message from queue a, waiting b ms, and free it. value: its number. */
aclError order_take_free(const struct order *o, int64_t *value);
/**
 * Put a message that is kept, the newest one, into queue a, waiting c ms. value: its new number.
 */
aclError order_pass(const struct order *o, int64_t *value);
/** Take all that is in queue a, and free it. value: how many messages. */
aclError order_drain(const struct order *o, int64_t *value);
/** All that the member keeps is still whole. */
aclError order_check(const struct order *o, int64_t *value);
/** Free all that it keeps. */
aclError order_drop(const struct order *o, int64_t *value);
/**
 * Allocate a buffers of the usual size, which must all be different, write to them, and free them.
 */
aclError order_churn(const struct order *o, int64_t *value);

/* --- for orders of the tests' own, in members --- */

/** What the member keeps. */
acltdtBuf kept_newest(void);
void keep(acltdtBuf buf);
/** Take it off the list. */
acltdtBuf unkeep(void);
int member_self(void);
uint32_t queue_id(int64_t queue);
/** A message of n buffers with a new number. */
acltdtBuf message_make(unsigned n, uint32_t *number);
/** Give the message, or a copy of it, a new number; the data keep the old one. */
uint32_t message_renumber(acltdtBuf buf);
/** Assert that it is whole. Returns its number. */
uint32_t message_check(acltdtBuf buf);
/**
 * What is noted around a call that puts a message, and around one that takes one; number 0: it did
 * not.
 */
void message_put_begins(int64_t queue, uint32_t number);
void message_put_ends(uint32_t number, aclError result);
void message_take_begins(int64_t queue);
void message_take_ends(int64_t queue, uint32_t number);
/** acltdtEnqueue() of it, noted. */
aclError message_put(int64_t queue, acltdtBuf buf, uint32_t number, int32_t timeout);
/** acltdtDequeue(), noted and checked. */
aclError message_take(int64_t queue, int32_t timeout, acltdtBuf *buf, uint32_t *number);

/* --- what npud has --- */

struct shared_left {
    size_t pools, queues, grants;
    /*
     * that sessions hold, or are in queues, or have data that others refer to; not what caches have
     * set aside
     */
    uint64_t buffers;
};
struct shared_left shared_left(void);
/** Assert that npud comes to have so many buffers in so many pools. */
void shared_await(uint64_t buffers, size_t pools);
/** Assert that it comes to have nothing of the kind, after all sessions have ended. */
void shared_expect_empty(void);
