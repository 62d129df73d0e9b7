#include "client/runtime/session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/access.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/core/interrupt.h"
#include "client/runtime/stream.h"
#include "client/core/thread.h"
#include "client/runtime/undo.h"
#include "proto/util/clock.h"
#include "proto/wire/packet.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"

/*
 * How long aclFinalize waits for threads to leave their calls. They are about to: nothing of the
 * session blocks any more. A stopped thread is not waited for: the memory stays until a later
 * aclFinalize finds that the thread has left.
 */
#define LEAVE_NS NSEC_PER_SEC

/* --- npud gone --- */

int session_error_lost(const char *function)
{
    error_store(ACL_ERROR_RT_SOCKET_CLOSE, ERROR_LOST_SENTENCE, function);
    return ACL_ERROR_RT_SOCKET_CLOSE;
}

/*
 * Sets the flag only, because the calling thread may hold any lock. The watcher does the rest when
 * the connection ends.
 */
bool session_ended(struct session *s)
{
    if (session_lost(s))
        return true;
    if (!session_has_ended(s->page))
        return false;
    atomic_store_explicit(&s->lost, true, memory_order_release);
    return true;
}

static void lose(struct session *s)
{
    atomic_store(&s->lost, true);
    if (atomic_exchange(&s->aborted, true))
        return;
    wait_abort_all(&s->waits);
    lifecycle_session_lost(s);
}

/*
 * Blocked in poll() for the whole life of the session: the one thing that wakes sleepers when npud
 * dies, since no futex of theirs is going to. Costs no CPU.
 */
static void *watch(void *arg)
{
    struct session *s = arg;
    struct pollfd p = {.fd = s->socket, .events = POLLRDHUP};

    while (poll(&p, 1, -1) < 0)
        ;
    if (!atomic_exchange(&s->ended, true)) {
        pthread_detach(pthread_self());
        lose(s);
    }
    return NULL;
}

static int start_watcher(struct session *s)
{
    sigset_t all, old;
    int r;

    /* The program's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&s->watcher, NULL, watch, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        pthread_setname_np(s->watcher, "npud-watch");
    return -r;
}

/* --- requests --- */

void session_reply_free(Npud__Reply *reply)
{
    if (reply)
        npud__reply__free_unpacked(reply, NULL);
}

/*
 * Send, with send_fd if it is not -1, and receive, the socket being ours alone. 0 with *replyp,
 * -EMFILE when the answer's descriptor found no place in this process, -ETOOMANYREFS when ours
 * cannot be sent now, -EPIPE when npud is gone.
 */
static int exchange(struct session *s, Npud__Request *request, int send_fd, struct packet *packet,
                    Npud__Reply **replyp)
{
    int r;

    request->id = ++s->last_request;
    KILL_POINT(REQUEST_BEGIN);
    r = packet_send_message(s->socket, &request->base, &send_fd, send_fd >= 0 ? 1 : 0, 0);
    KILL_POINT(REQUEST_SENT);
    assert(r != -EMSGSIZE); /* every request fits, by its bounds */
    if (r == -ETOOMANYREFS)
        return r;
    /* A refusal may have been sent before npud closed: read what there is even if our packet could
     * not be sent. */
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        return -EPIPE;
    while ((r = packet_recv(s->socket, packet, 0)) > 0) {
        Npud__Reply *reply = npud__reply__unpack(NULL, packet->size, packet->data);

        KILL_POINT(REPLY_READ);
        if (reply && reply->id == request->id) {
            *replyp = reply;
            return 0;
        }
        session_reply_free(reply);
        packet_deinit(packet);
    }
    return r == -EMFILE ? r : -EPIPE;
}

/*
 * npud has made something and its descriptor found no place here: no one knows of the object. It
 * goes before the next request of this process, as npud keeps a new segment of the arena only until
 * that one. A process that dies before this loses its session, and all that it made.
 */
static void take_back(struct session *s, const Npud__Request *request, struct packet *packet)
{
    Npud__Reply *made = npud__reply__unpack(NULL, packet->size, packet->data), *reply = NULL;
    struct undo undo;

    if (made && made->id == request->id && undo_fill(&undo, request, made) &&
        exchange(s, &undo.request, -1, packet, &reply) == 0)
        packet_deinit(packet);
    session_reply_free(reply);
    session_reply_free(made);
}

/* What all kinds of requests share. */
static int ask(struct session *s, const char *function, Npud__Request *request, int send_fd,
               Npud__Reply **replyp, int *fds, size_t n)
{
    struct packet packet = {.n_fds = 0};
    Npud__Reply *reply = NULL;
    int error, r = -EPIPE;

    pthread_mutex_lock(&s->request_lock);
    if (!session_lost(s))
        r = exchange(s, request, send_fd, &packet, &reply);
    if (r == -EMFILE)
        take_back(s, request, &packet);
    pthread_mutex_unlock(&s->request_lock);
    if (r == -EMFILE)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: this process has no file descriptor left for what npud sent",
                         function);
    if (r == -ETOOMANYREFS)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: too many descriptors of this user are on their way (RLIMIT_NOFILE)",
                         function);
    if (!reply) {
        lose(s);
        return session_error_lost(function);
    }
    error = reply->error;
    if (error != 0) {
        error = error_set(error, "%s: %s", function, reply->message);
        session_reply_free(reply);
        reply = NULL;
    } else {
        for (size_t i = 0; i < n; i++)
            fds[i] = packet_take_fd(&packet, i);
    }
    packet_deinit(&packet);
    *replyp = reply;
    return error;
}

