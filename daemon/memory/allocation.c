#include "daemon/memory/allocation.h"

#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/core/device.h"
#include "daemon/base/memfd.h"
#include "daemon/core/session.h"

#define PAGE 4096u

static int32_t charge_user(struct mem *m, struct session *session, struct device *device)
{
    enum resource r = m->kind == MEM_DEVICE ? RESOURCE_DEVICE_MEMORY : RESOURCE_HOST_MEMORY;

    if (m->kind == MEM_DEVICE && m->size > device->info.memory - device->memory_used)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (user_charge(&m->charge, session->user, r, m->size) < 0)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (user_charge(&m->charge_fd, session->user, RESOURCE_FDS, 1) < 0) {
        user_uncharge(&m->charge);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    return 0;
}

int32_t allocation_new(struct session *session, struct device *device, enum mem_kind kind,
                       uint64_t size, struct mem **memp)
{
    struct mem *m;
    int32_t error;

    if (size == 0)
        return ACL_ERROR_INVALID_PARAM;
    if (size > UINT64_MAX - PAGE)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    m = slots_take(&session->mems);
    if (!m)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    m->session = session;
    m->device = device;
    m->kind = kind;
    m->size = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    atomic_store_explicit(&m->map, NULL, memory_order_relaxed);
    error = charge_user(m, session, device);
    if (error != 0)
        goto put;
    m->fd = kind == MEM_DEVICE
                ? device->backend->memory_new(device->backend_state, device->index, m->size)
                : memfd_new("npud-host-memory", m->size);
    if (m->fd < 0) {
        user_uncharge(&m->charge);
        user_uncharge(&m->charge_fd);
        error = ACL_ERROR_RT_MEMORY_ALLOCATION;
        goto put;
    }
    if (kind == MEM_DEVICE)
        device->memory_used += m->size;
    session->memory += m->size;
    waitlist_init(&m->values);
    slots_publish(m);
    *memp = m;
    return 0;
put:
    slots_put(&session->mems, m);
    return error;
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
    deferred_close_free_memory(m->fd, map, m->size);
    if (m->kind == MEM_DEVICE)
        m->device->memory_used -= m->size;
    session->memory -= m->size;
    user_uncharge(&m->charge);
    user_uncharge(&m->charge_fd);
    slots_put(&session->mems, m);
    session_give_back(session, &session->mems);
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

void *allocation_range(struct session *session, uint32_t slot, uint32_t generation, uint64_t offset,
                       uint64_t size)
{
    struct mem *m = allocation_get(session, slot, generation);
    unsigned char *map;

    if (!m || offset > m->size || size > m->size - offset)
        return NULL;
    map = map_once(m);
    return map ? map + offset : NULL;
}
