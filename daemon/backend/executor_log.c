/*
 * What an executor writes to its standard output and error goes to npud's log, by a pipe: so many
 * lines and bytes in a second, and the number of the others. npud reads no more in that second. A
 * pipe that is full takes nothing, and its writer does not wait: what a library has to say is worth
 * less than its work. One that makes the pipe wait (O_NONBLOCK is the executor's to clear) waits
 * itself, and nobody else.
 *
 * The pipe outlives npud, with the keeper: until the next npud reads, it keeps what fits.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backend/executors.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"
#include "daemon/kept/fds.h"
#include "proto/util/clock.h"

#define LINES_MAX 10u    /* in a second; those of a user together have a limit in the log */
#define BYTES_MAX 65536u /* the same */
#define READ_MAX  4096u  /* at once: a step is short */

int executor_log_open(struct executor *x)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    x->log.fd = ends[0];
    return ends[1];
}

static void say(struct executor *x, const char *text)
{
    struct log_client client = {.session = x->session, .pid = x->pid, .uid = x->uid};

    log_line(LOG_INFO, &client, "executor: %s", text);
}

static void end_second(struct executor *x)
{
    struct executor_log *log = &x->log;
    struct log_client client = {.session = x->session, .pid = x->pid, .uid = x->uid};

    if (log->bytes >= BYTES_MAX)
        log_line(LOG_INFO, &client, "executor: %u lines more and what was behind them are left out",
                 log->left_out);
    else if (log->left_out > 0)
        log_line(LOG_INFO, &client, "executor: %u lines more are left out", log->left_out);
    log->lines = log->left_out = 0;
    log->bytes = 0;
}

static void end_line(struct executor *x)
{
    struct executor_log *log = &x->log;

    log->line[log->used] = '\0';
    if (log->used > 0 && log->lines < LINES_MAX) {
        log->lines++;
        say(x, log->line);
    } else if (log->used > 0) {
        log->left_out++;
    }
    log->used = 0;
}

/* A zero byte would end the line: it is shown as one that no text has. */
static void take_text(struct executor *x, const char *text, size_t n)
{
    struct executor_log *log = &x->log;

    for (; n > 0; text++, n--)
        if (*text == '\n')
            end_line(x);
        else if (log->used < sizeof(log->line) - 1)
            log->line[log->used++] = *text ? *text : '\x7f';
}

/* 0: it has read; else there is nothing more, now (-EAGAIN) or for ever. */
static int read_some(struct executor *x)
{
    char text[READ_MAX];
    ssize_t n = read(x->log.fd, text, sizeof(text));

    if (n <= 0)
        return n < 0 ? -errno : -EPIPE;
    x->log.bytes += (size_t)n;
    take_text(x, text, (size_t)n);
    return 0;
}

/* A second begins with what is read first in it: without text there is none. */
static void begin_second(struct executor *x)
{
    uint64_t now = clock_ns();

    if (now - x->log.begun_ns < NSEC_PER_SEC)
        return;
    event_del(x->log.on_over);
    end_second(x);
    x->log.begun_ns = now;
}

static void on_text(evutil_socket_t fd, short what, void *arg)
{
    static const struct timeval second = {.tv_sec = 1};
    struct executor *x = arg;
    struct executor_log *log = &x->log;
    struct schedule *schedule = &x->all->server->schedule;
    int r;

    (void)fd;
    (void)what;
    schedule_begin(schedule);
    begin_second(x);
    r = read_some(x);
    if ((r < 0 && r != -EAGAIN) || log->bytes >= BYTES_MAX)
        event_del(log->on_text); /* for ever if none can write there; or for this second */
    if ((log->bytes >= BYTES_MAX || log->left_out > 0) &&
        !event_pending(log->on_over, EV_TIMEOUT, NULL))
        event_add(log->on_over, &second);
    schedule_end(schedule, "output of an executor", x->uid);
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    struct executor *x = arg;
    struct schedule *schedule = &x->all->server->schedule;

    (void)fd;
    (void)what;
    schedule_begin(schedule);
    end_second(x);
    event_add(x->log.on_text, NULL);
    schedule_end(schedule, "output of an executor", x->uid);
}

bool executor_log_listen(struct executor *x)
{
    struct event_base *base = x->all->server->base;

    x->log.on_text = event_new(base, x->log.fd, EV_READ | EV_PERSIST, on_text, x);
    x->log.on_over = event_new(base, -1, 0, on_over, x);
    return x->log.on_text && x->log.on_over && event_add(x->log.on_text, NULL) == 0;
}

/* What it has forked may write still: so not until there is nothing. */
void executor_log_end(struct executor *x)
{
    struct executor_log *log = &x->log;

    if (log->fd < 0)
        return;
    for (size_t n = 0; n < BYTES_MAX / READ_MAX && read_some(x) == 0; n++)
        continue;
    end_line(x);
    end_second(x);
    if (log->on_text)
        event_free(log->on_text);
    if (log->on_over)
        event_free(log->on_over);
    log->on_text = log->on_over = NULL;
    kept_close(log->fd);
    log->fd = -1;
}