int session_request(struct session *s, const char *function, Npud__Request *request,
                    Npud__Reply **replyp, int *fd)
{
    return ask(s, function, request, -1, replyp, fd, fd ? 1 : 0);
}

int session_request_fds(struct session *s, const char *function, Npud__Request *request,
                        Npud__Reply **replyp, int *fds, size_t n)
{
    return ask(s, function, request, -1, replyp, fds, n);
}

int session_command_fd(struct session *s, const char *function, Npud__Request *request, int fd)
{
    Npud__Reply *reply = NULL;
    int error = ask(s, function, request, fd, &reply, NULL, 0);

    if (error == 0)
        session_reply_free(reply);
    return error;
}

int session_command(struct session *s, const char *function, Npud__Request *request)
{
    Npud__Reply *reply = NULL;
    int error = session_request(s, function, request, &reply, NULL);

    if (error == 0)
        session_reply_free(reply);
    return error;
}

int session_map_segment(struct session *s, const char *function, int fd, size_t size, void **where)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    KILL_POINT(SEGMENT_MAPPED);
    close(fd);
    if (map == MAP_FAILED) {
        int error =
            error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                      "%s: cannot map shared memory (%m); the session with npud ends", function);

        /* npud sends each segment once, and further objects may be in this one. */
        lose(s);
        return error;
    }
    /* A forked child has no business in the arena: its stores would be ours. */
    madvise(map, size, MADV_DONTFORK);
    *where = map;
    return 0;
}

int session_open_device(struct session *s, const char *function, uint32_t device)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OpenDevice open = NPUD__OPEN_DEVICE__INIT;
    Npud__Reply *reply = NULL;
    int error, fd = -1;

    if (s->devices[device].open)
        return 0;
    open.device = device;
    request.open_device = &open;
    request.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    error = session_request(s, function, &request, &reply, &fd);
    if (error != 0)
        return error;
    session_reply_free(reply);
    s->devices[device].doorbell = fd;
    s->devices[device].open = true;
    atomic_fetch_or_explicit(&s->exceptions.devices, 1u << device, memory_order_release);
    return 0;
}

/* --- connecting --- */

static const char *socket_path(void)
{
    const char *path = getenv("NPUD_SOCKET");

    return path && path[0] ? path : NPUD_SOCKET_DEFAULT;
}

static int explain_connect(const char *function, const char *path)
{
    char who[ACCESS_TEXT_MAX];

    if (errno == EACCES) {
        access_explain(path, who, sizeof(who));
        return error_set(ACL_ERROR_RT_NO_DEVICE, "%s: npud at %s refuses this user: %s", function,
                         path, who);
    }
    return error_set(ACL_ERROR_RT_NO_DEVICE,
                     "%s: cannot reach npud at %s (%m). Start it (systemctl start npud.socket), "
                     "run the program under npu-run, or set NPUD_SOCKET",
                     function, path);
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
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
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

static void take_hello(struct session *s, const Npud__HelloReply *hello)
{
    s->id = hello->session;
    s->pid = hello->pid;
    s->peer_id = hello->peer;
    s->ring_depth = hello->ring_depth;
    s->epoch_ns = hello->epoch_ns;
    s->n_devices = hello->n_devices < DEVICES_MAX ? (uint32_t)hello->n_devices : DEVICES_MAX;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        snprintf(s->device_info[i].soc_name, sizeof(s->device_info[i].soc_name), "%s",
                 hello->devices[i]->soc_name);
        s->device_info[i].memory = hello->devices[i]->memory;
        if (hello->devices[i]->uuid.len == sizeof(s->device_info[i].uuid))
            memcpy(s->device_info[i].uuid, hello->devices[i]->uuid.data,
                   sizeof(s->device_info[i].uuid));
    }
    device_read_visible(s);
}

