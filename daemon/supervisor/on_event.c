/* What can happen to a supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/service_manager.h"
#include "daemon/base/supervisor_message.h"
#include "daemon/supervisor/lease.h"
#include "daemon/supervisor/supervisor.h"
#include "proto/util/clock.h"

#define BEGINNINGS_MAX 5
#define UNANSWERED_MAX 2 /* PINGs */

static void tell(const struct child *child, enum supervisor_operation operation, uint32_t value,
                 const char *text)
{
    if (child->socket >= 0)
        supervisor_message_send(child->socket, operation, value, text, NULL, 0);
}

/* --- signals --- */

static void on_end_signal(struct supervisor *s, int number)
{
    s->end_signal = number;
    /* For `restart` as for `stop`. With the last supervisor systemd lets the life line go. */
    if (s->fd_store)
        s->over = true;
    else
        tell(&s->server, SUPERVISOR_END, (uint32_t)number, NULL);
}

/* --- candidates: a new standby, or the installed program --- */

static void refuse_upgrade(struct supervisor *s, const char *why)
{
    log_event(MESSAGE_UPGRADE_REFUSED, LOG_WARNING, NULL, "no upgrade: %s", why);
    tell(&s->server, SUPERVISOR_REFUSED, 0, why);
}

static void drop_candidate(struct supervisor *s, const char *why)
{
    if (s->candidate.state == CHILD_NONE)
        return;
    if (s->candidate_for == CANDIDATE_UPGRADE)
        refuse_upgrade(s, why);
    child_discard(&s->candidate);
}

/*
 * Its candidate is the standby, and cannot take the server's place. The standbys that follow are of
 * the program that serves. A server of an earlier supervisor is still to be replaced.
 */
static void give_up_upgrade(struct supervisor *s, const char *why)
{
    struct executable *serves = s->server.program ? s->server.program : s->good_program;

    if (!s->upgrading || !s->replace) /* else it has been let go */
        return;
    refuse_upgrade(s, why);
    s->upgrading = s->no_standby = false;
    s->replace = s->server.state == CHILD_SERVING && s->server.pid == 0;
    if (serves)
        executable_set(&s->program, serves);
}

/* A standby has the configuration of its start. */
static void renew_standby(struct supervisor *s)
{
    drop_candidate(s, "the configuration is read again meanwhile: try again");
    s->candidate_for = CANDIDATE_STANDBY;
    server_start(s, &s->candidate, s->program, false);
}

/* By its path: the installed file is a new one, which was renamed over the old one. */
static void begin_upgrade(struct supervisor *s)
{
    char why[SUPERVISOR_TEXT];
    struct executable *program;
    int r = executable_open(&program, s->npud);

    /* Not refused: its server has died, or asks again after this. The next one answers for both. */
    child_discard(&s->candidate);
    s->candidate_for = CANDIDATE_UPGRADE;
    if (r < 0) {
        snprintf(why, sizeof(why), "%s: %s", s->npud, strerror(-r));
        refuse_upgrade(s, why);
    } else if (server_start(s, &s->candidate, program, true) < 0) {
        refuse_upgrade(s, "the installed program cannot be started: the log says why");
    }
    executable_drop(&program);
}

static void candidate_is_prepared(struct supervisor *s)
{
    child_discard(&s->standby);
    s->standby = s->candidate;
    s->candidate = CHILD_NULL;
    s->no_standby = false;
    executable_set(&s->program, s->standby.program);
    if (s->candidate_for == CANDIDATE_UPGRADE) {
        log_event(MESSAGE_UPGRADE_BEGINS, LOG_NOTICE, NULL,
                  "the installed program takes the server's place");
        s->replace = s->upgrading = true;
    }
}

void on_signal(struct supervisor *s, int number)
{
    if (number != SIGHUP) {
        on_end_signal(s, number);
        return;
    }
    s->no_standby = false;
    supervisor_open_lease(s); /* if there is none */
    tell(&s->server, SUPERVISOR_RELOAD, 0, NULL);
    if (s->server.state == CHILD_SERVING)
        renew_standby(s);
}

/* --- messages of servers --- */

/*
 * Of an earlier supervisor. What is installed or configured now cannot serve, or no keeper has what
 * it would need: the start of the service is over all the same, and it can be mended while clients
 * are served.
 */
static void keep_old_server(struct supervisor *s)
{
    if (!s->replace || s->upgrading)
        return;
    log_event(MESSAGE_NO_SUCCESSOR, LOG_ERR, NULL,
              "no server can take the place of the one that serves: it goes on. Mend what the log "
              "says, and reload or restart npud");
    service_manager_tell("READY=1\nSTATUS=the server of before goes on: see the log");
}

