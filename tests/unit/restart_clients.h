/*
 * Clients of the npud of restart.h that the test plays: sessions are found by the pid of their
 * process, because an npud that takes over has others in their place.
 */
#pragma once

#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/base/pidfd.h"
#include "tests/unit/restart.h"

#define CLIENTS_MAX 16

static struct {
    pid_t pid;
    int socket; /* the client's end */
} restart_client[CLIENTS_MAX];

static inline struct session *session_of(pid_t pid)
{
    struct session *s = server.sessions;

    while (s && s->pid != pid)
        s = s->next;
    return s;
}

static inline struct stream *stream_in(pid_t pid, uint32_t slot)
{
    struct stream *s = slots_get(&session_of(pid)->streams, slot);

    ck_assert_ptr_nonnull(s);
    return s;
}

static inline unsigned client_place(pid_t pid)
{
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (restart_client[i].pid == pid)
            return i;
    ck_abort_msg("no client has pid %d", (int)pid);
}

/** A session as after Hello, with all devices open. pidfd: -1, or of the process. */
static inline struct session *connect_client_of(uid_t uid, pid_t pid, int pidfd)
{
    const struct client_process client = {.pid = pid, .uid = uid, .pidfd = pidfd};
    unsigned place = client_place(0);
    struct session *s;
    int ends[2], fd;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    restart_client[place].pid = pid;
    restart_client[place].socket = ends[0];
    s = session_new_for(&server, ends[1], &client);
    ck_assert_ptr_nonnull(s);
    s->protocol = PROTOCOL;
    ck_assert_int_eq(session_hello(s, "unit test"), 0);
    for (uint32_t i = 0; i < server.devices->n; i++)
        ck_assert_int_eq(session_open_device(s, i, &fd), 0);
    kept_commit();
    return s;
}

/** The client hangs up: its session ends in the next turns. */
static inline void hang_up(pid_t pid)
{
    unsigned place = client_place(pid);

    close(restart_client[place].socket);
    restart_client[place].pid = 0;
}

static inline void hang_up_all(void)
{
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (restart_client[i].pid != 0)
            hang_up(restart_client[i].pid);
}

/** All hang up, and the last npud ends. */
static inline void stop_all(void)
{
    hang_up_all();
    npud_turn();
    restart_stop();
}

/** A process that does nothing but live. *pidfd is npud's then. */
static inline pid_t start_process(int *pidfd)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pause();
        _exit(0);
    }
    *pidfd = pidfd_open_process(pid);
    ck_assert_int_ge(*pidfd, 0);
    return pid;
}

static inline void end_process(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* --- how things are, in text that an undisturbed npud and a restarted one have alike --- */

static char restart_text[1 << 16];
static size_t restart_used;

__attribute__((format(printf, 1, 2))) static inline void tell(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    restart_used += (size_t)vsnprintf(restart_text + restart_used,
                                      sizeof(restart_text) - restart_used, format, arguments);
    va_end(arguments);
    ck_assert_uint_lt(restart_used, sizeof(restart_text));
}

/*
 * Memory of tables is charged as far as they reach: they may reach less far when they are made
 * again.
 */
static inline void tell_used(const uint64_t *used)
{
    for (int i = 0; i < RESOURCE_COUNT; i++)
        if (i != RESOURCE_TABLE_MEMORY)
            tell(" %llu", (unsigned long long)used[i]);
}

/** What each user is charged for. */
static inline void tell_charges(void)
{
    struct user *u, *next;

    HASH_ITER (hh, server.users.by_uid, u, next) {
        tell("user %u:", (unsigned)u->uid);
        tell_used(u->used);
        tell(", %u linger\n", u->n_linger);
    }
    tell("all:");
    tell_used(server.users.used);
    tell("\n");
}

/** A copy of what fn tells. */
static inline char *text_of(void (*fn)(void))
{
    char *text;

    restart_used = 0;
    restart_text[0] = '\0';
    fn();
    text = strdup(restart_text);
    ck_assert_ptr_nonnull(text);
    return text;
}

/** What is not as it should be is on standard error, as a message of the test must be short. */
static inline bool same_text(const char *wanted, const char *is)
{
    if (strcmp(wanted, is) == 0)
        return true;
    fprintf(stderr, "wanted:\n%s\nis:\n%s\n", wanted, is);
    return false;
}

/** npud is replaced, and all is as it was. */
static inline void expect_same_after_restart(void (*fn)(void))
{
    char *before = text_of(fn), *after;

    restart_npud();
    after = text_of(fn);
    ck_assert(same_text(before, after));
    free(before);
    free(after);
}
