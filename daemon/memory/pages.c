#include "daemon/memory/pages.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/memfd.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/fds.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/export.h"

#define PAGE UINT64_C(4096)

/* What pages of this kind are charged as, and why there are no more. */
static const struct {
    enum resource resource;
    enum cause cause;
} kinds[] = {
    [MEM_DEVICE] = {RESOURCE_DEVICE_MEMORY, CAUSE_USER_DEVICE_MEMORY},
    [MEM_HOST] = {RESOURCE_HOST_MEMORY, CAUSE_USER_HOST_MEMORY},
    [MEM_BINARY] = {RESOURCE_BINARY_MEMORY, CAUSE_USER_BINARY_MEMORY},
};

static enum resource resource_of(const struct pages *p)
{
    return kinds[p->kind].resource;
}

static enum cause charge_size(const struct pages *p, struct charge *charge, struct user *user)
{
    return user_charge(charge, user, resource_of(p), p->size) == 0 ? CAUSE_NONE
                                                                   : kinds[p->kind].cause;
}

uint64_t pages_device_remaining(const struct user *user, const struct device *device)
{
    uint64_t remaining = device->info.memory - device->memory_used;
    uint64_t own = user->payer->on_device[device->index], most = remaining + own;

    if (!user->users->divided)
        return remaining;
    most = most / 100 * user->users->device_share + most % 100 * user->users->device_share / 100;
    return most > own ? most - own : 0;
}

uint64_t pages_obtainable(const struct session *session, const struct device *device)
{
    const struct user *user = session->user;
    const struct batch_job *job = session->batch_job;
    uint64_t most = pages_device_remaining(user, device);
    uint64_t limit = user_limit(user, RESOURCE_DEVICE_MEMORY);
    uint64_t used = user_used(user, RESOURCE_DEVICE_MEMORY);

    if (limit < used || limit - used < most)
        most = limit < used ? 0 : limit - used;
    if (job && (batch_job_limit(job) < job->used || batch_job_limit(job) - job->used < most))
        most = batch_job_limit(job) < job->used ? 0 : batch_job_limit(job) - job->used;
    return most / PAGE * PAGE;
}

/* After its charge was taken, and before it is given back. */
static void count_for_user(const struct pages *p, bool more)
{
    if (p->kind != MEM_DEVICE || !p->charge.user)
        return;
    if (more)
        p->charge.user->on_device[p->device->index] += p->size;
    else
        p->charge.user->on_device[p->device->index] -= p->size;
}

static enum cause charge_session(struct pages *p, struct session *session)
{
    const struct device *device = p->device;
    enum cause cause;

    if (p->kind == MEM_DEVICE && p->size > device->info.memory - device->memory_used)
        return CAUSE_DEVICE_MEMORY;
    if (p->kind == MEM_DEVICE && p->size > pages_device_remaining(session->user, device))
        return CAUSE_DEVICE_SHARE;
    cause = charge_size(p, &p->charge, session->user);
    count_for_user(p, true);
    if (cause == CAUSE_NONE && p->kind == MEM_BINARY &&
        user_charge(&p->charge_binary, session->user, RESOURCE_BINARIES, 1) < 0)
        cause = CAUSE_USER_BINARIES;
    if (cause == CAUSE_NONE &&
        user_charge(&p->charge_table, session->user, RESOURCE_TABLE_MEMORY, sizeof(*p)) < 0)
        cause = CAUSE_USER_TABLE_MEMORY;
    if (cause == CAUSE_NONE && !batch_job_charge(&p->charge_batch_job, session->batch_job, p->size))
        cause = CAUSE_JOB_MEMORY;
    return cause;
}

enum cause pages_check(struct pages *p, struct session *session)
{
    struct batch_charge trial_job = {0};
    struct charge trial = {0};
    enum cause cause = CAUSE_NONE;

    if (p->charge.user != session->user->payer)
        cause = charge_size(p, &trial, session->user);
    user_uncharge(&trial);
    if (cause == CAUSE_NONE && p->charge_batch_job.job != session->batch_job &&
        !batch_job_charge(&trial_job, session->batch_job, p->size))
        cause = CAUSE_JOB_MEMORY;
    batch_job_uncharge(&trial_job);
    return cause;
}

/* The user has the pages already. */
static void charge_again(struct pages *p, struct session *session)
{
    user_charge_again(&p->charge, session->user, resource_of(p), p->size, false);
    count_for_user(p, true);
    user_charge_again(&p->charge_table, session->user, RESOURCE_TABLE_MEMORY, sizeof(*p), false);
    if (p->kind == MEM_BINARY)
        user_charge_again(&p->charge_binary, session->user, RESOURCE_BINARIES, 1, false);
    batch_job_charge_again(&p->charge_batch_job, session->batch_job, p->size);
}

