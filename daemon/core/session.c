#include "daemon/core/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/base/pidfd.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "proto/util/futex.h"

#define SMALL_OBJECT 512u /* bytes: none is larger */

/* --- locks --- */

/* A forgotten session has no engine that could come near it, and many objects to be freed. */
void session_lock(struct session *session)
{
    if (session->forgotten)
        return;
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_lock(session->attach[i]->device->engine);
}

void session_unlock(struct session *session)
{
    if (session->forgotten)
        return;
    for (unsigned i = DEVICES_MAX; i-- > 0;)
        if (session->attach[i])
            engine_unlock(session->attach[i]->device->engine);
}

/* --- memory of tables and of the arena --- */

static enum cause charge_tables(struct session *session, uint64_t bytes, unsigned maps)
{
    struct user *user = session->user;

    if (user_charge_more(&session->charge_maps, user, RESOURCE_MAPPINGS, maps) < 0)
        return CAUSE_USER_MAPPINGS;
    if (user_charge_more(&session->charge_tables, user, RESOURCE_TABLE_MEMORY, bytes) == 0)
        return CAUSE_NONE;
    user_uncharge_part(&session->charge_maps, maps);
    return CAUSE_USER_TABLE_MEMORY;
}

/* What was charged could not be had. */
static void uncharge_tables(struct session *session, uint64_t bytes, unsigned maps)
{
    user_uncharge_part(&session->charge_maps, maps);
    user_uncharge_part(&session->charge_tables, bytes);
}

enum cause session_cause_of_object(const struct session *session)
{
    const struct user *user = session->user;

    return user_used(user, RESOURCE_TABLE_MEMORY) + SMALL_OBJECT >
                   user_limit(user, RESOURCE_TABLE_MEMORY)
               ? CAUSE_USER_TABLE_MEMORY
               : CAUSE_MEMORY;
}

void *session_take_slot(struct session *session, struct slots *table, enum cause full,
                        enum cause *cause)
{
    bool mapped;
    size_t bytes = slots_growth(table, &mapped);
    void *object;

    *cause = bytes > 0 ? charge_tables(session, bytes, mapped) : CAUSE_NONE;
    if (*cause != CAUSE_NONE)
        return NULL;
    object = slots_take(table);
    if (object)
        return object;
    if (bytes > 0)
        uncharge_tables(session, bytes, mapped);
    *cause = slots_full(table) ? full : CAUSE_MEMORY;
    return NULL;
}

/* Engines find no object that was put, and use none outside of their locks. */
void session_put_slot(struct session *session, struct slots *table, void *object)
{
    assert(!slot_live(object));
    slots_put(table, object);
    /* A session that ends frees the whole table. */
    if (!session->halted)
        slots_release(table, SLOTS_IDLE_KEPT, NULL);
}

/* --- arena --- */

static void forget_newest(struct segments *segs)
{
    if (segs->newest != 0)
        close(segs->newest - 1);
    segs->newest = 0;
    segs->resend = false;
}

void session_segments_taken(struct session *session, bool undoes)
{
    if (undoes)
        return;
    if (session->stream_segments.newest != 0 && !session->stream_segments.resend)
        forget_newest(&session->stream_segments);
    if (session->event_segments.newest != 0 && !session->event_segments.resend)
        forget_newest(&session->event_segments);
}

void session_segment_resend(struct segments *segs, uint32_t index)
{
    if (segs->newest != 0 && segs->newest_at == index)
        segs->resend = true;
}

/*
 * A descriptor for the reply, if the client needs one; another stays here until the client is known
 * to have it. False: npud has none.
 */
static bool send_newest(struct segments *segs, uint32_t index, int *fd)
{
    if (segs->resend && segs->newest_at == index) {
        *fd = fcntl(segs->newest - 1, F_DUPFD_CLOEXEC, 0);
        segs->resend = *fd < 0;
        return *fd >= 0;
    }
    if (*fd >= 0) {
        forget_newest(segs);
        segs->newest = fcntl(*fd, F_DUPFD_CLOEXEC, 0) + 1;
        segs->newest_at = index;
    }
    return true;
}

