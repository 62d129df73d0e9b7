#include "daemon/memory/allocation.h"

#include <errno.h>
#include <stddef.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/kept/record.h"
#include "daemon/memory/export.h"
#include "proto/wire/packet.h"

#define PAGE 4096u

static struct backend_note note_of(const struct mem *m)
{
    const struct backend *backend = m->pages->device->backend;

    return backend->memory_note ? backend->memory_note(m->memory) : (struct backend_note){0};
}

#define MEM_MEMBERS(DO)                                                                            \
    DO##DERIVED(session, o->session->id);                                                          \
    DO##DERIVED(size, o->pages->size);                                                             \
    DO##DERIVED(key, kept_key(o->pages->fd));                                                      \
    DO##DERIVED(slot, o->slot.number);                                                             \
    DO##DERIVED(generation, slot_generation(o));                                                   \
    DO##DERIVED(device, o->pages->device->index);                                                  \
    DO##DERIVED(kind, o->pages->kind);                                                             \
    DO##DERIVED(pages, o->pages->number);                                                          \
    DO##DERIVED(maker, o->pages->number ? o->pages->maker : 0);                                    \
    DO##DERIVED(maker_pid, o->pages->number ? o->pages->maker_pid : 0);                            \
    DO##DERIVED(maker_uid, o->pages->number ? o->pages->maker_uid : 0);                            \
    DO##SAME(imported, imported);                                                                  \
    DO##SAME(address, address);                                                                    \
    DO##SAME(freed, freed);                                                                        \
    DO##DERIVED(left, o->pages->holders == o ? atomic_load(&o->pages->sharers.left) : 0);          \
    DO##DERIVED(since, o->sharer->since);                                                          \
    DO##DERIVED(over, o->sharer->over);                                                            \
    DO##DERIVED(deserted, o->pages->holders == o ? o->pages->deserted : 0);                        \
    DO##DERIVED(executor, note_of(o).executor);                                                    \
    DO##DERIVED(handle, note_of(o).handle);                                                        \
    DO##DERIVED(origin_executor, note_of(o).origin_executor);                                      \
    DO##DERIVED(origin_handle, note_of(o).origin_handle);

RECORD(static, mem, MEMORY, struct mem, kept, struct memory_record, MEM_MEMBERS)

static void put_slot(struct mem *m)
{
    user_uncharge(&m->charge_fd);
    session_put_slot(m->session, &m->session->mems, m);
}

static bool run_free(struct job *job);

static bool is_unused(const struct mem *m)
{
    return atomic_load_explicit(&m->works, memory_order_relaxed) == 0;
}

static void begin_unused(struct mem *m)
{
    atomic_store_explicit(&m->works, 0, memory_order_relaxed);
    m->freed = false;
    m->free = (struct job){run_free, "free memory", &m->session->owner};
}

static struct mem *take_slot(struct session *session, enum cause *cause)
{
    struct mem *m = session_take_slot(session, &session->mems, CAUSE_ALLOCATIONS_OF_SESSION, cause);

    if (!m) {
        if (*cause == CAUSE_MEMORY)
            *cause = CAUSE_FILE_MEMORY;
        return NULL;
    }
    m->session = session;
    m->pages = NULL;
    m->memory = NULL;
    m->imported = 0;
    m->exports = NULL;
    m->n_exports = 0;
    m->address = 0;
    m->kept = (struct kept){0};
    m->charge_fd = m->charge_address = (struct charge){0};
    atomic_store_explicit(&m->filled, 0, memory_order_relaxed);
    begin_unused(m);
    /* npud maps it when a task first needs it, on an engine's thread, which charges nothing. */
    *cause =
        cause_of_files(user_charge_files(&m->charge_fd, session->user, 1), CAUSE_USER_DESCRIPTORS);
    if (*cause == CAUSE_NONE)
        return m;
    put_slot(m);
    return NULL;
}

/* False: over the limit. */
static bool charge_address(struct mem *m)
{
    const struct device *d = m->pages->device;
    struct session *session = m->session;

    if (user_charge(&m->charge_address, session->user, RESOURCE_TABLE_MEMORY,
                    d->backend->address_bytes(d->backend_state)) < 0)
        return false;
    return session->space ||
           user_charge_more(&session->charge_tables, session->user, RESOURCE_TABLE_MEMORY,
                            d->backend->space_bytes(d->backend_state)) == 0;
}

static enum cause make_address(struct mem *m)
{
    struct device *d = m->pages->device;
    struct session *session = m->session;
    int r = d->backend->address_new(d->backend_state, &session->space, d->index, m->memory,
                                    m->pages->size, &m->address);

    if (r < 0 && !session->space)
        user_uncharge_part(&session->charge_tables, d->backend->space_bytes(d->backend_state));
    if (r == 0)
        return CAUSE_NONE;
    return r == -ENOSPC ? CAUSE_DEVICE_ADDRESSES : CAUSE_FILE_MEMORY;
}