static void give_charges_back(struct pages *p)
{
    count_for_user(p, false);
    user_uncharge(&p->charge);
    user_uncharge(&p->charge_table);
    user_uncharge(&p->charge_binary);
    batch_job_uncharge(&p->charge_batch_job);
}

/* The memory of a file, which is closed if that fails. False: no memory. */
static struct backend_memory *attach_file(struct pages *p, struct session *session)
{
    struct device *device = p->device;
    struct backend_memory *memory =
        device->backend->memory_attach(device->backend_state, session->space, device->index, p->fd,
                                       p->size, p->kind == MEM_DEVICE);

    if (!memory)
        close(p->fd);
    return memory;
}

static enum cause make_host_memory(struct pages *p, struct session *session,
                                   struct backend_memory **memory)
{
    p->fd = memfd_new("npud-host-memory", p->size);
    if (p->fd < 0)
        return cause_of_file(p->fd);
    *memory = attach_file(p, session);
    return *memory ? CAUSE_NONE : CAUSE_FILE_MEMORY;
}

static enum cause make_device_memory(struct pages *p, struct session *session,
                                     struct backend_memory **memory)
{
    struct device *device = p->device;

    return cause_of_device(device->backend->memory_new(device->backend_state, session->space,
                                                       device->index, p->size, memory, &p->fd));
}

/* Why the backend has refused something about kernels. */
static enum cause cause_of_kernels(int error, enum cause refused)
{
    if (error == -EBADMSG)
        return refused;
    return error == -EOPNOTSUPP ? CAUSE_DEVICE_NO_KERNELS : cause_of_device(error);
}

static enum cause make_binary(struct pages *p, struct session *session,
                              const struct binary_file *file, struct backend_memory **memory)
{
    struct device *d = p->device;

    if (!d->backend->binary_new)
        return CAUSE_DEVICE_NO_KERNELS;
    return cause_of_kernels(d->backend->binary_new(d->backend_state, session->space, d->index,
                                                   file->mem->memory, file->size, file->magic,
                                                   memory),
                            CAUSE_BINARY_REFUSED);
}

enum cause pages_name_function(struct session *session, struct backend_memory *memory,
                               const struct pages *p, const char *name, uint32_t number)
{
    struct device *d = p->device;

    return cause_of_kernels(
        d->backend->function_new(d->backend_state, session->space, memory, name, number),
        CAUSE_FUNCTION_NONE);
}

static enum cause make_pages(struct pages *p, struct session *session,
                             const struct binary_file *file, struct backend_memory **memory)
{
    switch (p->kind) {
    case MEM_DEVICE:
        return make_device_memory(p, session, memory);
    case MEM_HOST:
        return make_host_memory(p, session, memory);
    default:
        return make_binary(p, session, file, memory);
    }
}

static struct pages *begin_pages(struct server *server, struct device *device, enum mem_kind kind,
                                 uint64_t size)
{
    struct pages *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->device = device;
    p->kind = kind;
    p->size = size;
    p->fd = -1;
    p->age = 1;
    waitlist_init(&p->values);
    p->ask = (struct job){engine_answer_asked, "memory given up", &server->schedule.own};
    sharers_init(&p->sharers, &p->values);
    return p;
}

/* They are there, and charged. */
static void count_size(struct pages *p)
{
    if (p->kind == MEM_DEVICE)
        p->device->memory_used += p->size;
}

enum cause pages_new(struct session *session, struct device *device, enum mem_kind kind,
                     uint64_t size, const struct binary_file *file, struct pages **pages,
                     struct backend_memory **memory)
{
    struct pages *p = begin_pages(session->server, device, kind, size);
    enum cause cause;

    if (!p)
        return CAUSE_FILE_MEMORY;
    p->maker = session->id;
    p->maker_pid = session->pid;
    p->maker_uid = session->uid;
    cause = charge_session(p, session);
    if (cause == CAUSE_NONE)
        cause = make_pages(p, session, file, memory);
    if (cause != CAUSE_NONE) {
        give_charges_back(p);
        free(p);
        return cause;
    }
    if (p->fd >= 0)
        kept_fd(p->fd);
    count_size(p);
    *pages = p;
    return CAUSE_NONE;
}

static void free_pages(struct pages *p)
{
    if (p->look.listed)
        job_cancel(&p->look);
    job_cancel(&p->ask);
    waitlist_deinit(&p->values);
    if (p->number)
        HASH_DEL(p->all->pages, p);
    if (p->fd >= 0)
        kept_fd_leave(p->fd);
    assert(p->kind != MEM_DEVICE || p->device->memory_used >= p->size);
    if (p->kind == MEM_DEVICE)
        p->device->memory_used -= p->size;
    give_charges_back(p);
    free(p);
}

