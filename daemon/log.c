#include "daemon/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/session.h"
#include "proto/clock.h"

static int log_level = LOG_INFO;
static bool to_journal;

/* systemd names the journal socket that it connected stderr to; a redirected stderr is somebody
 * else's file. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void log_setup(int level)
{
    log_level = level;
    to_journal = stderr_is_journal();
}

/* Text may contain what a client sent: control bytes must not reach a terminal or break a line. */
static void escape(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            *s = '?';
}

static void log_text(int priority, const struct session *session, const char *text)
{
    static const char *const names[] = {"", "", "", "error", "warning", "notice", "info", "debug"};

    if (to_journal && session)
        sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", priority, "NPUD_SESSION=%llu",
                        (unsigned long long)session->id, "NPUD_CLIENT_PID=%d", (int)session->pid,
                        "NPUD_CLIENT_UID=%u", (unsigned)session->uid, NULL);
    else if (to_journal)
        sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", priority, NULL);
    else
        fprintf(stderr, "npud: %s: %s\n", names[priority], text);
}

static void log_va(int priority, const struct session *session, const char *fmt, va_list ap)
{
    int saved = errno;
    char text[1024];
    int n = 0;

    if (priority > log_level)
        return;
    if (session)
        n = snprintf(text, sizeof(text),
                     "session %llu (pid %d, uid %u): ", (unsigned long long)session->id,
                     (int)session->pid, (unsigned)session->uid);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    escape(text);
    log_text(priority, session, text);
    errno = saved;
}

void log_line(int priority, const struct session *session, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_va(priority, session, fmt, ap);
    va_end(ap);
}

/*
 * Each session has its lines counted, but a client can have many sessions, one after the other: lines per uid, as many as
 * LINES_BURST at once and one more every LINE_NS. Uids that have said nothing for long have their places taken.
 */
#define LINES_BURST 20
#define LINE_NS     NSEC_PER_SEC
#define LINE_UIDS   64

static struct {
    uid_t uid;
    uint64_t full_at; /* CLOCK_MONOTONIC: when it may have the whole burst again; 0: free */
    uint64_t left_out;
} line_uids[LINE_UIDS];
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;

/* True when uid may have a line now; then *left_out is how many it had not been given before. */
static bool take_line(uid_t uid, uint64_t *left_out)
{
    uint64_t now = clock_ns();
    unsigned place = 0;
    bool ok;

    pthread_mutex_lock(&line_lock);
    for (unsigned i = 0; i < LINE_UIDS; i++) {
        if (line_uids[i].full_at != 0 && line_uids[i].uid == uid) {
            place = i;
            break;
        }
        if (line_uids[i].full_at < line_uids[place].full_at)
            place = i;
    }
    if (line_uids[place].uid != uid || line_uids[place].full_at < now) {
        line_uids[place].left_out = line_uids[place].uid == uid ? line_uids[place].left_out : 0;
        line_uids[place].uid = uid;
        line_uids[place].full_at = now;
    }
    ok = line_uids[place].full_at - now <= (LINES_BURST - 1) * LINE_NS;
    *left_out = line_uids[place].left_out;
    if (ok)
        line_uids[place].full_at += LINE_NS;
    line_uids[place].left_out = ok ? 0 : *left_out + 1;
    pthread_mutex_unlock(&line_lock);
    return ok;
}

static void log_client(struct session *session, const char *fmt, va_list ap)
{
    uint64_t left_out;
    char text[512];

    if (!take_line(session->uid, &left_out))
        return;
    vsnprintf(text, sizeof(text), fmt, ap);
    if (left_out)
        log_line(LOG_WARNING, session, "%s (and %llu more of this user before)", text,
                 (unsigned long long)left_out);
    else
        log_line(LOG_WARNING, session, "%s", text);
}

void log_client_fault(struct session *session, const char *fmt, ...)
{
    va_list ap;

    /* Engines and the control thread may both see faults of one session: the first one is the one
     * that is told. */
    if (atomic_exchange(&session->fault_logged, true))
        return;
    va_start(ap, fmt);
    log_client(session, fmt, ap);
    va_end(ap);
}

void log_client_limit(struct session *session, const char *fmt, ...)
{
    va_list ap;

    if (session->limit_logged)
        return;
    session->limit_logged = true;
    va_start(ap, fmt);
    log_client(session, fmt, ap);
    va_end(ap);
}