/* Pages of the host have none, nor have binaries. */
static enum cause take_address(struct mem *m)
{
    if (m->pages->kind != MEM_DEVICE)
        return CAUSE_NONE;
    return charge_address(m) ? make_address(m) : CAUSE_USER_TABLE_MEMORY;
}

/* Or what was charged for one that could not be had. */
static void give_address_back(struct mem *m)
{
    struct device *d = m->pages->device;

    d->backend->address_free(m->session->space, d->index, m->address);
    user_uncharge(&m->charge_address);
}

static bool restore_address(struct mem *m, struct device *d, uint64_t size)
{
    struct session *session = m->session;

    m->charge_address = (struct charge){0};
    if (m->address == 0)
        return true;
    user_charge_again(&m->charge_address, session->user, RESOURCE_TABLE_MEMORY,
                      d->backend->address_bytes(d->backend_state), false);
    if (!session->space)
        user_charge_again(&session->charge_tables, session->user, RESOURCE_TABLE_MEMORY,
                          d->backend->space_bytes(d->backend_state), false);
    return d->backend->address_note(d->backend_state, &session->space, d->index, m->address, size);
}

/* The session has the pages in this slot. Else they are as they were; pages of its own are gone. */
static enum cause begin_use(struct mem *m, struct pages *pages)
{
    enum cause cause;

    cause = pages_join(pages, m);
    if (cause != CAUSE_NONE)
        return cause;
    cause = take_address(m);
    if (cause == CAUSE_NONE && !mem_keep(m))
        cause = CAUSE_FILE_MEMORY;
    if (cause != CAUSE_NONE) {
        give_address_back(m);
        pages_unjoin(pages, m);
        return cause;
    }
    slots_publish(m);
    return CAUSE_NONE;
}

static void free_memory(struct mem *m, const struct device *d)
{
    d->backend->memory_free(d->backend_state, m->memory, m->session->user);
    m->memory = NULL;
}

static void leave_pages(struct mem *m)
{
    const struct device *d = m->pages->device;

    give_address_back(m);
    pages_leave(m->pages, m);
    free_memory(m, d);
}

static enum cause make(struct session *session, struct device *device, enum mem_kind kind,
                       uint64_t size, const struct binary_file *file, struct mem **memp)
{
    struct pages *pages;
    enum cause cause;
    struct mem *m;

    if (size == 0)
        return CAUSE_ALLOCATION_SIZE;
    if (size > (UINT64_C(1) << PAGES_BITS) - PAGE)
        return kind == MEM_DEVICE ? CAUSE_DEVICE_MEMORY : CAUSE_FILE_MEMORY;
    m = take_slot(session, &cause);
    if (!m)
        return cause;
    cause = pages_new(session, device, kind, (size + PAGE - 1) & ~(uint64_t)(PAGE - 1), file,
                      &pages, &m->memory);
    if (cause == CAUSE_NONE)
        cause = begin_use(m, pages);
    if (cause != CAUSE_NONE) {
        if (m->memory)
            free_memory(m, device);
        put_slot(m);
        return cause;
    }
    *memp = m;
    return CAUSE_NONE;
}

enum cause allocation_new(struct session *session, struct device *device, enum mem_kind kind,
                          uint64_t size, struct mem **memp)
{
    return make(session, device, kind, size, NULL, memp);
}

enum cause allocation_load(struct session *session, struct device *device,
                           const struct binary_file *file, struct mem **memp)
{
    const struct pages *p = file->mem->pages;

    if (p->kind != MEM_HOST || file->size > p->size)
        return CAUSE_BINARY_FILE;
    return make(session, device, MEM_BINARY, file->size, file, memp);
}

enum cause allocation_name_function(struct mem *binary, const char *name, uint32_t number)
{
    return pages_name_function(binary->session, binary->memory, binary->pages, name, number);
}

static enum cause share_memory(struct mem *m, const struct pages *pages)
{
    const struct device *d = pages->device;

    return cause_of_device(d->backend->memory_share(d->backend_state, m->session->space, d->index,
                                                    pages->holders->memory, &m->memory));
}

enum cause allocation_import(struct session *session, struct pages *pages, uint64_t size,
                             struct mem **memp)
{
    enum cause cause = pages_check(pages, session);
    struct mem *m = cause == CAUSE_NONE ? take_slot(session, &cause) : NULL;

    if (!m)
        return cause;
    m->imported = size;
    cause = share_memory(m, pages);
    if (cause == CAUSE_NONE)
        cause = begin_use(m, pages);
    if (cause != CAUSE_NONE) {
        if (m->memory)
            free_memory(m, pages->device);
        put_slot(m);
        return cause;
    }
    *memp = m;
    return CAUSE_NONE;
}