static void on_prepared(struct supervisor *s, struct child *child, bool can)
{
    child->deadline_ns = 0;
    child->state = can ? CHILD_PREPARED : CHILD_CANNOT;
    if (child == &s->standby && (!can || s->lease < 0))
        keep_old_server(s);
    if (child == &s->candidate && can && child->can_read)
        candidate_is_prepared(s);
    else if (child == &s->candidate)
        drop_candidate(s, "the installed program cannot serve: the log says why");
}

/* Its number stays taken: the supervisor may execute itself again, with the same options. */
static void tell_ready(struct supervisor *s)
{
    int null;

    if (s->ready_fd < 0 || s->told_ready)
        return;
    s->told_ready = true;
    if (write(s->ready_fd, "\n", 1) != 1)
        log_warning("cannot write to the descriptor of --ready-fd: %m");
    if (s->ready_fd <= STDERR_FILENO)
        return;
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup3(null, s->ready_fd, O_CLOEXEC) < 0)
        log_warning("/dev/null: %m");
    if (null >= 0)
        close(null);
}

static void on_serving(struct supervisor *s, struct child *child)
{
    if (child != &s->server)
        return;
    child->state = CHILD_SERVING;
    child->deadline_ns = 0;
    s->served = true;
    s->cause = SUPERVISOR_KILLED;
    s->anew_failed = 0;
    executable_set(&s->good_program, child->program);
    s->no_standby = false;
    /* Else the program that was asked for is the standby's, which is about to replace this one. */
    if (child->program == s->program) {
        s->again = s->again || s->upgrading;
        s->upgrading = false;
    }
    tell_ready(s);
}

/* False: there was none. */
static bool hear(struct supervisor *s, struct child *child)
{
    struct supervisor_message m;
    size_t n;
    int r = supervisor_message_receive(child->socket, &m, NULL, 0, &n, MSG_DONTWAIT);

    if (r == -EAGAIN)
        return false;
    if (r <= 0) { /* it ends; its pidfd has the rest */
        close(child->socket);
        child->socket = -1;
        return false;
    }
    switch (m.operation) {
    case SUPERVISOR_PREPARED:
    case SUPERVISOR_CANNOT:
        on_prepared(s, child, m.operation == SUPERVISOR_PREPARED);
        break;
    case SUPERVISOR_SERVING:
        on_serving(s, child);
        break;
    case SUPERVISOR_ALIVE:
        child->unanswered = 0;
        break;
    case SUPERVISOR_LOST:
        if (s->lease >= 0 && m.value == child->lease)
            shutdown(s->lease, SHUT_RDWR); /* it hangs: as if it had died */
        break;
    case SUPERVISOR_KEPT:
        child->kept = m.value;
        break;
    case SUPERVISOR_UPGRADE:
        begin_upgrade(s);
        break;
    case SUPERVISOR_CAN_READ:
        child->can_read = m.value != 0;
        if (child == &s->candidate && !child->can_read)
            drop_candidate(s, m.text);
        break;
    default: /* of a later version */
        break;
    }
    return true;
}

void on_message(struct supervisor *s, struct child *child)
{
    hear(s, child);
}

/* --- ends --- */

/* False: the program that has failed is the one that has served last. */
static bool use_good_program(struct supervisor *s, const struct executable *failed)
{
    if (!s->good_program || s->good_program == failed)
        return false;
    log_event(MESSAGE_UPGRADE_TAKEN_BACK, LOG_ERR, NULL,
              "the program that was installed last does not recover: the one before serves again");
    child_discard(&s->standby);
    if (s->candidate_for == CANDIDATE_STANDBY)
        child_discard(&s->candidate); /* of the same program as the standby */
    s->upgrading = false;
    executable_set(&s->program, s->good_program);
    return true;
}

/*
 * What has served last has no part in the failure of what came after it: that does not count.
 * npuctl asks three times for an upgrade, and the sessions would end with the third.
 */
static void recovery_has_failed(struct supervisor *s, const struct executable *failed)
{
    if (use_good_program(s, failed) || !attempts_failed(&s->recoveries, clock_ns()))
        return;
    log_event(MESSAGE_SESSIONS_LOST, LOG_ERR, NULL,
              "npud could not be recovered three times within a minute: it starts anew, without "
              "the sessions that were connected");
    s->cause |= SUPERVISOR_CLEAN;
}

/*
 * In a row, and not within a time: however long each of them takes, none will serve. Not at the
 * first one: memory may be short for a moment.
 */
