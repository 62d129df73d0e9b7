#include "client/runtime/session.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/core/lock_order.h"
#include "client/runtime/connection.h"
#include "client/core/error.h"
#include "client/core/thread.h"
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

/* `lost` is set. Another session may be there already. */
static void forget_live(const struct session *s)
{
    uint64_t serial = s->serial;

    atomic_compare_exchange_strong(&process->live, &serial, 0);
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
    atomic_store(&s->lost, true);
    forget_live(s);
    return true;
}

/* `closed` is set before `lost`: what sees the second sees the first. */
bool session_npud_gone(const struct session *s)
{
    return session_lost(s) && !atomic_load_explicit(&s->closed, memory_order_relaxed);
}

void session_lose(struct session *s)
{
    atomic_store(&s->lost, true);
    forget_live(s);
    if (atomic_exchange(&s->aborted, true))
        return;
    wait_abort_all(&s->waits);
    LIFECYCLE_WALK(session_lost, s);
}

int session_map_file(struct session *s, const char *function, int fd, size_t size, void **where)
{
    void *map;

    if (fd < 0 && *where)
        return 0;
    if (fd < 0) /* it came while this process had no descriptor left for it */
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: the memory that is shared with npud cannot be mapped: try again, or "
                         "aclFinalize and aclInit",
                         function);
    /* In the place of what was renewed (arena_pages.h): addresses in it stay good. */
    map = mmap(*where, size, PROT_READ | PROT_WRITE, MAP_SHARED | (*where ? MAP_FIXED : 0), fd, 0);
    KILL_POINT(SEGMENT_MAPPED);
    close(fd);
    if (map == MAP_FAILED) {
        int error =
            error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                      "%s: cannot map shared memory (%m); the session with npud ends", function);

        /* npud sends each file once, and further objects may be in this one. */
        session_lose(s);
        return error;
    }
    /* A forked child has no business in the arena: its stores would be ours. */
    madvise(map, size, MADV_DONTFORK);
    *where = map;
    return 0;
}

bool session_has_device(const struct session *s, uint32_t device)
{
    return s->devices[device].set_count > 0 || s->devices[device].contexts > 0;
}

int session_open_device(struct session *s, const char *function, uint32_t device)
{
    REQUEST(open_device, OPEN_DEVICE, .device = device);
    Npud__Reply *reply = NULL;
    int fd = -1;

    bool open = s->devices[device].open;

    /*
     * If it is lost, to open it anew may find another process that does its work. Not while the
     * program has it: what that had there is lost, and it is told so until it has reset the device.
     */
    if (open && (session_has_device(s, device) ||
                 atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed) <=
                     DOORBELL_STRICT))
        return 0;
    RETURN_IF_ERROR(session_request(s, function, &request, &reply, &fd));
    session_reply_free(reply);
    atomic_fetch_add_explicit(&s->devices[device].opened, 1, memory_order_release);
    if (open) {
        close(fd); /* the doorbell is the same */
        return 0;
    }
    s->devices[device].doorbell = fd;
    s->devices[device].open = true;
    atomic_fetch_or_explicit(&s->exceptions.devices, 1u << device, memory_order_release);
    return 0;
}

static void session_free(struct session *s)
{
    size_t streams = arena_stream_file_size(s->ring_depth);

    LIFECYCLE_WALK(session_free, s);
    for (size_t i = 0; i < sizeof(s->stream_files) / sizeof(s->stream_files[0]); i++)
        if (s->stream_files[i])
            munmap(s->stream_files[i], streams);
    for (size_t i = 0; i < sizeof(s->event_files) / sizeof(s->event_files[0]); i++)
        if (s->event_files[i])
            munmap(s->event_files[i], arena_event_file_size());
    if (s->page && s->page != MAP_FAILED)
        munmap(s->page, sizeof(*s->page));
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (s->devices[i].open)
            close(s->devices[i].doorbell);
    if (s->socket >= 0)
        close(s->socket);
    wait_deinit(&s->waits);
    arena_pages_deinit(s);
    slots_deinit(&s->contexts);
    slots_deinit(&s->streams);
    slots_deinit(&s->events);
    slots_deinit(&s->notifies);
    slots_deinit(&s->channels);
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
    lock_init(&s->request_lock, LOCK_REQUEST);
    lock_init(&s->idle_lock, LOCK_IDLE);
    lock_init(&s->lock, LOCK_SESSION);
    pthread_cond_init(&s->stream_gone, NULL);
    wait_init(&s->waits, s, &s->lost);
    lock_init(&s->staging_lock, LOCK_STAGING);
    lock_init(&s->abort_lock, LOCK_ABORT);
    lock_init_shared(&s->memory_lock, LOCK_MEMORY);
    LIFECYCLE_WALK(session_init, s, seed);
    s->socket = -1;
    return s;
}

static int begin_parts(struct session *s, const char *function)
{
    for (const struct part *const *p = upcalls->parts; *p; p++)
        if ((*p)->session_begin)
            RETURN_IF_ERROR((*p)->session_begin(s, function));
    return 0;
}

