#include "client/runtime/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/check/checked.h"
#include "client/core/access.h"
#include "client/core/error.h"
#include "client/core/npud_clock.h"
#include "client/core/interrupt.h"
#include "client/core/program_name.h"
#include "client/core/thread.h"
#include "client/runtime/session.h"
#include "proto/wire/packet.h"
#include "proto/util/lift_fd.h"

/* --- watching --- */

/*
 * Blocked in poll() for the whole life of the session: the one thing that wakes sleepers when npud
 * dies, since no futex of theirs is going to. Costs no CPU while no thread waits for long.
 */
static void *watch_main(void *arg)
{
    struct session *s = arg;
    struct pollfd p[] = {{.fd = s->socket, .events = POLLRDHUP},
                         {.fd = s->waits.timer, .events = POLLIN}};

    while (poll(p, 2, -1) < 0 || p[0].revents == 0)
        if (p[1].revents != 0)
            wait_wake_due(&s->waits);
    if (side_thread_leave(&s->watcher))
        session_lose(s);
    return NULL;
}

int connection_watch(struct session *s)
{
    return side_thread_start(&s->watcher, watch_main, s, "npud-watch", 0);
}

/* --- which devices the program is to see --- */

/*
 * ASCEND_RT_VISIBLE_DEVICES as it was when the process first asked: NULL when not set. A program
 * with more rights than its caller sees all devices: which of them its device 0 is, and so which
 * one it resets or fills, is not for its caller to say.
 */
static const char *visible_text;
static pthread_once_t visible_once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    const char *text = secure_getenv("ASCEND_RT_VISIBLE_DEVICES");

    visible_text = text ? strdup(text) : NULL;
}

/* One number that ends at a comma or at the end, and names a device. */
static bool read_id(const char *text, uint32_t n_devices, uint32_t *id, const char **end)
{
    unsigned long value;
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoul(text, &stop, 10);
    if ((*stop != ',' && *stop != '\0') || value >= n_devices)
        return false;
    *id = (uint32_t)value;
    *end = *stop ? stop + 1 : stop;
    return true;
}

/*
 * "0,2": ascending numbers. Reading stops at the first thing that is no number, or no device; what
 * came before counts. Wrong order or a repetition spoils all of it.
 */
static void read_visible(struct visible *v, uint32_t n_devices)
{
    const char *text;
    uint32_t id;

    pthread_once(&visible_once, read_environment);
    text = visible_text;
    v->set = text != NULL;
    while (text && read_id(text, n_devices, &id, &text)) {
        if (v->n > 0 && id <= v->device[v->n - 1]) {
            v->n = 0;
            return;
        }
        v->device[v->n++] = id;
    }
}

/* --- connecting --- */

static const char default_path[] = NPUD_SOCKET_DEFAULT;

/* The caller of a program with more rights than its own does not choose its npud. */
static const char *socket_path(void)
{
    const char *path = secure_getenv("NPUD_SOCKET");

    return path && path[0] ? path : default_path;
}

static int explain_connect(const char *function, const char *path)
{
    bool chosen = path != default_path;
    char why[ACCESS_TEXT_MAX];

    access_explain(path, errno, why, sizeof(why));
    if (errno == EACCES)
        return error_set(ACL_ERROR_RT_NO_DEVICE, "%s: npud at %s refuses this user: %s", function,
                         path, why);
    return error_set(ACL_ERROR_RT_NO_DEVICE, "%s: cannot reach npud at %s%s: %s", function, path,
                     chosen ? ", where NPUD_SOCKET says" : "", why);
}

/*
 * Blocks while npud's queue of new clients is full, so signals may come in between. A connection is
 * not begun before there is room: trying again is all there is to do; the caller does that whose
 * signals are handled outside of signal handlers.
 */
static int connect_patiently(int fd, const struct sockaddr_un *addr)
{
    int r;

    do {
        r = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    } while (r < 0 && errno == EINTR && !interrupt_possible());
    return r;
}

/* -1 with *error set. */
static int connect_socket(const char *function, int *error)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const char *path = socket_path();
    int fd;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        *error = error_set(ACL_ERROR_RT_NO_DEVICE,
                           "%s: NPUD_SOCKET is too long for a socket address: %s", function, path);
        return -1;
    }
    strcpy(addr.sun_path, path);
    fd = lift_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (fd < 0 || connect_patiently(fd, &addr) < 0) {
        *error =
            fd >= 0 && errno == EINTR ? ACLNPUD_ERROR_INTERRUPTED : explain_connect(function, path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    KILL_POINT(CONNECTED);
    return fd;
}

/* asked_ns: of the own clock, before npud was asked. */
static void take_hello(struct session *s, const Npud__HelloReply *hello, uint64_t asked_ns)
{
    npud_clock_learn(hello->clock_ns, asked_ns, clock_ns());
    checked_offer(hello->check_directory);
    s->id = hello->session;
    s->pid = hello->pid;
    s->uid = hello->uid;
    s->peer_id = hello->peer;
    s->ring_depth = hello->ring_depth;
    s->epoch_ns = hello->epoch_ns;
    s->n_devices = (uint32_t)hello->n_devices;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        snprintf(s->device_info[i].soc_name, sizeof(s->device_info[i].soc_name), "%s",
                 hello->devices[i]->soc_name);
        s->device_info[i].memory = hello->devices[i]->memory;
        memcpy(s->device_info[i].uuid, hello->devices[i]->uuid.data,
               sizeof(s->device_info[i].uuid));
        s->device_info[i].strict = hello->devices[i]->strict;
        s->device_info[i].away = hello->devices[i]->away;
    }
    read_visible(&s->visible, s->n_devices);
}

/* SESSION_UNANSWERED: the connection has ended before that. */
static int say_hello(struct session *s, const char *function)
{
    char name[PROGRAM_NAME_MAX];
    REQUEST(hello, HELLO, .protocol = PROTOCOL, .program = name);
    uint64_t asked_ns = clock_ns();
    Npud__Reply *reply = NULL;
    int error, fd = -1;
    void *page = NULL;

    program_name(name, sizeof(name));
    RETURN_IF_ERROR(session_request_first(s, function, &request, &reply, &fd));
    take_hello(s, reply->hello, asked_ns);
    session_reply_free(reply);
    error = session_map_file(s, function, fd, sizeof(struct session_page), &page);
    s->page = s->waits.page = page;
    return error;
}

/*
 * So many connections in a row may end before Hello is answered. An npud that is killed between
 * accepting a connection and noting it takes the connection with it, and the next npud knows
 * nothing of it. Each further connection waits in the queue of the listening socket until an npud
 * is there, and so costs the life of one. The bound is for a server that ends all of them.
 */
#define CONNECTIONS_MAX 32

static int connect_once(struct session *s, const char *function)
{
    int error = 0;

    s->socket = connect_socket(function, &error);
    return s->socket >= 0 ? say_hello(s, function) : error;
}

/*
 * If connect() is refused after a connection has ended, no process has the listening socket any
 * more: npud has ended for good, and nothing tells when another one begins.
 */
int connection_open(struct session *s, const char *function)
{
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        int error = connect_once(s, function);

        if (error != SESSION_UNANSWERED)
            return error;
        close(s->socket);
        s->socket = -1;
    }
    return error_set(ACL_ERROR_RT_SOCKET_CLOSE,
                     "%s: npud at %s has closed %d connections in a row without an answer: its log "
                     "(journalctl -u npud) may say why",
                     function, socket_path(), CONNECTIONS_MAX);
}