static int say_hello(struct session *s, const char *function)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__Reply *reply = NULL;
    int error, fd = -1;
    void *page = NULL;

    hello.protocol = PROTOCOL;
    hello.program = program_invocation_short_name;
    request.hello = &hello;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    error = session_request(s, function, &request, &reply, &fd);
    if (error != 0)
        return error;
    take_hello(s, reply->hello);
    session_reply_free(reply);
    error = session_map_segment(s, function, fd, sizeof(struct session_page), &page);
    s->page = s->waits.page = page;
    return error;
}

static void session_free(struct session *s)
{
    size_t streams = arena_stream_segment_size(s->ring_depth);

    lifecycle_session_free(s);
    for (size_t i = 0; i < sizeof(s->stream_segments) / sizeof(s->stream_segments[0]); i++)
        if (s->stream_segments[i])
            munmap(s->stream_segments[i], streams);
    for (size_t i = 0; i < sizeof(s->event_segments) / sizeof(s->event_segments[0]); i++)
        if (s->event_segments[i])
            munmap(s->event_segments[i], arena_event_segment_size());
    if (s->page && s->page != MAP_FAILED)
        munmap(s->page, sizeof(*s->page));
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (s->devices[i].open)
            close(s->devices[i].doorbell);
    if (s->socket >= 0)
        close(s->socket);
    arena_pages_deinit(s);
    slots_deinit(&s->contexts);
    slots_deinit(&s->streams);
    slots_deinit(&s->events);
    slots_deinit(&s->notifies);
    free(s);
}

static _Atomic uint64_t serials;

static struct session *session_new(void)
{
    struct session *s = calloc(1, sizeof(*s));
    uint32_t seed = 0;

    if (!s)
        return NULL;
    /* Only makes handles of one session differ from those of the next: any number will do. */
    if (!random_fill(&seed, sizeof(seed)))
        seed = (uint32_t)clock_ns();
    s->serial = atomic_fetch_add(&serials, 1) + 1;
    pthread_mutex_init(&s->request_lock, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stream_gone, NULL);
    waits_init(&s->waits, s, &s->lost);
    pthread_mutex_init(&s->staging_lock, NULL);
    pthread_mutex_init(&s->abort_lock, NULL);
    pthread_rwlock_init(&s->memory_lock, NULL);
    slots_init(&s->contexts, sizeof(struct context), 4096, seed);
    slots_init(&s->streams, sizeof(struct stream), SESSION_STREAMS_MAX, seed);
    lifecycle_session_init(s, seed);
    s->socket = -1;
    return s;
}

static struct session *session_connect(const char *function, int *error)
{
    struct session *s = session_new();

    if (!s) {
        *error = error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
        return NULL;
    }
    *error = 0;
    s->socket = connect_socket(function, error);
    if (s->socket >= 0)
        *error = say_hello(s, function);
    if (*error == 0)
        *error = lifecycle_session_begin(s, function);
    if (*error == 0 && start_watcher(s) < 0) {
        lifecycle_session_end(s);
        *error = error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot start a thread", function);
    }
    if (*error == 0)
        return s;
    session_free(s);
    return NULL;
}

static struct session *known; /* what process->session was last set to */

struct session *session_get(const char *function, int *error)
{
    struct session *s;

    *error = process_enter();
    if (*error != 0)
        return NULL;
    s = session_peek();
    if (!s) {
        pthread_mutex_lock(&process->lock);
        s = session_peek();
        if (!s) {
            known = s = session_connect(function, error);
            atomic_store_explicit(&process->session, s, memory_order_release);
        }
        pthread_mutex_unlock(&process->lock);
    }
    if (s && session_lost(s)) {
        *error = session_error_lost(function);
        return NULL;
    }
    return s;
}

