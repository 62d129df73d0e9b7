/*
 * The log: to the journal with structured fields when systemd started npud, to stderr otherwise.
 * Any thread. errno is kept, so a log line on an error path cannot change the error.
 *
 * Fields beside MESSAGE and PRIORITY: NPUD_SESSION, NPUD_CLIENT_PID, NPUD_CLIENT_UID for lines
 * about a session, so that `journalctl NPUD_SESSION=7` shows the life of one client; MESSAGE_ID for
 * the events that daemon/base/message_id.h names, which `journalctl -x` explains.
 *
 * The journal, and a pipe behind stderr, may stall. From log_start() on a thread writes the lines,
 * and no other thread waits for a reader; lines that find too many before them are lost and counted
 * in the log.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

/** A client as the log names it. */
struct log_client {
    uint64_t session;
    pid_t pid;
    uid_t uid;
    _Atomic bool fault_told;
    bool limit_told;
};

/** level: least important priority to show (LOG_ERR .. LOG_DEBUG). Chooses journal or stderr. */
void log_setup(int level);

/** LOG_ERR .. LOG_DEBUG for "error", "warning", "notice", "info", "debug"; -1 for other text. */
int log_level_named(const char *name);

/** Changes the level only. Any thread. */
void log_set_level(int level);

/** Starts the thread that writes. 0 or -ENOMEM: then lines are written by the thread that logs. */
int log_start(void);

/**
 * If npud crashes, lines that are not written yet go to stderr, as far as that takes them at once.
 * After log_start(). note: called before, in the thread that crashes, by a handler of signals;
 * outside: another process has sent the signal. NULL: nothing.
 */
void log_flush_on_crash(void (*note)(bool outside));

/**
 * Writes what is left, but does not wait for long, and ends the thread. Before main() returns, when
 * no other thread logs any more.
 */
void log_stop(void);

/**
 * client: the one that the line is about; NULL: none. Lines about a client, but for notices and
 * debugging lines, are not more than a few per uid and second, however many sessions it makes, and
 * half of them are not for information; how many were left out stands in the next line.
 */
void log_line(int priority, const struct log_client *client, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * A line of an event with a message id (daemon/base/message_id.h), a string constant. Errors with
 * one are of a process that goes on: see line_write().
 */
void log_event(const char *message_id, int priority, const struct log_client *client,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** A line, as it is said, for one who listens. */
struct log_told {
    const char *message_id; /* NULL: none */
    int priority;
    const struct log_client *client; /* NULL: none */
    const char *text; /* without the names of session, pid and uid; may hold any bytes */
};

/**
 * From now on the listener is called with each event, error and warning, in the thread that says
 * it, whatever level the log has, and also with those lines about a client that the log leaves out
 * because there were too many. It must not wait, and not log. NULL: nobody listens.
 */
void log_listen(void (*listener)(const struct log_told *told));

#define log_error(...)   log_line(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, NULL, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, NULL, __VA_ARGS__)

/* What clients can bring about, at warning: the log has each of these once per session. */

/** A client did something that only a broken or hostile one does. Any thread. */
void log_client_fault(struct log_client *client, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/** A client asked for more than its user may have, or than there is. Control thread. */
void log_client_limit(struct log_client *client, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
