#include "daemon/core/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/memfd.h"
#include "daemon/base/pidfd.h"
#include "daemon/base/waker.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/kept/record.h"
#include "daemon/core/server.h"
#include "daemon/core/trace.h"
#include "daemon/kept/event_record.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/stream_record.h"
#include "proto/shm/arena.h"
#include "proto/util/futex.h"

#define SMALL_OBJECT  512u  /* bytes: none is larger */
#define KEPT_FROM_MAX 65536 /* half of the table of descriptors that npud begins with */

/* --- locks --- */

/* A forgotten session has no engine that could come near it, and many objects to be freed. */
void session_lock(struct session *session)
{
    if (session->forgotten)
        return;
    for (uint32_t i = 0; i < session->server->devices->n; i++)
        if (session->attach[i])
            engine_lock(session->attach[i]->device->engine);
}

void session_unlock(struct session *session)
{
    if (session->forgotten)
        return;
    for (uint32_t i = session->server->devices->n; i-- > 0;)
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
    uint32_t latest = table->latest;
    void *object;

    *cause = bytes > 0 ? charge_tables(session, bytes, mapped) : CAUSE_NONE;
    if (*cause != CAUSE_NONE)
        return NULL;
    object = slots_take(table);
    /* A later npud gives no slot a generation that a client may know. */
    if (table->latest != latest)
        kept_touch(&session->kept);
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

/*
 * libevent has an entry for each number of a descriptor that it ever polled, and never frees one.
 * So that sockets get the numbers of earlier sockets, descriptors that it never polls stand apart.
 * If there is no room, the number stays.
 */
int session_own_fd(const struct server *server, int fd)
{
    int from = server->fds < KEPT_FROM_MAX * 2 ? (int)(server->fds / 2) : KEPT_FROM_MAX;
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, from);

    if (moved < 0)
        return fd;
    kept_fd_moved(fd, moved);
    close(fd);
    return moved;
}

/*
 * npud has it mapped, and keeps its descriptor. noted: bytes that npud itself notes of it, which
 * are charged with it.
 */
static enum cause make_file(struct session *session, const char *name, size_t size, size_t noted,
                            int *fd, void **map)
{
    enum cause cause = charge_tables(session, size + noted, 1);
    int r;

    if (cause != CAUSE_NONE)
        return cause;
    if (user_charge_more(&session->charge_fds, session->user, RESOURCE_FDS, 1) < 0) {
        uncharge_tables(session, size + noted, 1);
        return CAUSE_USER_DESCRIPTORS;
    }
    r = memfd_map_new(name, size, fd, map);
    if (r < 0) {
        user_uncharge_part(&session->charge_fds, 1);
        uncharge_tables(session, size + noted, 1);
        return cause_of_errno(r);
    }
    *fd = session_own_fd(session->server, *fd);
    kept_fd(*fd);
    return CAUSE_NONE;
}

void session_charge_file_again(struct session *session, size_t bytes)
{
    struct user *user = session->user;

    user_charge_again(&session->charge_maps, user, RESOURCE_MAPPINGS, 1, false);
    user_charge_again(&session->charge_tables, user, RESOURCE_TABLE_MEMORY, bytes, false);
    user_charge_again(&session->charge_fds, user, RESOURCE_FDS, 1, false);
}

void session_arena_file_resend(struct arena_files *files, uint32_t index)
{
    if (index >= files->n || !files->file[index])
        return;
    files->file[index]->to_send = true;
    kept_touch(&files->file[index]->kept);
}

static bool grow_files(struct arena_files *files, uint32_t n)
{
    struct arena_file **file = reallocarray(files->file, n, sizeof(struct arena_file *));

    if (!file)
        return false;
    for (uint32_t i = files->n; i < n; i++)
        file[i] = NULL;
    files->file = file;
    files->n = n;
    return true;
}

/* Which files: of streams, or of plain events. */
static enum kept_kind kind_of(const struct session *session, const struct arena_files *files)
{
    return files == &session->stream_files ? KEPT_STREAMS : KEPT_EVENTS;
}

static enum cause make_arena_file(struct session *session, struct arena_files *files,
                                  uint32_t index)
{
    struct arena_file *file = calloc(1, sizeof(*file));
    enum kept_kind kind = kind_of(session, files);
    enum cause cause;

    if (!file)
        return CAUSE_MEMORY;
    *file = (struct arena_file){
        .session = session, .index = index, .fd = -1, .size = files->size, .to_send = true};
    if (!arena_kept_make(file, kind)) {
        free(file);
        return CAUSE_MEMORY;
    }
    /* Charged as large as it may get: a larger one is not refused. */
    cause =
        make_file(session, "npud-arena", files->size, arena_kept_size(kind), &file->fd, &file->map);
    if (cause != CAUSE_NONE) {
        kept_drop(&file->kept);
        free(file);
        return cause;
    }
    files->file[index] = file;
    return CAUSE_NONE;
}