/* --- streams that wait for words --- */

/*
 * An engine that parks a stream tells all holders, and must not have to tell thousands: pages with
 * more of them always look as if a stream waits.
 */
#define HOLDERS_TOLD 64u

static void tell_holder(const struct mem *m, bool waited)
{
    struct session *session = m->session;
    uint64_t bit = UINT64_C(1) << (m->slot.number % 64);
    _Atomic uint64_t *word;

    if (!session->tells_waited)
        return;
    word = &session->page->waited[m->slot.number / 64];
    if (waited)
        atomic_fetch_or(word, bit);
    else
        atomic_fetch_and(word, ~bit);
}

/* Caller holds the lock of `values`. */
static void tell_holders(struct pages *p, bool waited)
{
    const struct mem *m;

    p->waited = waited;
    DL_FOREACH (p->holders, m)
        tell_holder(m, waited);
}

void pages_tell_waited(struct pages *p)
{
    waitlist_lock(&p->values);
    if (!p->waited)
        tell_holders(p, true);
    waitlist_unlock(&p->values);
    /* Either a process sees the bit after its store, or the engine sees what was stored. */
    atomic_thread_fence(memory_order_seq_cst);
}

void pages_tell_idle(struct pages *p)
{
    waitlist_lock(&p->values);
    if (p->waited && !waitlist_has_any(&p->values) && p->n_holders <= HOLDERS_TOLD)
        tell_holders(p, false);
    waitlist_unlock(&p->values);
}

static void set_deserted(struct pages *p, uint64_t deserted)
{
    if (p->deserted == deserted)
        return;
    p->deserted = deserted;
    kept_touch(&p->holders->kept);
}

void pages_desert(struct pages *p, int32_t pid)
{
    set_deserted(p, (uint64_t)(uint32_t)pid << 32 | (uint64_t)p->age << 1 | 1);
}

void pages_end_desertion(struct pages *p)
{
    set_deserted(p, 0);
}

static void restore_desertion(struct pages *p, uint64_t deserted)
{
    p->deserted = deserted;
    p->age = (uint32_t)deserted >> 1;
}

/* --- holders --- */

static void add_holder(struct pages *p, struct mem *m)
{
    waitlist_lock(&p->values);
    DL_APPEND(p->holders, m);
    atomic_fetch_add(&p->n_holders, 1);
    p->changes++;
    if (p->waited)
        tell_holder(m, true);
    else if (p->n_holders > HOLDERS_TOLD)
        tell_holders(p, true);
    waitlist_unlock(&p->values);
}

static void hold_pages(struct pages *p, struct mem *m)
{
    m->pages = p;
    add_holder(p, m);
    if (p->holders == m)
        m->session->memory += p->size;
}

enum cause pages_join(struct pages *p, struct mem *m)
{
    enum cause cause = sharer_join(&p->sharers, m->session, &m->sharer);

    if (cause == CAUSE_NONE)
        hold_pages(p, m);
    else if (!p->holders)
        free_pages(p);
    return cause;
}

bool pages_join_again(struct pages *p, struct mem *m, const struct memory_record *r)
{
    if (!sharer_join_again(&p->sharers, m->session, r->since, r->over != 0, &m->sharer))
        return false;
    hold_pages(p, m);
    return true;
}

/* The oldest holder has let go: the next one pays. */
static void pass_on(struct pages *p)
{
    give_charges_back(p);
    charge_again(p, p->holders->session);
    p->holders->session->memory += p->size;
    kept_touch(&p->holders->kept); /* it has `left` now */
    KILL_HERE(PAGES_PASSED_ON);
}

static void remove_holder(struct pages *p, struct mem *m)
{
    assert(p->n_holders > 0);
    waitlist_lock(&p->values);
    DL_DELETE(p->holders, m);
    atomic_fetch_sub(&p->n_holders, 1);
    p->changes++;
    if (p->waited)
        tell_holder(m, false); /* the slot gets other pages */
    waitlist_unlock(&p->values);
}

/*
 * What the session has changed, its streams may not have told all that wait: they do not find the
 * pages any more.
 */
static void tell_others(struct pages *p, const struct session *session, bool left)
{
    if (left && sharers_note_end(&p->sharers, session->pid, session->halted))
        kept_touch(&p->holders->kept);
    /* Also if no stream waits: it may be listed for a session that is gone then. */
    engine_look_again(p);
}

/* False: it was the last one. left: the session has the pages under no other name. */
static bool let_go(struct pages *p, struct mem *m, bool *left)
{
    struct session *session = m->session;
    bool first = p->holders == m;

    remove_holder(p, m);
    *left = sharer_leave(m->sharer);
    if (first) {
        assert(session->memory >= p->size);
        session->memory -= p->size;
    }
    if (!p->holders) {
        free_pages(p);
        return false;
    }
    if (first)
        pass_on(p);
    return true;
}

