/*
 * End-to-end tests: the real npud on a private socket, real client processes, and what npud says of
 * itself afterwards.
 *
 * check runs every test in a process of its own. The fixture starts npud before the test uses the
 * library, so nothing is forked from a process that has a session, unless that is the test.
 */
#pragma once

#include <check.h>
#include <stdint.h>
#include <sys/types.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "proto/util/clock.h"
#include "tests/common/child.h"
#include "tests/common/moment.h"
#include "tests/common/suite.h"

struct npud {
    pid_t pid;
    char dir[64];
    bool restartable;
};

/** The npud of the running test. */
extern struct npud npud;

/** Where npud's stderr goes when it is started; -1: where ours goes. */
extern int npud_stderr;

/** Start npud in a private directory with these further arguments (NULL-terminated, or NULL), and
 * point the library at it. */
void npud_start(const char *const *args);
/**
 * The same, as systemd starts it: for several users, whom npud lets in, and between whom it divides
 * what it has.
 */
void npud_start_shared(const char *const *args);
/** Fixtures: two devices. */
void npud_setup(void);
/** End npud and assert that it went well. */
void npud_teardown(void);
/** SIGKILL it. */
void npud_kill(void);
/** Something else has, and the test has waited for it. */
void npud_was_killed(void);

/**
 * Are the devices strict, so that a test may not read device memory by its address? With
 * NPUD_STRICT=1 in the environment. NPUD_LATENCY_US=n sets sim.latency_us,
 * NPUD_COPIERS=n sim.copiers.
 */
bool npud_is_strict(void);

/*
 * An npud that comes back: with NPUD_RESTARTABLE=1 in the environment, or after
 * npud_start_restartable(), npud.pid is its supervisor. These may be called from one thread at a
 * time, also while other threads use the library.
 */

/** The same as npud_start(), but it comes back. */
void npud_start_restartable(const char *const *args);
/** Does the npud of this test come back? */
bool npud_is_restartable(void);
/** The process that serves: npud.pid, if it does not come back. 0: none does at this moment. */
pid_t npud_server_pid(void);
/** The same, by the answer of the process itself: waits for one that serves. */
pid_t npud_serving_pid(void);
/** The keeper, and the server that waits. 0: there is none at this moment. */
pid_t npud_keeper_pid(void);
pid_t npud_standby_pid(void);
/** SIGKILL to the server. Returns when the next one serves. */
void npud_kill_server(void);
/** SIGKILL to the keeper. Returns when the server has given everything to the next one. */
void npud_kill_keeper(void);
/** SIGKILL to the standby. Returns when there is another. */
void npud_kill_standby(void);
/** SIGKILL to the supervisor. Returns when all processes of this npud have ended, and asserts that
 * they have left nothing. */
void npud_kill_supervisor(void);

/** What `npuctl status` would show. */
struct ledger {
    uint32_t sessions, streams, events, lingering, fds, notifies, pools;
    uint64_t memory, buffers;
};
struct ledger npud_ledger(void);

/** What all users have of a resource, by its key in [limits]. */
uint64_t npud_used(const char *resource);

/** A connection to the administrators' socket. -1: an npud that comes back does not listen yet. */
int npud_connect_admin(void);

/**
 * What npuctl prints (proto/wire/npud.proto): a report by topic, freed with
 * npud__report__free_unpacked().
 */
struct Npud__Report *npud_report(int topic);

/**
 * Run npuctl with these arguments (shell words): what it prints on either output, freed by the
 * caller, and its exit status.
 */
char *npuctl(const char *arguments, int *status);

/** The file has this text, and nothing else. */
void write_text_file(const char *path, const char *text);
/** Run it, and assert that it exits with status and prints these words. */
void npuctl_says(const char *arguments, int status, const char *words);

/** Wait until npud has this many sessions: it sees a death in its own time. Asserts that the day
 * comes. */
void npud_await_sessions(uint32_t n);

/** The same for its descriptors: large memory is closed by a thread of its own. */
void npud_await_fds(uint32_t n);

/** The number of the session of a process; 0: it has none. */
uint64_t npud_session_of(pid_t pid);

/** Does a thread of that process sleep in that function of the library, as npud sees it? */
bool npud_lists_sleeper(pid_t pid, const char *call);

/**
 * Shared buffers of all pools that are in use: held by a program, in queues, or data that others
 * have references to.
 */
uint32_t npud_buffers(void);

/** Wait until npud has no session (it sees a death in its own time), then assert that the ledger is
 * zero. */
void npud_expect_empty(void);

/** aclInit, and device 0 for the calling thread. */
void session_open(void);
/** Back to the state before session_open(). */
void session_close(void);

/** Begin a session on device 0 with these two streams. */
void streams_open(aclrtStream *one, aclrtStream *two);
/** Hold a stream at this point until the gate that this returns is opened. */
aclrtEvent stream_hold(aclrtStream stream);
/** Open a gate: from the current context's default stream, which must not be held itself. */
void stream_let_go(aclrtEvent gate);

/** Run fn(arg) in a thread of its own, from beginning to end. */
void thread_call(void *(*fn)(void *arg), void *arg);

uint64_t now_ns(void);

/** Voluntary context switches of a process and all its threads. */
uint64_t context_switches(pid_t pid);

/**
 * How long its threads have been ready to run while others had the CPU. What a promise about time
 * is judged without, on a machine that is busy with other things.
 */
uint64_t cpu_wait_ns(pid_t pid);

/**
 * Wait for a condition of npud or of another process, by asking again and again. Fails with the
 * sentence after five minutes, and at once when a child has failed.
 */
#define EVENTUALLY(condition, ...)                                                                 \
    do {                                                                                           \
        uint64_t since_ = clock_ns();                                                              \
        while (!(condition)) {                                                                     \
            child_expect_none_failed();                                                            \
            if (clock_ns() - since_ > UINT64_C(300000000000))                                      \
                ck_abort_msg(__VA_ARGS__);                                                         \
            wait_a_while(since_);                                                                  \
        }                                                                                          \
    } while (0)

/** A call that must succeed: prints code and sentence when not. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        aclError r_ = (call);                                                                      \
        if (r_ != ACL_SUCCESS)                                                                     \
            ck_abort_msg("%s: %d: %s", #call, r_, aclGetRecentErrMsg());                           \
    } while (0)

/** A call that must fail with this code and leave a sentence. */
#define FAILS(code, call)                                                                          \
    do {                                                                                           \
        aclError r_ = (call);                                                                      \
        const char *m_;                                                                            \
        ck_assert_msg(r_ == (code), "%s: %d, expected %d: %s", #call, r_, (int)(code),             \
                      aclGetRecentErrMsg());                                                       \
        m_ = aclGetRecentErrMsg();                                                                 \
        ck_assert_msg(m_ &&m_[0], "%s: %d without a sentence", #call, r_);                         \
    } while (0)

/** The same with these words in the sentence. */
#define FAILS_SAYING(code, words, call)                                                            \
    do {                                                                                           \
        aclError r_ = (call);                                                                      \
        const char *m_;                                                                            \
        ck_assert_msg(r_ == (code), "%s: %d, expected %d: %s", #call, r_, (int)(code),             \
                      aclGetRecentErrMsg());                                                       \
        m_ = aclGetRecentErrMsg();                                                                 \
        ck_assert_msg(m_ &&strstr(m_, words), "%s: %s", #call, m_);                                \
    } while (0)