enum cause session_segment(struct session *session, struct segments *segs, uint32_t index,
                           size_t size, void **mapping, int *fd)
{
    int r;

    *fd = -1;
    if (index >= segs->n) {
        void **map = reallocarray(segs->map, index + 1, sizeof(*map));

        if (!map)
            return CAUSE_MEMORY;
        memset(map + segs->n, 0, (index + 1 - segs->n) * sizeof(*map));
        segs->map = map;
        segs->n = index + 1;
    }
    segs->size = size;
    if (!segs->map[index]) {
        enum cause cause = charge_tables(session, size, 1);

        if (cause != CAUSE_NONE)
            return cause;
        r = memfd_map_new("npud-arena", size, fd, &segs->map[index]);
        if (r < 0) {
            uncharge_tables(session, size, 1);
            return cause_of_errno(r);
        }
    }
    *mapping = segs->map[index];
    return send_newest(segs, index, fd) ? CAUSE_NONE : CAUSE_DESCRIPTORS;
}

bool session_free_segment(struct segments *segs)
{
    while (segs->n > 0) {
        void *map = segs->map[--segs->n];

        if (!map)
            continue;
        munmap(map, segs->size);
        return false;
    }
    free(segs->map);
    forget_newest(segs);
    *segs = (struct segments){0};
    return true;
}

/* --- devices --- */

struct attach *session_attach(struct session *session, uint32_t device)
{
    return device < DEVICES_MAX ? session->attach[device] : NULL;
}

static void attach_free(struct attach *a)
{
    if (a->fd >= 0)
        close(a->fd);
    user_uncharge(&a->charge_fd);
    free(a);
}

/* Make its doorbell, and have the engine listen to that. */
static enum cause attach_open(struct attach *a)
{
    struct session *session = a->session;
    int r;

    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->fd < 0)
        return cause_of_errno(-errno);
    if (user_charge(&a->charge_fd, session->user, RESOURCE_FDS, 1) < 0)
        return CAUSE_USER_DESCRIPTORS;
    r = engine_attach(a->device->engine, a);
    return r < 0 ? cause_of_errno(r) : CAUSE_NONE;
}

enum cause session_open_device(struct session *session, uint32_t index, int *fd)
{
    struct device *device = devices_get(session->server->devices, index);
    enum cause cause;
    struct attach *a;

    if (!device)
        return CAUSE_DEVICE_NONE;
    a = session->attach[index];
    if (a) {
        *fd = a->fd;
        return CAUSE_NONE;
    }
    a = calloc(1, sizeof(*a));
    if (!a)
        return CAUSE_MEMORY;
    a->session = session;
    a->device = device;
    a->bell = &session->page->doorbell[index];
    cause = attach_open(a);
    if (cause != CAUSE_NONE) {
        attach_free(a);
        return cause;
    }
    session->attach[index] = a;
    device->sessions++;
    *fd = a->fd;
    return CAUSE_NONE;
}

void session_close_devices(struct session *session)
{
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        struct attach *a = session->attach[i];

        if (!a)
            continue;
        assert(a->streams == 0);
        engine_lock(a->device->engine);
        engine_detach(a->device->engine, a);
        session->attach[i] = NULL;
        engine_unlock(a->device->engine);
        a->device->sessions--;
        attach_free(a);
    }
}

/* --- the client --- */

bool session_alive(const struct session *session)
{
    return session->state < SESSION_DYING && (session->pidfd < 0 || pidfd_alive(session->pidfd));
}

void session_tell_retired(struct session *session)
{
    if (!session || !session->page)
        return;
    atomic_fetch_add(&session->page->retired, 1);
    futex_wake_one(&session->page->retired);
}

enum cause session_hello(struct session *session, const char *program, int *page_fd)
{
    enum cause cause = charge_tables(session, sizeof(struct session_page), 1);
    void *map;
    int r;

    if (cause != CAUSE_NONE)
        return cause;
    r = memfd_map_new("npud-session", sizeof(struct session_page), page_fd, &map);
    if (r < 0) {
        uncharge_tables(session, sizeof(struct session_page), 1);
        return cause_of_errno(r);
    }
    session->page = map;
    session->ring_depth = session->server->config->ring_depth;
    snprintf(session->program, sizeof(session->program), "%s", program);
    session->state = SESSION_OPEN;
    log_line(LOG_DEBUG, &session->log, "program %s, uid %u", session->program,
             (unsigned)session->uid);
    return CAUSE_NONE;
}