void pages_leave(struct pages *p, struct mem *m)
{
    bool left;

    if (let_go(p, m, &left))
        tell_others(p, m->session, left);
}

void pages_unjoin(struct pages *p, struct mem *m)
{
    bool left;

    /* A wait that began meanwhile was not told, because of this one. */
    if (let_go(p, m, &left))
        engine_look_again(p);
}

void pages_end_use(struct pages *p, struct mem *m, bool over)
{
    bool was_over = m->sharer->over;

    /* Others that come later import by a number. Each name of the session has it in its record. */
    if (!p->number || (was_over && !over))
        return;
    if (over) {
        sharer_set_over(m->sharer, true);
        kept_touch(&m->kept);
        if (was_over)
            return;
    } else if (sharers_note_end(&p->sharers, m->session->pid, true)) {
        kept_touch(&p->holders->kept);
    }
    engine_look_again(p);
}

/* It counts as one that has come. */
void pages_begin_use_again(struct mem *m)
{
    sharer_come_again(m->sharer);
    kept_touch(&m->kept);
}

void pages_expect(struct pages *p)
{
    if (sharers_expect(&p->sharers))
        kept_touch(&p->holders->kept);
}

struct session *pages_maker(const struct pages *p)
{
    /* It was the first to hold them; the others have imported them. */
    return p->holders->imported == 0 ? p->holders->session : NULL;
}

/* --- restoring --- */

static bool add_number(struct pages *p, struct memory_exports *all, uint64_t number)
{
    p->number = number;
    p->all = all;
    p->sharers.more = &all->sharers;
    HASH_ADD(hh, all->pages, number, sizeof(p->number), p);
    if (!p->hh.tbl)
        p->number = 0;
    return p->number != 0;
}

bool pages_enlist(struct pages *p, struct memory_exports *all)
{
    struct mem *m;

    if (p->number)
        return true;
    if (!add_number(p, all, ++p->holders->session->server->last->memory))
        return false;
    DL_FOREACH (p->holders, m)
        kept_touch(&m->kept);
    return true;
}

/* The record's memory again. NULL: it cannot be. */
static struct backend_memory *memory_back(const struct pages *p, struct session *session,
                                          const struct memory_record *r)
{
    const struct device *d = p->device;
    const struct backend_note note = {r->executor, r->handle, r->origin_executor, r->origin_handle};

    if (r->key && p->fd < 0)
        return NULL;
    if (d->backend->memory_back)
        return d->backend->memory_back(d->backend_state, session->space, d->index, p->fd, p->size,
                                       r->address, &note);
    return d->backend->memory_attach(d->backend_state, session->space, d->index, p->fd, p->size,
                                     p->kind == MEM_DEVICE);
}

/* The same of a further holder. */
static struct backend_memory *share_back(const struct pages *p, struct session *session,
                                         const struct memory_record *r)
{
    const struct device *d = p->device;
    struct backend_memory *memory;

    if (d->backend->memory_back && p->fd < 0)
        return memory_back(p, session, r);
    return d->backend->memory_share(d->backend_state, session->space, d->index, p->holders->memory,
                                    &memory) == 0
               ? memory
               : NULL;
}

static struct pages *restore_pages(struct session *session, struct device *device,
                                   const struct memory_record *r, struct backend_memory **memory)
{
    struct server *server = session->server;
    struct pages *p = begin_pages(server, device, (enum mem_kind)r->kind, r->size);

    if (!p)
        return NULL;
    p->fd = r->key ? session_own_fd(server, kept_fd_take(r->key)) : -1;
    p->maker = r->pages ? r->maker : session->id;
    p->maker_pid = r->pages ? r->maker_pid : session->pid;
    p->maker_uid = r->pages ? r->maker_uid : session->uid;
    *memory = memory_back(p, session, r);
    if (!*memory || (r->pages && !add_number(p, server->memory_exports, r->pages)))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return NULL;
    charge_again(p, session);
    count_size(p);
    return p;
}

struct pages *pages_restore(struct session *session, struct device *device,
                            const struct memory_record *r, struct backend_memory **memory)
{
    struct pages *p = NULL;

    if (r->pages)
        HASH_FIND(hh, session->server->memory_exports->pages, &r->pages, sizeof(r->pages), p);
    if (!p)
        p = restore_pages(session, device, r, memory);
    else if (!(*memory = share_back(p, session, r)))
        return NULL;
    if (p && r->left)
        atomic_store(&p->sharers.left, r->left);
    if (p && r->deserted)
        restore_desertion(p, r->deserted);
    return p;
}