static struct arena_file *restore_file(struct server *server, struct session *session,
                                       const struct arena_record *r)
{
    struct arena_file *file = calloc(1, sizeof(*file));

    if (!file)
        return NULL;
    *file = (struct arena_file){.session = session,
                                .index = r->index,
                                .size = r->size,
                                .to_send = r->to_send,
                                .fd = session_own_fd(server, kept_fd_take(r->key))};
    file->map = file->fd < 0
                    ? MAP_FAILED
                    : mmap(NULL, file->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (file->map != MAP_FAILED)
        return file;
    free(file);
    return NULL;
}

bool session_arena_file_restore(struct server *server, struct kept_cell *cell, enum kept_kind kind,
                                struct arena_file **file)
{
    struct arena_files *files;
    struct session *session;
    struct arena_record r;

    *file = NULL;
    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    if (!session)
        return false;
    files = kind == KEPT_STREAMS ? &session->stream_files : &session->event_files;
    /* The npud before has ended in kept_enlarge(): there are two, with the same content. */
    if (r.index < files->n && files->file[r.index]) {
        kept_discard(cell);
        return true;
    }
    if (r.index >= files->n && !grow_files(files, r.index + 1))
        return false;
    *file = restore_file(server, session, &r);
    if (!*file)
        return false;
    arena_kept_bind(*file, kind, cell);
    files->size = r.size;
    files->file[r.index] = *file;
    session_charge_file_again(session, r.size + arena_kept_size(kind));
    return true;
}

enum cause session_arena_file(struct session *session, struct arena_files *files, uint32_t slot,
                              size_t size, void **mapping, int *fd)
{
    uint32_t in_file = arena_kept_slots(kind_of(session, files)), index = slot / in_file;
    struct arena_file *file;
    enum cause cause = CAUSE_NONE;

    *fd = -1;
    if (index >= files->n && !grow_files(files, index + 1))
        return CAUSE_MEMORY;
    files->size = (uint32_t)size;
    if (!files->file[index])
        cause = make_arena_file(session, files, index);
    if (cause != CAUSE_NONE)
        return cause;
    file = files->file[index];
    if (!arena_kept_reach(file, slot % in_file))
        return CAUSE_MEMORY;
    *mapping = file->map;
    if (file->to_send) {
        *fd = file->fd;
        kept_touch(&file->kept);
    }
    file->to_send = false;
    return CAUSE_NONE;
}

/* --- a file without objects --- */

/* Also one that was destroyed and goes when its streams have passed it. */
static bool has_objects(const struct arena_file *file)
{
    const struct slots *table =
        file->kind == KEPT_STREAMS ? &file->session->streams : &file->session->events;
    uint32_t n = arena_kept_slots(file->kind);

    for (uint32_t i = 0; i < n; i++)
        if (slots_get(table, file->index * n + i))
            return true;
    return false;
}

static void exchange_file(struct arena_file *file, int fd, void *map)
{
    if (file->kind == KEPT_STREAMS)
        memcpy(map, file->map, ARENA_STREAMS * sizeof(struct stream_ctrl));
    munmap(file->map, file->size);
    KILL_HERE(SEGMENT_UNMAPPED);
    kept_close(file->fd);
    file->fd = session_own_fd(file->session->server, fd);
    kept_fd(file->fd);
    file->map = map;
    file->to_send = true;
    kept_touch(&file->kept);
}

enum cause session_arena_file_renew(struct arena_files *files, uint32_t index)
{
    struct arena_file *file = index < files->n ? files->file[index] : NULL;
    void *map;
    int fd, r;

    if (!file)
        return CAUSE_NO_OBJECT;
    /* Sleepers that are still to be woken sleep on the memory that goes. */
    if (has_objects(file) || waker_wakes_in(file->map, file->size))
        return CAUSE_ARENA_USED;
    r = memfd_map_new("npud-arena", file->size, &fd, &map);
    if (r < 0)
        return cause_of_errno(r);
    exchange_file(file, fd, map);
    return CAUSE_NONE;
}

bool session_free_arena_file(struct arena_files *files)
{
    while (files->n > 0) {
        struct arena_file *file = files->file[--files->n];

        if (!file)
            continue;
        kept_drop(&file->kept);
        munmap(file->map, file->size);
        KILL_HERE(SEGMENT_UNMAPPED);
        kept_close(file->fd);
        free(file);
        return false;
    }
    free(files->file);
    *files = (struct arena_files){0};
    return true;
}

/* --- devices --- */

struct attach *session_attach(struct session *session, uint32_t device)
{
    return device < DEVICES_MAX ? session->attach[device] : NULL;
}

#define ATTACH_MEMBERS(DO)                                                                         \
    DO##DERIVED(session, o->session->id);                                                          \
    DO##DERIVED(bell_key, kept_key(o->fd));                                                        \
    DO##DERIVED(device, o->device->index);                                                         \
    DO##DERIVED(executor, executor_of(o));

/* The same in the records of all its devices. */
static uint32_t executor_of(const struct attach *a)
{
    const struct backend *backend = a->device->backend;

    return backend->attach_note ? backend->attach_note(a->session->space) : 0;
}

RECORD_LIVE(static, attach, ATTACH, struct attach, kept, struct attach_record, ATTACH_MEMBERS, live)

/* A session that is ending already goes on as it does. */
static bool run_fault(struct job *job)
{
    struct attach *a = (struct attach *)((char *)job - offsetof(struct attach, fault));

    if (a->session->state == SESSION_OPEN)
        job_list(&a->session->end);
    return false;
}

static struct backend_client client_of(const struct session *session)
{
    return (struct backend_client){
        .session = session->id, .uid = session->user->payer->uid, .pid = session->pid};
}

static enum cause attach_backend(struct session *session, struct device *device)
{
    const struct backend_client client = client_of(session);

    if (!device->backend->attach)
        return CAUSE_NONE;
    return cause_of_device(
        device->backend->attach(device->backend_state, &session->space, device->index, &client));
}

static bool attach_backend_again(struct session *session, struct device *device, uint32_t executor)
{
    const struct backend_client client = client_of(session);

    return !device->backend->attach_back ||
           device->backend->attach_back(device->backend_state, &session->space, executor, &client);
}

static struct attach *attach_new(struct session *session, struct device *device)
{
    struct attach *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->session = session;
    a->device = device;
    a->fd = -1;
    a->fault = (struct job){run_fault, "end of a session that rings for nothing", &session->owner};
    a->bell = &session->page->doorbell[device->index];
    /* Also of the npud before: its engine looks no more. */
    atomic_store(&a->bell->watched, 0);
    return a;
}

/* Its watches are the client's: deferred_close.h. */
static void close_bell(struct attach *a)
{
    if (a->fd < 0)
        return;
    kept_fd_leave(a->fd);
    deferred_close_watched(session_payer(a->session), a->fd);
}

static void attach_free(struct attach *a)
{
    job_cancel(&a->fault);
    close_bell(a);
    kept_drop(&a->kept);
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
    kept_fd(a->fd);
    if (!attach_keep(a))
        return CAUSE_MEMORY;
    a->live->loss = atomic_load(&a->device->loss); /* of one before nothing is told */
    r = engine_attach(a->device->engine, a);
    return r < 0 ? cause_of_errno(r) : CAUSE_NONE;
}

void session_lose_devices(struct backend_space **space, int32_t code)
{
    struct session *session = (struct session *)((char *)space - offsetof(struct session, space));

    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_set_lost(session->attach[i], code);
}

/*
 * The session may have another executor now, which is noted for all of its devices. The others stay
 * lost until they are opened anew, too: it does not use them so far.
 */
static void find_device(struct attach *found)
{
    struct session *session = found->session;

    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            kept_touch(&session->attach[i]->kept);
    if (found->lost != 0)
        engine_set_lost(found, 0);
}

enum cause session_open_device(struct session *session, uint32_t index, int *fd)
{
    struct device *device = devices_get(session->server->devices, index);
    enum cause cause;
    struct attach *a;

    if (!device)
        return CAUSE_DEVICE_NONE;
    cause = attach_backend(session, device);
    if (cause != CAUSE_NONE)
        return cause;
    a = session->attach[index];
    if (a) {
        find_device(a);
        *fd = a->fd;
        return CAUSE_NONE;
    }
    a = attach_new(session, device);
    if (!a)
        return CAUSE_MEMORY;
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

bool attach_restore(struct server *server, struct kept_cell *cell)
{
    struct attach_record r;
    struct session *session;
    struct device *device;
    struct attach *a;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    device = devices_get(server->devices, r.device);
    a = session && session->page && device && !session->attach[r.device]
            ? attach_new(session, device)
            : NULL;
    if (!a || !attach_backend_again(session, device, r.executor))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    session->attach[r.device] = a;
    device->sessions++;
    a->fd = session_own_fd(server, kept_fd_take(r.bell_key));
    user_charge_again(&a->charge_fd, session->user, RESOURCE_FDS, 1, false);
    return a->fd >= 0 && attach_back(server, a, cell, &r) && engine_attach(device->engine, a) == 0;
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

enum cause session_hello(struct session *session, const char *program)
{
    void *map;
    enum cause cause =
        make_file(session, "npud-session", sizeof(struct session_page), 0, &session->page_fd, &map);

    if (cause == CAUSE_USER_DESCRIPTORS)
        return CAUSE_USER_SESSION_DESCRIPTORS;
    if (cause != CAUSE_NONE)
        return cause;
    session->page = map;
    session->tells_waited = true;
    session->ring_depth = session->server->config->ring_depth;
    snprintf(session->program, sizeof(session->program), "%s", program);
    session->state = SESSION_OPEN;
    kept_touch(&session->kept);
    trace_note_session(session);
    log_event(MESSAGE_SESSION_BEGAN, LOG_DEBUG, &session->log, "%s begins", session->program);
    return CAUSE_NONE;
}