static void beginning_has_failed(struct supervisor *s)
{
    if (++s->anew_failed < BEGINNINGS_MAX)
        return;
    log_error("npud has begun anew %u times in a row, and each time it has failed before it "
              "served: it is not started again. The lines before this one say how it failed",
              s->anew_failed);
    s->over = true;
    s->status = 1;
}

static void say_end(pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_event(MESSAGE_SERVER_ENDED, LOG_WARNING, NULL,
                  "the server (pid %d) was ended by signal %d (%s): the next one serves", (int)pid,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        log_event(MESSAGE_SERVER_ENDED, LOG_WARNING, NULL,
                  "the server (pid %d) has ended with status %d: the next one serves", (int)pid,
                  WEXITSTATUS(status));
}

/* One that exits has said why itself. */
static void say_last_end(pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_error("the server (pid %d) was ended by signal %d (%s): npud ends", (int)pid,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* Nothing else is to be tried. */
static bool is_final(const struct supervisor *s, enum child_state state, int status,
                     bool from_outside)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (s->end_signal && state == CHILD_SERVING && !from_outside)
        return true; /* a fault of its end: the next one would have the same */
    return state == CHILD_GOING && WIFEXITED(status) && !s->served;
}

/*
 * Why the last server that has served has ended. One that has not served leaves that to the next
 * one: what it lacked (memory, descriptors) is no fault of the sessions. If it crashed by their
 * tasks, it has noted that itself (daemon/kept/blame.h).
 */
static enum supervisor_cause cause_now(const struct supervisor *s, const struct child *was,
                                       bool from_outside)
{
    uint32_t cause = s->cause & ~(uint32_t)SUPERVISOR_CLEAN;

    if (was->state == CHILD_GOING) /* the first one may have made its sockets */
        return cause == SUPERVISOR_FIRST ? SUPERVISOR_KILLED : (enum supervisor_cause)cause;
    if (was->hung)
        return SUPERVISOR_HUNG;
    return from_outside ? SUPERVISOR_KILLED : SUPERVISOR_CRASHED;
}

static bool is_sigkill(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void follow_server(struct supervisor *s, const struct child *was, int status)
{
    bool from_outside = is_sigkill(status) && !was->hung;

    if (is_final(s, was->state, status, from_outside)) {
        say_last_end(was->pid, status);
        s->over = true;
        s->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        return;
    }
    if (!was->killed && was->pid > 0)
        say_end(was->pid, status);
    s->cause = (s->cause & SUPERVISOR_CLEAN) | cause_now(s, was, from_outside);
    if (was->state != CHILD_GOING || from_outside)
        return;
    if (s->cause & SUPERVISOR_CLEAN)
        beginning_has_failed(s);
    else
        recovery_has_failed(s, was->program);
}

static void on_server_end(struct supervisor *s)
{
    struct child was;
    int status;

    while (s->server.socket >= 0 && hear(s, &s->server))
        ; /* its last words: that it serves, for one */
    was = s->server;
    executable_use(was.program);
    status = child_reap(&s->server);
    s->standbys = (struct attempts){{0}}; /* what failed beside it does not count without it */
    follow_server(s, &was, status);
    executable_drop(&was.program);
}

/* Which file could not be executed, and why. It has said nothing itself. */
static void describe_exec_failure(char *text, size_t size, const struct executable *program,
                                  int error)
{
    char path[256];

    executable_path(program, path, sizeof(path));
    snprintf(text, size, "%s cannot be executed: %s", path, strerror(error));
}

static void say_standby_end(const struct child *was, int status)
{
    char text[SUPERVISOR_TEXT];
    int error = child_exec_error(status);

    if (error != 0) {
        describe_exec_failure(text, sizeof(text), was->program, error);
        log_error("a standby (pid %d) cannot be started: %s", (int)was->pid, text);
    } else if (WIFSIGNALED(status)) {
        log_error("a standby (pid %d) was ended as it started by signal %d (%s)", (int)was->pid,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        log_error("a standby (pid %d) has ended as it started with status %d", (int)was->pid,
                  WEXITSTATUS(status));
    }
}

/* By a failed exec there is no status of npud's own. */
static int end_status(int status)
{
    if (!WIFEXITED(status) || child_exec_error(status) != 0 || WEXITSTATUS(status) == 0)
        return 1;
    return WEXITSTATUS(status);
}

/* None can be started beside the server that serves. */
static void on_no_standby(struct supervisor *s)
{
    s->no_standby = true;
    give_up_upgrade(s, "the installed program cannot be started again: the log says why");
    if (s->no_standby)
        keep_old_server(s);
}

void on_standby_failed(struct supervisor *s, int status)
{
    bool third = attempts_failed(&s->standbys, clock_ns());

    if (s->server.state != CHILD_NONE) {
        if (third)
            on_no_standby(s);
        return;
    }
    if (!third && s->served)
        return;
    s->over = true;
    s->status = status;
}

static void on_standby_end(struct supervisor *s)
{
    struct child was = s->standby;
    int status;

    executable_use(was.program);
    status = child_reap(&s->standby);
    if (was.state == CHILD_STARTED && (!is_sigkill(status) || was.hung)) {
        say_standby_end(&was, status);
        on_standby_failed(s, end_status(status));
    } /* else another is started */
    executable_drop(&was.program);
}

static void on_candidate_end(struct supervisor *s)
{
    char text[SUPERVISOR_TEXT] = "the installed program ends at its start: the log says why";
    struct child was = s->candidate;
    int error;

    executable_use(was.program);
    error = child_exec_error(child_reap(&s->candidate));
    if (error != 0)
        describe_exec_failure(text, sizeof(text), was.program, error);
    executable_drop(&was.program);
    if (s->candidate_for == CANDIDATE_UPGRADE)
        refuse_upgrade(s, text);
}

void on_end(struct supervisor *s, struct child *child)
{
    if (child == &s->server)
        on_server_end(s);
    else if (child == &s->standby)
        on_standby_end(s);
    else if (child == &s->candidate)
        on_candidate_end(s);
    else if (s->lease >= 0)
        on_lease_lost(s); /* which hangs up, too */
    else
        child_reap(child); /* the keeper of a lease that is given up */
}

void on_deadline(struct child *child)
{
    log_error("the server (pid %d) hangs as it starts: killed", (int)child->pid);
    child->deadline_ns = 0;
    child->hung = true;
    child_kill(child);
}

/* --- the keeper, the watchdog --- */

/* One of our own that has ended by itself: a kill is followed as often as it comes. */
static bool keeper_has_failed(struct supervisor *s)
{
    char text[SUPERVISOR_TEXT] = "it has ended";
    struct child was = s->keeper;
    int status, error;

    if (was.pid == 0)
        return false;
    executable_use(was.program);
    child_kill(&s->keeper);
    status = child_reap(&s->keeper);
    error = child_exec_error(status);
    if (error != 0)
        describe_exec_failure(text, sizeof(text), was.program, error);
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "it was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    executable_drop(&was.program);
    if (is_sigkill(status) || status == 0)
        return false;
    log_error("the keeper (pid %d) has failed: %s", (int)was.pid, text);
    return true;
}

static void go_on_without_keeper(struct supervisor *s)
{
    static const char why[] = "npud has no keeper any more: try again";

    drop_candidate(s, why);
    give_up_upgrade(s, why);
    child_discard(&s->standby); /* it may wait for another lease; the next one has none */
}

void on_lease_lost(struct supervisor *s)
{
    close(s->lease);
    s->lease = -1;
    if (keeper_has_failed(s) && attempts_failed(&s->keepers, clock_ns())) {
        log_error("npud goes on without a keeper: the end of its server would be that of all "
                  "sessions. Mend what the log says, and reload npud");
    } else {
        log_event(MESSAGE_KEEPER_ENDED, LOG_WARNING, NULL,
                  "the keeper has ended: the server gives everything to another");
        supervisor_open_lease(s);
    }
    if (s->lease < 0)
        go_on_without_keeper(s);
}

/*
 * It has been killed, for the next one or because it hung, and is not gone yet: much memory takes
 * long to free, and the kernel may wait for a device. It cannot answer any more, and that is no
 * fault of a session.
 */
static void await_killed(struct child *server)
{
    if (server->unanswered++ == UNANSWERED_MAX)
        log_warning("the server (pid %d) was killed and has not ended yet: the next one waits for "
                    "that",
                    (int)server->pid);
}

/* Twice per period. A server that has let a whole period pass hangs. */
void on_watchdog(struct supervisor *s)
{
    s->next_watchdog_ns = clock_ns() + s->watchdog_ns;
    service_manager_tell("WATCHDOG=1");
    if (s->server.state != CHILD_SERVING || s->server.socket < 0)
        return;
    if (s->server.killed) {
        await_killed(&s->server);
        return;
    }
    if (s->server.unanswered >= UNANSWERED_MAX) {
        log_event(MESSAGE_SERVER_HANGS, LOG_ERR, NULL,
                  "the server (pid %d) does not answer: killed", (int)s->server.pid);
        s->server.hung = true;
        child_kill(&s->server);
        return;
    }
    s->server.unanswered++;
    tell(&s->server, SUPERVISOR_PING, 0, NULL);
}