bool allocation_restore(struct server *server, struct kept_cell *cell)
{
    struct memory_record r;
    struct session *session;
    struct device *device;
    struct pages *pages;
    struct mem *m;

    kept_read(cell, &r, sizeof(r));
    session = session_by_id(r.session);
    device = devices_get(server->devices, r.device);
    m = session && device ? slots_restore(&session->mems, r.slot, r.generation) : NULL;
    pages = m ? pages_restore(session, device, &r, &m->memory) : NULL;
    if (!pages)
        return false;
    m->session = session;
    begin_unused(m);
    if (!mem_back(server, m, cell, &r))
        return false;
    if (!restore_address(m, device, r.size))
        return false;
    m->exports = NULL;
    m->n_exports = 0;
    m->charge_fd = (struct charge){0};
    user_charge_again(&m->charge_fd, session->user, RESOURCE_FDS, 1, true);
    atomic_store_explicit(&m->filled, 0, memory_order_relaxed);
    return pages_join_again(pages, m, &r);
}

static void fire_waiters(struct mem *m)
{
    struct waitlist *values = &m->pages->values;

    if (m->pages->n_holders == 1)
        waitlist_fire(values, 0, UINT64_MAX, ACL_ERROR_RT_SYS_DMA, 0);
    else
        stream_evict_waiters(m->session, values, m->slot.number, ACL_ERROR_RT_SYS_DMA);
}

/*
 * While the engines are out: what they begin from now on does not find it. False: work that has
 * begun uses it; the engine that ends the last of that sends the job.
 */
static bool end_use(struct mem *m)
{
    bool unused;

    session_lock(m->session);
    if (!m->freed)
        fire_waiters(m);
    m->freed = true;
    unused = is_unused(m);
    if (unused)
        slots_unpublish(m);
    session_unlock(m->session);
    return unused;
}

static void free_unused(struct mem *m)
{
    struct session *session = m->session;

    job_cancel(&m->free);
    kept_drop(&m->kept);
    KILL_HERE(ALLOCATION_FREED);
    leave_pages(m);
    user_unfill(session->user, atomic_load_explicit(&m->filled, memory_order_relaxed));
    put_slot(m);
}

/* The end of a session does not wait for the job: its streams, and so all work, are gone. */
void allocation_free(struct mem *m)
{
    bool unused = end_use(m);

    while (m->exports)
        memory_export_free(m->exports);
    if (unused) {
        free_unused(m);
    } else {
        kept_touch(&m->kept);
        KILL_HERE(ALLOCATION_IN_WORK);
    }
}

void allocation_free_binary(struct session *session, uint32_t slot)
{
    struct mem *m = slots_get(&session->mems, slot);

    if (m && !m->freed && m->pages->kind == MEM_BINARY)
        allocation_free(m);
}

static bool run_free(struct job *job)
{
    allocation_free((struct mem *)((char *)job - offsetof(struct mem, free)));
    return false;
}

void allocations_count_sharers(struct server *server)
{
    struct session *session;
    struct mem *m;

    DL_FOREACH (server->sessions, session)
        slots_foreach (&session->mems, i, m)
            sharer_restored(m->sharer);
}

void allocations_finish_restoring(struct server *server)
{
    struct session *session;
    struct mem *m;

    DL_FOREACH (server->sessions, session)
        slots_foreach (&session->mems, i, m) {
            if (m->freed && is_unused(m))
                job_list(&m->free);
            /* It may be over, and is to fail no wait that comes later. */
            if (m->pages->holders == m && pages_are_deserted(m->pages))
                engine_look_again(m->pages);
        }
}

void allocation_begin_work(struct mem *m)
{
    atomic_fetch_add_explicit(&m->works, 1, memory_order_relaxed);
}

/* After `freed` the number only goes down: the job is sent once. */
void allocation_end_work(struct mem *m)
{
    if (atomic_fetch_sub_explicit(&m->works, 1, memory_order_relaxed) == 1 && m->freed)
        job_send(&m->free);
}

struct work_place allocation_place(const struct mem *m, uint64_t offset, uint64_t size)
{
    const struct pages *p = m ? m->pages : NULL;

    if (!p || offset > p->size || size > p->size - offset ||
        !p->device->backend->memory_usable(m->memory))
        return (struct work_place){0};
    return (struct work_place){m->memory, offset};
}

int allocation_file(const struct mem *m)
{
    return m->pages->fd;
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

struct mem *allocation_get(struct session *session, uint32_t slot, uint32_t generation)
{
    struct mem *m = slots_get_generation(&session->mems, slot, generation);

    return m && !m->freed && m->pages->kind != MEM_BINARY ? m : NULL;
}

struct mem *allocation_get_binary(struct session *session, uint32_t slot, uint32_t generation)
{
    struct mem *m = slots_get_generation(&session->mems, slot, generation);

    return m && !m->freed && m->pages->kind == MEM_BINARY ? m : NULL;
}

struct mem *allocation_get_begun(struct session *session, uint32_t slot, uint32_t generation)
{
    return slots_get_generation(&session->mems, slot, generation);
}