/* --- leaving --- */

static bool in_use(struct session *s)
{
    /*
     * A callback returns to what would be freed; who sleeps on a queue, which needs no device,
     * wakes up in it.
     */
    bool used = thread_self()->in_callback || wait_any_without_device(&s->waits);

    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        used |= s->devices[i].set_count > 0 || s->devices[i].contexts > 0;
    pthread_mutex_unlock(&s->lock);
    return used;
}

/*
 * What other processes share with this one is unmapped, then npud is told so: a process whose
 * connection just ends may still write there, and what it had would stay set aside until it exits.
 */
static void leave(struct session *s)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__LeaveSession in = NPUD__LEAVE_SESSION__INIT;

    lifecycle_session_leave(s);
    request.leave_session = &in;
    request.body_case = NPUD__REQUEST__BODY_LEAVE_SESSION;
    /* No other thread is there to be refused, and requests are sent only while this is not set. */
    atomic_store(&s->lost, false);
    error_mute(true);
    session_command(s, "aclFinalize", &request);
    error_mute(false);
    shutdown(s->socket, SHUT_RDWR);
    pthread_join(s->watcher, NULL);
    session_free(s);
}

/*
 * Sessions that aclFinalize has closed, and that threads inside calls may still use. Under
 * process->lock.
 */
static struct session *left;

static void free_left(void)
{
    struct session **at = &left, *s;

    while ((s = *at)) {
        wait_wake_all(&s->waits);
        if (!api_call_all_left(s->left_epoch)) {
            at = &s->forgotten_next;
            continue;
        }
        *at = s->forgotten_next;
        leave(s);
    }
}

/* A thread does not leave its call: npud shall not wait for it. */
static void shut_left(void)
{
    pthread_mutex_lock(&process->lock);
    for (struct session *s = left; s; s = s->forgotten_next)
        shutdown(s->socket, SHUT_RDWR);
    pthread_mutex_unlock(&process->lock);
}

/*
 * No call finds the session from here on. Calls that have found it do not sleep any more, and fail.
 */
static void take_away(struct session *s)
{
    pthread_mutex_lock(&process->threads_lock);
    atomic_store(&process->session, NULL);
    pthread_mutex_unlock(&process->threads_lock);
    known = NULL;
    atomic_store(&s->closed, true);
    atomic_store(&s->lost, true);
    lifecycle_session_forget(s);
    s->left_epoch = api_call_new_epoch();
    s->forgotten_next = left;
    left = s;
}

bool session_close_if_unused(void)
{
    struct session *s = session_peek();

    if (!s || session_lost(s) || in_use(s))
        return false;
    lifecycle_session_end(s);
    if (atomic_exchange(&s->ended, true))
        return false; /* npud went at this very moment */
    take_away(s);
    return true;
}

void session_free_closed(void)
{
    const struct timespec pause = {.tv_nsec = 50 * NSEC_PER_USEC};
    uint64_t until = clock_ns() + LEAVE_NS;
    bool any;

    for (;;) {
        pthread_mutex_lock(&process->lock);
        free_left();
        any = left != NULL;
        pthread_mutex_unlock(&process->lock);
        if (!any || clock_ns() >= until)
            break;
        nanosleep(&pause, NULL);
    }
    if (any)
        shut_left();
}

/* Kept, not freed: other threads may still be on their way out of calls that failed. */
static struct session *forgotten;

void session_forget_lost(void)
{
    struct session *s = session_peek();

    if (!s || !session_lost(s))
        return;
    lifecycle_session_forget(s);
    s->forgotten_next = forgotten;
    forgotten = s;
    atomic_store(&process->session, NULL);
}

/*
 * The page that held process->session was wiped, so only `known` tells which session was the
 * parent's. Its arena is not mapped in this child; its descriptors are open here, and would keep
 * the parent's session alive at npud if npud had no pidfd.
 */
static void forget_inherited(void)
{
    struct session *s = known;

    left = NULL; /* the parent's */
    if (!s)
        return;
    close(s->socket);
    lifecycle_session_inherited(s);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (s->devices[i].open)
            close(s->devices[i].doorbell);
    s->forgotten_next = forgotten;
    forgotten = s;
    known = NULL;
}

const struct part session_part = {.fork_child = forget_inherited};