static struct session *session_connect(const char *function, int *error)
{
    struct session *s = session_new();

    if (!s) {
        *error = error_no_memory(function);
        return NULL;
    }
    *error = connection_open(s, function);
    if (*error == 0 && wait_open_timer(&s->waits) < 0)
        *error =
            error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot make a timer: %m", function);
    if (*error == 0)
        *error = begin_parts(s, function);
    if (*error == 0 && connection_watch(s) != 0) {
        LIFECYCLE_WALK(session_end, s);
        *error = error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: cannot start a thread", function);
    }
    if (*error == 0)
        return s;
    session_free(s);
    return NULL;
}

static struct session *known; /* what process->session was last set to */

/*
 * Sequentially consistent, as `lost` and forget_live() are: either it is seen here that the session
 * is lost, or what loses it finds it live.
 */
static void tell_live(const struct session *s)
{
    atomic_store(&process->live, s->serial);
    if (atomic_load(&s->lost))
        forget_live(s);
}

/*
 * session_get() where there is more to do than to look. A function of its own: its frame would cost
 * each call of the API as much as the look.
 */
static __attribute__((cold, noinline)) struct session *connect_or_explain(const char *function,
                                                                          int *error)
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
            if (s)
                tell_live(s);
        }
        pthread_mutex_unlock(&process->lock);
    }
    if (s && session_lost(s)) {
        *error = session_error_lost(function);
        return NULL;
    }
    return s;
}

struct session *session_get(const char *function, int *error)
{
    struct session *s = session_peek(); /* in a forked child there is none */

    *error = 0;
    return __builtin_expect(s && !session_lost(s), 1) ? s : connect_or_explain(function, error);
}

/* --- leaving --- */

static bool close_unless_used(struct session *s)
{
    /*
     * A callback returns to what would be freed; a thread that sleeps on a queue, which needs
     * no device, wakes up in it.
     */
    bool used = thread_self()->in_callback || wait_any_without_device(&s->waits);

    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        used |= s->devices[i].set_count > 0 || s->devices[i].contexts > 0;
    /* All else that ends with the session, its threads too, is of a context. */
    s->closing = !used;
    pthread_mutex_unlock(&s->lock);
    return !used;
}

/*
 * What other processes share with this one is unmapped, then npud is told so: a process whose
 * connection just ends may still write there, and what it had would stay set aside until it exits.
 */
static void leave_npud(struct session *s)
{
    REQUEST(leave_session, LEAVE_SESSION);

    LIFECYCLE_WALK(session_leave, s);
    /* No other thread is there to be refused, and requests are sent only while this is not set. */
    atomic_store(&s->lost, false);
    session_command_unheard(s, &request);
    shutdown(s->socket, SHUT_RDWR);
    pthread_join(s->watcher.id, NULL);
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
        leave_npud(s);
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
    atomic_store(&process->live, 0);
    atomic_store(&process->session, NULL);
    pthread_mutex_unlock(&process->threads_lock);
    known = NULL;
    atomic_store(&s->closed, true);
    atomic_store(&s->lost, true);
    LIFECYCLE_WALK(session_forget, s);
    s->left_epoch = api_call_new_epoch();
    s->forgotten_next = left;
    left = s;
}

bool session_close_if_unused(void)
{
    struct session *s = session_peek();

    if (!s || session_lost(s) || !close_unless_used(s))
        return false;
    LIFECYCLE_WALK(session_end, s);
    if (!side_thread_ask(&s->watcher))
        return false; /* npud went at this very moment */
    take_away(s);
    return true;
}

/* npud hears of changes in their order, and each caller returns when npud knows of its own. */
static void set_idle(struct session *s, bool idle)
{
    REQUEST(idle_session, IDLE_SESSION, .idle = idle);

    pthread_mutex_lock(&s->idle_lock);
    if (atomic_exchange(&s->idle, idle) != idle)
        session_command_unheard(s, &request);
    pthread_mutex_unlock(&s->idle_lock);
}

/*
 * Another thread may call aclInit, which takes process->lock, or go to sleep at a queue: it is in
 * the list of sleepers before it looks whether the session is idle, and here that is the other way
 * round.
 */
void session_tell_idle(void)
{
    struct session *s = session_peek();

    if (!s || session_lost(s) || wait_any_without_device(&s->waits))
        return;
    pthread_mutex_lock(&process->lock);
    if (process->init_count == 0)
        set_idle(s, true);
    pthread_mutex_unlock(&process->lock);
    if (wait_any_without_device(&s->waits))
        set_idle(s, false);
}

void session_use_again_slow(struct session *s)
{
    set_idle(s, false);
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
    LIFECYCLE_WALK(session_forget, s);
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
    LIFECYCLE_WALK(session_inherited, s);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (s->devices[i].open)
            close(s->devices[i].doorbell);
    s->forgotten_next = forgotten;
    forgotten = s;
    known = NULL;
}

const struct part session_part = {.fork_child = forget_inherited};
