#include "daemon/memory/allocation.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/core/device.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/core/session.h"

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
    atomic_store_explicit(&m->map, NULL, memory_order_relaxed);
    atomic_store_explicit(&m->filled, 0, memory_order_relaxed);
    cause = charge_user(m, session);
    if (cause == CAUSE_NONE)
        cause = make_file(m);
    if (cause != CAUSE_NONE) {
        give_charges_back(m);
        return cause;
    }
    if (kind == MEM_DEVICE)
        device->memory_used += m->size;
    session->memory += m->size;
    waitlist_init(&m->values);
    slots_publish(m);
    *memp = m;
    return CAUSE_NONE;
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
