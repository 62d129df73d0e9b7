#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/keeper_message.h"
#include "daemon/base/log.h"
#include "daemon/keeper/store.h"
#include "proto/util/clock.h"

struct received {
    union {
        struct keeper_message message;
        char room[4096]; /* a later npud may put more behind the keys */
    };
    int fds[FD_MESSAGE_FDS];
    size_t n_fds; /* fds that were not taken */
};

static void close_rest(struct received *in)
{
    while (in->n_fds > 0)
        close(in->fds[--in->n_fds]);
}

/* --- what the keeper has --- */

struct answer {
    int socket;
    struct keeper_message message;
    int fds[FD_MESSAGE_FDS];
};

static int answer_send(struct answer *a, enum keeper_operation operation)
{
    size_t n = a->message.n;
    int r;

    a->message.operation = (uint16_t)operation;
    a->message.version = KEEPER_VERSION;
    r = fd_message_send(a->socket, &a->message, KEEPER_HEADER + n * sizeof(a->message.keys[0]),
                        a->fds, n, 0);
    a->message.n = 0;
    return r;
}

static int answer_add(void *arg, uint64_t key, int fd)
{
    struct answer *a = arg;

    a->message.keys[a->message.n] = key;
    a->fds[a->message.n++] = fd;
    return a->message.n == KEEPER_KEYS_MAX ? answer_send(a, KEEPER_GIVE) : 0;
}

static int answer_add_named(struct answer *a, const struct keeper_message *m)
{
    int r = 0;

    for (size_t i = 0; i < m->n && r == 0; i++) {
        int fd = store_find(m->keys[i]);

        r = fd < 0 ? 0 : answer_add(a, m->keys[i], fd);
    }
    return r;
}

/* If the asker dies, no process is left to be told. ECONNRESET: it has died before it read all. */
static void on_fetch(struct received *in)
{
    static struct answer a; /* 3 KiB */
    int r;

    a.socket = in->fds[0];
    a.message.n = 0;
    r = in->message.n > 0 ? answer_add_named(&a, &in->message) : store_each(answer_add, &a);
    if (r == 0 && a.message.n > 0)
        r = answer_send(&a, KEEPER_GIVE);
    if (r == 0)
        r = answer_send(&a, KEEPER_END);
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        log_error("the descriptors cannot be sent to npud: %s", strerror(-r));
}

/* --- messages --- */

static int on_put(struct received *in)
{
    const uint64_t *keys = in->message.keys;

    /* The kernel leaves out the last ones. */
    if (in->n_fds < in->message.n)
        log_error("%zu of %u descriptors cannot be kept: this process may have no more "
                  "(LimitNOFILE=)",
                  in->message.n - in->n_fds, in->message.n);
    while (in->n_fds > 0) {
        if (store_put(keys[in->n_fds - 1], in->fds[in->n_fds - 1]) < 0) {
            log_error("no memory to keep a descriptor: the keeper ends, and npud starts another");
            return -ENOMEM;
        }
        in->n_fds--;
    }
    return 0;
}

static void on_drop(const struct received *in)
{
    for (size_t i = 0; i < in->message.n; i++)
        store_drop(in->message.keys[i]);
}

/* NULL: it is well-formed. */
static const char *find_fault(const struct received *in, size_t size)
{
    const struct keeper_message *m = &in->message;

    if (size < KEEPER_HEADER)
        return "shorter than its header";
    if (m->n > KEEPER_KEYS_MAX || size < KEEPER_HEADER + m->n * sizeof(m->keys[0]))
        return "shorter than its keys";
    if (m->operation == KEEPER_PUT && in->n_fds > m->n)
        return "more descriptors than keys";
    if (m->operation == KEEPER_FETCH && in->n_fds != 1)
        return "no socket to answer to";
    return NULL;
}

/* An operation of a later npud is no fault: what came with it is closed. */
static int on_message(struct received *in, size_t size)
{
    const char *fault = find_fault(in, size);
    int r = 0;

    if (fault)
        log_error("a message of npud (operation %u, %zu bytes) is ignored: %s",
                  size >= KEEPER_HEADER ? in->message.operation : 0u, size, fault);
    else if (in->message.operation == KEEPER_PUT)
        r = on_put(in);
    else if (in->message.operation == KEEPER_DROP)
        on_drop(in);
    else if (in->message.operation == KEEPER_FETCH)
        on_fetch(in);
    close_rest(in);
    return r;
}

/* --- signs of life --- */

static uint64_t watch_ns, next_watch_ns; /* 0: none are wanted */

void keeper_watch(void)
{
    uint64_t usec;

    if (sd_watchdog_enabled(0, &usec) > 0)
        watch_ns = usec / 2 * NSEC_PER_USEC;
}

/* No message for half a period wakes the keeper. */
static void watch_lease(int lease)
{
    const struct timeval half = {.tv_sec = (time_t)(watch_ns / NSEC_PER_SEC),
                                 .tv_usec = (suseconds_t)(watch_ns % NSEC_PER_SEC / 1000)};

    if (watch_ns != 0)
        setsockopt(lease, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof(half));
}

static void give_sign(void)
{
    if (watch_ns == 0 || clock_ns() < next_watch_ns)
        return;
    sd_notify(0, "WATCHDOG=1");
    next_watch_ns = clock_ns() + watch_ns / 2;
}

/* --- the owner --- */

/* An empty message looks like it. */
static bool owner_has_ended(int lease)
{
    struct pollfd p = {.fd = lease};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static ssize_t receive(int lease, struct received *in, int flags)
{
    return fd_message_receive(lease, in->room, sizeof(in->room), in->fds, &in->n_fds, flags);
}

/*
 * To be woken costs npud more than the rest of a put, and moves it and its clients apart on the
 * processors. So the keeper rests when it has taken all, and what comes meanwhile wakes no thread:
 * a descriptor in the socket is kept as well as one that was taken out. The socket has room for
 * what npud puts meanwhile, twice.
 */
static ssize_t receive_after_rest(int lease, struct received *in)
{
    ssize_t size = receive(lease, in, MSG_DONTWAIT);

    if (size != -EAGAIN)
        return size;
    clock_sleep_until(clock_ns() + KEEPER_REST_NS);
    return receive(lease, in, 0);
}

/* A server that asks has more questions, and clients wait. */
static bool may_rest(const struct received *in)
{
    return in->message.operation == KEEPER_PUT || in->message.operation == KEEPER_DROP;
}

int keeper_serve(int lease)
{
    static struct received in;
    bool rest = false;
    int r = 0;

    watch_lease(lease);
    while (r == 0) {
        ssize_t size = rest ? receive_after_rest(lease, &in) : receive(lease, &in, 0);

        rest = false;
        give_sign();
        if (size == -EAGAIN)
            continue; /* watch_lease() */
        if (size == 0 && in.n_fds == 0 && owner_has_ended(lease))
            break;
        if (size == -ECONNRESET)
            continue; /* comes before the end if the owner left something unread */
        if (size < 0 && size != -EBADMSG) {
            r = (int)size;
            log_error("npud cannot be heard: %s", strerror(-r));
        } else {
            r = on_message(&in, size < 0 ? 0 : (size_t)size);
            rest = size >= (ssize_t)KEEPER_HEADER && may_rest(&in);
        }
    }
    store_end();
    close(lease);
    return r;
}
