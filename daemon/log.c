#include "daemon/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/session.h"

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
        n = snprintf(text, sizeof(text), "session %llu (pid %d): ", (unsigned long long)session->id,
                     (int)session->pid);
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

void log_client_fault(struct session *session, const char *fmt, ...)
{
    va_list ap;

    /* Engines and the control thread may both see faults of one session: the first one is the one
     * that is told. */
    if (atomic_exchange(&session->fault_logged, true))
        return;
    va_start(ap, fmt);
    log_va(LOG_WARNING, session, fmt, ap);
    va_end(ap);
}
