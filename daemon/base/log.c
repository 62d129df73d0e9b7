#include "daemon/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/base/message_id.h"
#include "daemon/base/outbox.h"
#include "proto/util/clock.h"

#define LINES_WAITING 1024 /* while the reader of the log does not read */
#define STOP_MS       500  /* for what is left when npud ends */

static _Atomic int log_level = LOG_INFO;
static bool to_journal;
static void (*_Atomic listener)(const struct log_told *told);
static struct outbox *outbox; /* NULL: lines are written at once, by their thread */

/* systemd names the journal socket that it connected stderr to; a redirected stderr is a file of
 * the program that started npud. */
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

static const char *const level_names[] = {
    [LOG_ERR] = "error", [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

int log_level_named(const char *name)
{
    for (int level = LOG_ERR; level <= LOG_DEBUG; level++)
        if (strcmp(level_names[level], name) == 0)
            return level;
    return -1;
}

void log_set_level(int level)
{
    log_level = level;
}

/*
 * Text may contain what a client sent: control bytes must not reach a terminal or break a line, nor
 * bytes that are control characters, or parts of characters, in some encoding. They become \xHH.
 * So does a backslash, so that no text looks like an escaped one. What does not fit is left out.
 */
static void escape_text(char *to, size_t size, const char *from)
{
    static const char digits[] = "0123456789abcdef";

    for (; *from; from++) {
        unsigned char byte = (unsigned char)*from;
        bool plain = byte >= ' ' && byte < 0x7f && byte != '\\';
        size_t n = plain ? 1 : 4;

        if (size <= n)
            break;
        if (plain) {
            *to = *from;
        } else {
            to[0] = '\\';
            to[1] = 'x';
            to[2] = digits[byte >> 4];
            to[3] = digits[byte & 15];
        }
        to += n;
        size -= n;
    }
    *to = '\0';
}

/* A line on its way to the reader. */
struct line {
    int priority;
    const char *message_id; /* NULL: none */
    bool of_session;
    uint64_t session;
    pid_t pid;
    uid_t uid;
    char text[1024]; /* sent as far as it is used */
};

/* Not by stdio: a stalled write would keep a lock that the end of the process takes. */
static void write_stderr(const struct line *line)
{
    char text[sizeof(line->text) + 32];
    int n = to_journal ? snprintf(text, sizeof(text), "<%d>%s\n", line->priority, line->text)
                       : snprintf(text, sizeof(text), "npud: %s: %s\n", level_names[line->priority],
                                  line->text);

    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* there is no other place to say so */
}

static void send_to_journal(const struct line *line)
{
    char message[sizeof(line->text) + 16], other[5][64];
    struct iovec fields[6] = {{message, 0}};
    int n = 0;

    snprintf(message, sizeof(message), "MESSAGE=%s", line->text);
    snprintf(other[n++], sizeof(other[0]), "PRIORITY=%d", line->priority);
    if (line->message_id)
        snprintf(other[n++], sizeof(other[0]), "MESSAGE_ID=%s", line->message_id);
    if (line->of_session) {
        snprintf(other[n++], sizeof(other[0]), "NPUD_SESSION=%llu",
                 (unsigned long long)line->session);
        snprintf(other[n++], sizeof(other[0]), "NPUD_CLIENT_PID=%d", (int)line->pid);
        snprintf(other[n++], sizeof(other[0]), "NPUD_CLIENT_UID=%u", (unsigned)line->uid);
    }
    fields[0].iov_len = strlen(message);
    for (int i = 0; i < n; i++)
        fields[i + 1] = (struct iovec){other[i], strlen(other[i])};
    sd_journal_sendv(fields, n + 1);
}

/*
 * An error may be the last that a process says. journald looks in /proc for the unit of a message's
 * sender, and finds none when that has ended: journalctl -u would not show the line that says why.
 * What comes over standard error has the unit of that, and no other fields.
 */
static void line_write(const struct line *line)
{
    if (to_journal && (line->of_session || line->message_id || line->priority > LOG_ERR))
        send_to_journal(line);
    else
        write_stderr(line);
}

/* On the thread of the log. */
static void line_deliver(const void *message, size_t size, uint64_t lost)
{
    struct line line = {.priority = LOG_WARNING, .message_id = MESSAGE_LINES_LOST}, given;

    if (lost > 0) {
        snprintf(line.text, sizeof(line.text),
                 "%llu log lines are lost: the reader of the log did not keep up",
                 (unsigned long long)lost);
        line_write(&line);
    }
    memcpy(&given, message, size);
    line_write(&given);
}

int log_start(void)
{
    outbox = outbox_new(line_deliver, LINES_WAITING);
    return outbox ? 0 : -ENOMEM;
}

/* By no more than write(): it is a signal handler, and must not wait for the reader either. */
static void write_crashed(const void *message, size_t size)
{
    static const char name[] = "npud: ";
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct iovec parts[] = {{(char *)name, sizeof(name) - 1}, {NULL, 0}, {(char *)"\n", 1}};

    parts[1].iov_base = (char *)message + offsetof(struct line, text);
    parts[1].iov_len = size - offsetof(struct line, text) - 1;
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && writev(STDERR_FILENO, parts, 3) < 0)
        return; /* there is no other place to say so */
}

static void (*noted)(bool outside);

/* kill(2) of another process, or the fault of an instruction or of abort(3). */
static bool is_from_outside(const siginfo_t *info)
{
    return info->si_code <= 0 && info->si_pid != getpid();
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (noted)
        noted(is_from_outside(info));
    outbox_crash(outbox, write_crashed);
    raise(signal); /* now with its default action, after the return */
}

/* The sanitizers have handlers of their own, which say more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRASHES_ARE_TAKEN true
#else
#define CRASHES_ARE_TAKEN false
#endif

void log_flush_on_crash(void (*note)(bool outside))
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = (int)SA_RESETHAND | SA_SIGINFO};

    noted = note;
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]) && !CRASHES_ARE_TAKEN; i++)
        sigaction(crashes[i], &action, NULL);
}

void log_stop(void)
{
    outbox = outbox_free(outbox, STOP_MS);
}

/*
 * A client can have many sessions, one after the other: lines per uid, as many as LINES_BURST at
 * once and one more every LINE_NS. Half of them are for what is more than information, so that no
 * user hides a warning behind much talk. Uids that have said nothing for long have their places
 * taken.
 */
#define LINES_BURST 20
#define LINES_INFO  10
#define LINE_NS     NSEC_PER_SEC
#define LINE_UIDS   64

static struct {
    uid_t uid;
    uint64_t full_at; /* CLOCK_MONOTONIC: when it may have the whole burst again; 0: free */
    uint64_t left_out;
} line_uids[LINE_UIDS];
static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;

/* True when uid may have a line now; then *left_out is how many it had not been given before. */
static bool take_line(uid_t uid, int priority, uint64_t *left_out)
{
    uint64_t now = clock_ns(), burst = priority < LOG_INFO ? LINES_BURST : LINES_INFO;
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
    ok = line_uids[place].full_at - now <= (burst - 1) * LINE_NS;
    *left_out = line_uids[place].left_out;
    if (ok)
        line_uids[place].full_at += LINE_NS;
    line_uids[place].left_out = ok ? 0 : *left_out + 1;
    pthread_mutex_unlock(&line_lock);
    return ok;
}

/*
 * Lines that clients can bring about. A notice is of what an administrator did to one; debugging
 * lines were asked for, all of them.
 */
static bool is_limited(int priority, const struct log_client *client)
{
    return client && priority != LOG_NOTICE && priority != LOG_DEBUG;
}

/* May the log have the line? Then before is what to put behind it. */
static bool may_say(int priority, const struct log_client *client, char *before, size_t size)
{
    uint64_t left_out = 0;

    before[0] = '\0';
    if (priority > log_level)
        return false;
    if (is_limited(priority, client) && !take_line(client->uid, priority, &left_out))
        return false;
    if (left_out > 0)
        snprintf(before, size, " (and %llu more of this user before)",
                 (unsigned long long)left_out);
    return true;
}

/* said with the names of the client before it, and `before` behind it. */
static void write_line(struct line *line, const struct log_client *client, const char *said,
                       const char *before)
{
    char text[sizeof(line->text)];
    int n = 0;

    if (client) {
        line->of_session = true;
        line->session = client->session;
        line->pid = client->pid;
        line->uid = client->uid;
        n = snprintf(text, sizeof(text),
                     "session %llu (pid %d, uid %u): ", (unsigned long long)client->session,
                     (int)client->pid, (unsigned)client->uid);
    }
    snprintf(text + n, sizeof(text) - (size_t)n - strlen(before), "%s", said);
    n = (int)strlen(text);
    snprintf(text + n, sizeof(text) - (size_t)n, "%s", before);
    escape_text(line->text, sizeof(line->text), text);
    if (outbox)
        outbox_put(outbox, line, offsetof(struct line, text) + strlen(line->text) + 1);
    else
        line_write(line);
}

/* repeated: the log has had such a line, and is not to have another one. */
static void log_va(const char *message_id, int priority, bool repeated,
                   const struct log_client *client, const char *fmt, va_list ap)
{
    struct line line = {.priority = priority, .message_id = message_id};
    char said[sizeof(line.text)], before[64];
    void (*tell)(const struct log_told *) =
        message_id || priority < LOG_NOTICE ? atomic_load(&listener) : NULL;
    int saved = errno;
    bool shown = !repeated && may_say(priority, client, before, sizeof(before));

    if (!shown && !tell)
        return;
    errno = saved; /* for %m */
    vsnprintf(said, sizeof(said), fmt, ap);
    if (tell)
        tell(&(struct log_told){message_id, priority, client, said});
    if (shown)
        write_line(&line, client, said, before);
    errno = saved;
}

void log_listen(void (*fn)(const struct log_told *told))
{
    atomic_store(&listener, fn);
}

void log_line(int priority, const struct log_client *client, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_va(NULL, priority, false, client, fmt, ap);
    va_end(ap);
}

void log_event(const char *message_id, int priority, const struct log_client *client,
               const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_va(message_id, priority, false, client, fmt, ap);
    va_end(ap);
}

void log_client_fault(struct log_client *client, const char *fmt, ...)
{
    va_list ap;

    /* Engines and the control thread may both see faults of one session: the first one is the one
     * that is told. */
    va_start(ap, fmt);
    log_va(MESSAGE_CLIENT_FAULT, LOG_WARNING, atomic_exchange(&client->fault_told, true), client,
           fmt, ap);
    va_end(ap);
}

void log_client_limit(struct log_client *client, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_va(MESSAGE_CLIENT_LIMIT, LOG_WARNING, client->limit_told, client, fmt, ap);
    va_end(ap);
    client->limit_told = true;
}
