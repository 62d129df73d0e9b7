#include "daemon/memory/allocation.h"

#include <assert.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"

#define PAGE 4096u

static enum cause charge_user(struct mem *m, struct session *session)
{
    const struct device *device = m->device;
    bool host = m->kind == MEM_HOST;
    enum resource r = host ? RESOURCE_HOST_MEMORY : RESOURCE_DEVICE_MEMORY;

    if (!host && m->size > device->info.memory - device->memory_used)
        return CAUSE_DEVICE_MEMORY;
    if (user_charge(&m->charge, session->user, r, m->size) < 0)
        return host ? CAUSE_USER_HOST_MEMORY : CAUSE_USER_DEVICE_MEMORY;
    /* npud maps it when a task first needs it, on an engine's thread, which charges nothing. */
    return cause_of_files(user_charge_files(&m->charge_fd, session->user, 1),
                          CAUSE_USER_DESCRIPTORS);
}

static enum cause make_file(struct mem *m)
{
    struct device *device = m->device;

    m->fd = m->kind == MEM_DEVICE
                ? device->backend->memory_new(device->backend_state, device->index, m->size)
                : memfd_new("npud-host-memory", m->size);
    return m->fd < 0 ? cause_of_file(m->fd) : CAUSE_NONE;
}

/* And the slot. */
static void give_charges_back(struct mem *m)
{
    user_uncharge(&m->charge);
    user_uncharge(&m->charge_fd);
    session_put_slot(m->session, &m->session->mems, m);
}

static size_t write_record(const struct kept *kept, void *record)
{
    const struct mem *m = (const struct mem *)((const char *)kept - offsetof(struct mem, kept));

    *(struct memory_record *)record = (struct memory_record){.session = m->session->id,
                                                             .size = m->size,
                                                             .key = kept_key(m->fd),
                                                             .slot = m->slot.number,
                                                             .generation = slot_generation(m),
                                                             .device = m->device->index,
                                                             .kind = m->kind};
    return sizeof(struct memory_record);
}

static enum cause keep_record(struct mem *m)
{
    kept_fd(m->fd);
    return kept_make(&m->kept, KEPT_MEMORY, sizeof(struct memory_record), write_record)
               ? CAUSE_NONE
               : CAUSE_FILE_MEMORY;
}

static void begin_use(struct mem *m)
{
    atomic_store_explicit(&m->map, NULL, memory_order_relaxed);
    atomic_store_explicit(&m->filled, 0, memory_order_relaxed);
    waitlist_init(&m->values);
}

/* It is there, and charged: count it. */
static void count_size(struct mem *m)
{
    if (m->kind == MEM_DEVICE)
        m->device->memory_used += m->size;
    m->session->memory += m->size;
}

enum cause allocation_new(struct session *session, struct device *device, enum mem_kind kind,
                          uint64_t size, struct mem **memp)
{
    enum cause cause;
    struct mem *m;

    if (size == 0)
        return CAUSE_ALLOCATION_SIZE;
    if (size > UINT64_MAX - PAGE)
        return kind == MEM_DEVICE ? CAUSE_DEVICE_MEMORY : CAUSE_FILE_MEMORY;
    m = session_take_slot(session, &session->mems, CAUSE_ALLOCATIONS_OF_SESSION, &cause);
    if (!m)
        return cause == CAUSE_MEMORY ? CAUSE_FILE_MEMORY : cause;
    m->session = session;
    m->device = device;
    m->kind = kind;
    m->size = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    m->fd = -1;
    m->kept = (struct kept){0};
    cause = charge_user(m, session);
    if (cause == CAUSE_NONE)
        cause = make_file(m);
    if (cause == CAUSE_NONE)
        cause = keep_record(m);
    if (cause != CAUSE_NONE) {
        kept_close(m->fd);
        give_charges_back(m);
        return cause;
    }
    begin_use(m);
    count_size(m);
    slots_publish(m);
    *memp = m;
    return CAUSE_NONE;
}

bool allocation_restore(struct server *server, struct kept_cell *cell)
{
    struct memory_record r;
    struct session *session;
    struct mem *m;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    m = session && devices_get(server->devices, r.device)
            ? slots_restore(&session->mems, r.slot, r.generation)
            : NULL;
    if (!m)
        return false;
    m->session = session;
    m->device = devices_get(server->devices, r.device);
    m->kind = (enum mem_kind)r.kind;
    m->size = r.size;
    m->fd = session_own_fd(server, kept_fd_take(r.key));
    if (m->fd < 0 || !kept_bind(&m->kept, cell, sizeof(r), write_record))
        return false;
    user_charge_again(&m->charge, session->user,
                      m->kind == MEM_HOST ? RESOURCE_HOST_MEMORY : RESOURCE_DEVICE_MEMORY, m->size,
                      false);
    user_charge_again(&m->charge_fd, session->user, RESOURCE_FDS, 1, true);
    begin_use(m);
    count_size(m);
    return true;
}

void allocation_free(struct mem *m)
{
    struct session *session = m->session;
    void *map;

    /* While the engines are out: a copy in progress looks the memory up again before its next
     * slice. */
    session_lock(session);
    slots_unpublish(m);
    waitlist_fire(&m->values, 0, UINT64_MAX, ACL_ERROR_RT_SYS_DMA, 0);
    waitlist_deinit(&m->values);
    map = atomic_exchange_explicit(&m->map, NULL, memory_order_relaxed);
    session_unlock(session);
    kept_drop(&m->kept);
    KILL_HERE(ALLOCATION_FREED);
    kept_fd_leave(m->fd);
    deferred_close_free_memory(session->user, m->fd, map, m->size, m->size);
    assert(session->memory >= m->size);
    assert(m->kind == MEM_HOST || m->device->memory_used >= m->size);
    if (m->kind == MEM_DEVICE)
        m->device->memory_used -= m->size;
    session->memory -= m->size;
    user_unfill(session->user, atomic_load_explicit(&m->filled, memory_order_relaxed));
    give_charges_back(m);
}

bool allocation_charge_filled(struct mem *m)
{
    struct session *session = m->session;
    uint64_t bytes = filled_take();

    if (bytes > 0) {
        atomic_fetch_add_explicit(&m->filled, bytes, memory_order_relaxed);
        user_fill(session->user, bytes);
    }
    if (atomic_load_explicit(&m->filled, memory_order_relaxed) == 0 || user_may_fill(session->user))
        return true;
    log_client_fault(&session->log,
                     "uses memory whose pages it has taken away or never had, and npud has filled "
                     "as many for its user as it may ([limits] filled_memory)");
    return false;
}

static void *map_once(struct mem *m)
{
    void *map = atomic_load_explicit(&m->map, memory_order_acquire);
    void *other = NULL;

    if (map)
        return map;
    map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    filled_watch(map, m->size);
    /* Engines of two devices may come here at the same time. */
    if (!atomic_compare_exchange_strong(&m->map, &other, map)) {
        munmap(map, m->size);
        map = other;
    }
    return map;
}

struct mem *allocation_get(struct session *session, uint32_t slot, uint32_t generation)
{
    return slots_get_generation(&session->mems, slot, generation);
}

void *allocation_range(struct mem *m, uint64_t offset, uint64_t size)
{
    unsigned char *map;

    if (!m || offset > m->size || size > m->size - offset)
        return NULL;
    map = map_once(m);
    return map ? map + offset : NULL;
}
