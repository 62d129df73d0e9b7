/*
 * Devices whose work executors do: "acl" and "cuda", which differ in the library that an executor
 * loads. Memory of a device is known by a handle of its executor; nothing here can reach it. Pinned
 * memory of the host is npud's: work within it is done here, and executors have its pages, too.
 */
#include "daemon/backend/away.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/own_program.h"
#include "daemon/backend/making.h"
#include "daemon/core/engine.h"
#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "proto/util/clock.h"

static struct backend_space *spaces; /* all */

static void tell_waiting(struct executor *x);
static void lose(struct executor *x, int32_t code);
static bool run_landed(struct job *job);

/* --- the devices --- */

/* What all have, and what [vendor] environment adds. False: no memory. */
static bool make_environment(struct executors *all, const char *more)
{
    static const char base[] = "PATH=/usr/bin:/bin HOME=/nonexistent LC_ALL=C.UTF-8 ";
    const size_t most = sizeof(all->environment) / sizeof(all->environment[0]) - 1;
    char *text = malloc(sizeof(base) + strlen(more)), *rest = NULL;
    size_t n = 0;

    if (!text)
        return false;
    all->environment_text = text;
    strcpy(text, base);
    strcat(text, more);
    for (char *word = strtok_r(text, " ", &rest); word && n < most;
         word = strtok_r(NULL, " ", &rest))
        all->environment[n++] = word;
    return true;
}

static void away_close(void *state)
{
    struct executors *all = state;

    if (!all)
        return;
    executors_end(all);
    executors_watch_end(all);
    job_cancel(&all->landed);
    assert(!spaces);
    kept_drop(&all->kept);
    free(all->identity);
    free(all->environment_text);
    free(all->library);
    free(all);
}

static int away_open(struct server *server, void **state, const char *kind, const char *library,
                     bool of_user)
{
    const struct config *config = server->config;
    struct executors *all = calloc(1, sizeof(*all));
    int r;

    if (!all)
        return -ENOMEM;
    *state = all;
    all->server = server;
    all->kind = kind;
    all->library = strdup(config->vendor_library[0] ? config->vendor_library : library);
    all->nesting = config->vendor_nesting;
    all->of_user =
        config->vendor_executor[0] ? strcmp(config->vendor_executor, "user") == 0 : of_user;
    all->told = tell_waiting;
    all->lost = lose;
    all->landed = (struct job){run_landed, "work that was dropped", &server->schedule.own};
    all->watch = (struct job){executors_run_watch, "executors that hang", &server->schedule.own};
    r = own_program_find(all->program, sizeof(all->program), "npud-executor", "NPUD_EXECUTOR");
    if (r < 0) {
        log_error("npud-executor is not found beside npud, or in lib/npud: %s", strerror(-r));
        return r;
    }
    r = all->library && make_environment(all, config->vendor_environment) ? executor_uids_begin(all)
                                                                          : -ENOMEM;
    if (r == 0)
        r = executors_know(all);
    return r < 0 ? r : (int)all->devices;
}

static int acl_open(struct server *server, void **state)
{
    return away_open(server, state, "acl", "", false);
}

/* Contexts of several processes take turns on such a device, and each costs its memory. */
static int cuda_open(struct server *server, void **state)
{
    return away_open(server, state, "cuda", "libcuda.so.1", true);
}

static void away_device_info(void *state, uint32_t device, struct backend_device_info *info)
{
    struct executors *all = state;

    *info = (struct backend_device_info){.soc_name = all->info[device].name,
                                         .memory = all->info[device].memory,
                                         .strict = true,
                                         .away = true,
                                         .version = all->info[device].version,
                                         .bus = all->info[device].bus,
                                         .can = all->can[device]};
}

/* --- sessions --- */

static void tell(struct backend_space *space)
{
    space->waits = false;
    backend_told(space->owner);
}

/* It has ended, or is ready: all that wait for it look again. */
static void tell_waiting(struct executor *x)
{
    struct backend_space *space, *next;

    DL_FOREACH_SAFE (spaces, space, next)
        if (space->executor == x && space->waits)
            tell(space);
}

static void tell_landed(struct executor *x)
{
    struct backend_space *space, *next;

    DL_FOREACH_SAFE (spaces, space, next) {
        if (space->executor != x && space->before != x)
            continue;
        backend_landed(space->owner);
        if (space->waits)
            tell(space);
    }
}

/* Work that nobody looks for any more is over: who waits for that looks again. */
static bool run_landed(struct job *job)
{
    struct executors *all = (struct executors *)((char *)job - offsetof(struct executors, landed));
    struct executor *x;

    atomic_store(&all->landed_told, false); /* first: what lands from now on tells anew */
    DL_FOREACH (all->list, x)
        if (atomic_exchange(&x->landed, false))
            tell_landed(x);
    return false;
}

static void lose(struct executor *x, int32_t code)
{
    struct backend_space *space, *next;

    DL_FOREACH_SAFE (spaces, space, next)
        if (space->executor == x)
            backend_lost(space->owner, code);
}

struct begin {
    struct asked asked; /* first */
    uint32_t device;
};

/*
 * A device that is gone from the host, or that another has alone: all that the executor does for
 * other devices, and for other sessions, goes on.
 */
static void refuse_device(struct executor *x, uint32_t device, const char *text)
{
    struct backend_space *space;

    log_error("executor %d of user %u: its library does not open device %u: %s", (int)x->pid,
              (unsigned)x->uid, device, text);
    x->begun &= ~(1u << device);
    kept_touch(&x->kept);
    DL_FOREACH (spaces, space) {
        if (space->executor != x || !(space->asks & 1u << device))
            continue;
        space->refused |= 1u << device;
        snprintf(space->refusal, sizeof(space->refusal), "%s", text);
    }
}

static void begin_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct executor *x = asked->executor;
    uint32_t device = ((struct begin *)asked)->device;

    free(asked);
    if (fd >= 0)
        close(fd);
    if (answer && answer->code == 0) {
        x->usable |= 1u << device;
        kept_touch(&x->kept);
    } else if (answer) {
        refuse_device(x, device, answer->text);
    }
    tell_waiting(x);
}

static int begin_device(struct executor *x, uint32_t device)
{
    struct executor_request request = {.op = EXECUTOR_DEVICE_BEGIN, .device = device};
    struct begin *begin = calloc(1, sizeof(*begin));
    int r;

    if (!begin)
        return -ENOMEM;
    begin->device = device;
    if (x->wake[device] < 0)
        x->wake[device] = engine_lend_wake(x->all->server->devices->device[device].engine);
    r = x->wake[device] < 0
            ? -ENOMEM
            : executor_ask(x, &begin->asked, begin_over, &request, &x->wake[device], 1);
    if (r < 0)
        free(begin);
    else
        x->begun |= 1u << device;
    kept_touch(&x->kept);
    return r;
}

static struct executor *find_executor(struct executors *all, const struct backend_client *client)
{
    struct executor *x;

    if (!all->of_user)
        return NULL;
    DL_FOREACH (all->list, x)
        if (x->uid == client->uid && x->state != EXECUTOR_ENDED)
            return executor_use(x);
    return NULL;
}

/* The executor gets pages of the host that the session has. */
static bool attach_pages(struct backend_memory *m, struct executor *x)
{
    struct executor_request request = {
        .op = EXECUTOR_HOST_ATTACH, .device = m->device, .size = m->size};

    m->handle = executor_name(x);
    if (m->handle == 0)
        return false;
    m->executor = executor_use(x);
    request.handle = m->handle;
    executor_tell(x, &request, m->pages->fd);
    m->after = request.number;
    return true;
}

/* Of what its executor had, nothing is left but a name. */
static void detach_pages(struct backend_memory *m)
{
    if (!m->executor)
        return;
    executor_free_named(m->executor, m->handle);
    executor_leave(m->executor);
    m->executor = NULL;
    m->handle = 0;
}

/* Engines may use its pages: they are kept out. */
static bool exchange_executor(struct executors *all, struct backend_space *space,
                              struct executor *x)
{
    struct executor *old = space->executor;
    struct backend_memory *m;
    bool all_well = true;

    engines_lock(all->server);
    space->executor = x;
    DL_FOREACH (space->host, m) {
        detach_pages(m);
        all_well &= attach_pages(m, x);
    }
    engines_unlock(all->server);
    executor_leave(space->before); /* not before: its lanes are taken from the engines */
    space->before = old;
    return all_well;
}

/* Also anew, when the one that it had has ended: what was there is lost. */
static int give_executor(struct executors *all, struct backend_space *space)
{
    struct executor *x = find_executor(all, &space->client);
    int r = 0;

    if (!x)
        r = executor_new(all, space->client.uid, all->of_user ? 0 : space->client.session,
                         space->executor, &x);
    if (r < 0)
        return r;
    return exchange_executor(all, space, x) ? 0 : -ENOMEM;
}

static struct backend_space *make_space(struct backend_space **owner,
                                        const struct backend_client *client)
{
    struct backend_space *space = calloc(1, sizeof(*space));

    if (!space)
        return NULL;
    space->owner = owner;
    space->client = *client;
    DL_APPEND(spaces, space);
    return *owner = space;
}

/* 0: its executor uses the device. */
static int use_device(struct backend_space *space, uint32_t device)
{
    struct executor *x = space->executor;
    bool refused = space->refused & 1u << device;
    int r;

    space->refused &= ~(1u << device);
    space->asks &= ~(1u << device);
    if (refused)
        return -ENXIO;
    r = x->begun & 1u << device ? 0 : begin_device(x, device);
    if (r < 0 || (x->usable & 1u << device))
        return r;
    space->asks |= 1u << device;
    space->waits = true;
    return -EINPROGRESS;
}

static int away_attach(void *state, struct backend_space **owner, uint32_t device,
                       const struct backend_client *client)
{
    struct executors *all = state;
    struct backend_space *space = *owner ? *owner : make_space(owner, client);
    bool began = space && space->begins;
    int r = 0;

    if (!space)
        return -ENOMEM;
    space->waits = space->begins = false;
    if (!away_has_executor(space))
        r = began ? -ENOEXEC : give_executor(all, space);
    if (r == 0)
        r = use_device(space, device);
    space->begins = r == -EINPROGRESS;
    return r;
}

static void away_space_free(struct backend_space *space)
{
    if (!space)
        return;
    assert(!space->host);
    making_forget(space);
    executor_leave(space->before);
    executor_leave(space->executor);
    DL_DELETE(spaces, space);
    free(space);
}

/* --- memory --- */

struct backend_memory *away_memory_make(uint32_t device, uint64_t size)
{
    struct backend_memory *m = calloc(1, sizeof(*m));

    if (m)
        *m = (struct backend_memory){.holders = 1, .device = device, .size = size};
    return m;
}

/* Its handle is free when the executor has been told. */
static void free_on_device(struct backend_memory *m)
{
    if (m->address != 0)
        executor_forget_range(m->executor, m->address, m->size);
    if (m->address != 0 || m->binary) {
        executor_free_named(m->executor, m->handle);
    } else {
        executor_unname(m->executor, m->handle);
    }
    executor_leave(m->executor);
}

void away_memory_free(void *state, struct backend_memory *m, const struct user *user)
{
    if (--m->holders > 0)
        return;
    if (m->pages) {
        detach_pages(m);
        if (m->space)
            DL_DELETE(m->space->host, m);
        mapped_leave(m->pages, user);
    } else {
        free_on_device(m);
    }
    if (m->origin)
        away_memory_free(state, m->origin, user);
    free(m);
}

/* What the library says of memory that it has not. */
static int errno_of(const struct executor *x, const struct executor_answer *answer)
{
    log_info("executor %d: the library refuses: %s (%d)", (int)x->pid, answer->text, answer->code);
    return answer->code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? -EOPNOTSUPP : -ENODATA;
}

/* The answer has a place for the memory that no other has. */
static bool is_place(struct executor *x, const struct backend_memory *m,
                     const struct executor_answer *answer)
{
    return answer->handle == m->handle && answer->address != 0 && answer->size >= m->size &&
           answer->address <= UINT64_MAX - m->size &&
           executor_note_range(x, answer->address, m->size);
}

static int judge_memory(struct making *making, const struct executor_answer *answer)
{
    struct executor *x = making->asked.executor;

    if (!answer)
        return -EOWNERDEAD;
    if (!making->memory)
        return -ECANCELED;
    if (answer->code != 0)
        return errno_of(x, answer);
    if (!is_place(x, making->memory, answer)) {
        executor_end(x, "memory that it has made is where other memory is, or too small");
        return -EOWNERDEAD;
    }
    making->memory->address = answer->address;
    return 0;
}

static void making_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct making *making = (struct making *)asked;

    if (fd >= 0)
        close(fd);
    making_end(making, judge_memory(making, answer));
}

static int away_memory_new(void *state, struct backend_space *space, uint32_t device, uint64_t size,
                           struct backend_memory **memory, int *fd)
{
    struct executor_request request = {.op = EXECUTOR_MEMORY_NEW, .device = device, .size = size};

    (void)state;
    *fd = -1;
    making_forget_other(space, EXECUTOR_MEMORY_NEW);
    if (space->making)
        return making_take(space, memory);
    return making_ask(space, &request, making_over, NULL, 0);
}

static struct backend_memory *make_pages(struct backend_space *space, struct mapped *pages,
                                         uint32_t device)
{
    struct backend_memory *m = away_memory_make(device, pages->size);

    if (!m)
        return NULL;
    m->pages = pages;
    m->space = space;
    if (space)
        DL_APPEND(space->host, m);
    if (!space || !away_has_executor(space) || attach_pages(m, space->executor))
        return m;
    DL_DELETE(space->host, m);
    free(m);
    return NULL;
}

static struct backend_memory *away_memory_attach(void *state, struct backend_space *space,
                                                 uint32_t device, int fd, uint64_t size,
                                                 bool device_memory)
{
    struct mapped *pages = device_memory ? NULL : mapped_new(fd, size, true);
    struct backend_memory *m = pages ? make_pages(space, pages, device) : NULL;

    (void)state;
    if (!m)
        free(pages);
    return m;
}

/* --- sharing: the library of one executor exports, that of the other one imports --- */

/* 0: what is asked for is under way; else the making ends with that. */
static void go_on_sharing(struct making *making, struct executor *x, asked_fn *over,
                          struct executor_request request)
{
    int r = executor_ask(x, &making->asked, over, &request, &making->fd,
                         request.op == EXECUTOR_MEMORY_IMPORT && making->fd >= 0);

    if (r < 0)
        making_end(making, r);
}

/* False: the making has ended. */
static bool judge_share(struct making *making, const struct executor_answer *answer)
{
    if (answer && answer->code == 0 && making->space)
        return true;
    making_end(making,
               answer && making->space ? errno_of(making->asked.executor, answer) : -EOWNERDEAD);
    return false;
}

static void allowed(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct making *making = (struct making *)asked;
    struct executor_request request = {.op = EXECUTOR_MEMORY_IMPORT};

    if (fd >= 0)
        close(fd);
    if (!judge_share(making, answer))
        return;
    request.device = making->memory->device;
    request.handle = making->memory->handle;
    request.size = making->memory->size;
    memcpy(request.token, making->token, sizeof(request.token));
    go_on_sharing(making, making->memory->executor, making_over, request);
}

static void exported(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct making *making = (struct making *)asked;
    struct executor_request request = {.op = EXECUTOR_MEMORY_ALLOW};

    making->fd = fd;
    if (!judge_share(making, answer))
        return;
    request.device = making->memory->device;
    request.handle = making->origin->handle;
    request.value = (uint64_t)making->memory->executor->pid;
    memcpy(making->token, answer->token, sizeof(making->token));
    go_on_sharing(making, making->origin->executor, allowed, request);
}

static int begin_sharing(struct backend_space *space, struct backend_memory *m)
{
    struct executor_request request = {
        .op = EXECUTOR_MEMORY_EXPORT, .device = m->device, .handle = m->handle};
    struct making *making;
    int r;

    if (!away_has_executor(space))
        return -EOWNERDEAD;
    r = use_device(space, m->device);
    if (r < 0)
        return r;
    if (making_wait_for_list(space))
        return -EINPROGRESS;
    making = making_begin(space, m->device, m->size);
    if (!making)
        return -ENOMEM;
    m->holders++;
    making->origin = m;
    r = executor_ask(m->executor, &making->asked, exported, &request, NULL, 0);
    if (r < 0) {
        making_free(making);
        return r;
    }
    space->making = making;
    return -EINPROGRESS;
}

static int away_memory_share(void *state, struct backend_space *space, uint32_t device,
                             struct backend_memory *m, struct backend_memory **shared)
{
    (void)state;
    if (m->pages) {
        *shared = make_pages(space, m->pages, device);
        m->pages->holders += *shared != NULL;
        return *shared ? 0 : -ENOMEM;
    }
    if (space->making)
        return making_take(space, shared);
    if (m->executor != space->executor && m->origin)
        m = m->origin;
    if (m->executor != space->executor) /* one that has the bytes imports nothing of its own */
        return begin_sharing(space, m);
    m->holders++;
    *shared = m;
    return 0;
}

/* --- restoring --- */

static struct backend_note away_memory_note(const struct backend_memory *m)
{
    struct backend_note note = {.executor = m->executor ? m->executor->number : 0,
                                .handle = m->handle};

    if (m->origin) {
        note.origin_executor = m->origin->executor->number;
        note.origin_handle = m->origin->handle;
    }
    return note;
}

/* Of the device: each name of it brings it back, or finds it. */
static struct backend_memory *device_memory_back(struct executors *all, uint32_t device,
                                                 uint64_t executor, uint64_t handle, uint64_t size)
{
    struct executor *x = executor_find(all, (uint32_t)executor);
    struct name *name = x ? executor_name_again(x, handle) : NULL;

    if (!name)
        return NULL;
    if (name->memory) {
        name->memory->holders++;
        return name->memory;
    }
    name->memory = away_memory_make(device, size);
    if (!name->memory)
        return NULL;
    name->memory->executor = executor_use(x);
    name->memory->handle = handle;
    return name->memory;
}

/* An executor that has ended meanwhile has no pages. */
static struct backend_memory *pages_back(struct executors *all, struct backend_space *space,
                                         uint32_t device, int fd, uint64_t size,
                                         const struct backend_note *note)
{
    struct mapped *pages = mapped_new(fd, size, true);
    struct backend_memory *m = pages ? away_memory_make(device, size) : NULL;
    struct executor *x = note->executor ? executor_find(all, (uint32_t)note->executor) : NULL;

    if (!m) {
        free(pages);
        return NULL;
    }
    m->pages = pages;
    m->space = space;
    if (space)
        DL_APPEND(space->host, m);
    if (!x || x->state == EXECUTOR_ENDED || !executor_name_again(x, note->handle))
        return m;
    executor_named(x, note->handle)->restored = false; /* it lists memory of the device alone */
    m->executor = executor_use(x);
    m->handle = note->handle;
    m->after = 0;
    return m;
}

static struct backend_memory *away_memory_back(void *state, struct backend_space *space,
                                               uint32_t device, int fd, uint64_t size,
                                               uint64_t address, const struct backend_note *note)
{
    struct backend_memory *m;

    if (fd >= 0)
        return pages_back(state, space, device, fd, size, note);
    m = device_memory_back(state, device, note->executor, note->handle, size);
    if (!m || m->address != 0)
        return m;
    m->address = address;
    m->binary = address == 0;
    if (m->binary)
        return m;
    if (!executor_note_range(m->executor, address, size))
        return NULL;
    if (note->origin_handle != 0)
        m->origin =
            device_memory_back(state, device, note->origin_executor, note->origin_handle, size);
    return note->origin_handle == 0 || m->origin ? m : NULL;
}

static uint32_t away_attach_note(const struct backend_space *space)
{
    return space && space->executor ? space->executor->number : 0;
}

static bool away_attach_back(void *state, struct backend_space **owner, uint32_t note,
                             const struct backend_client *client)
{
    struct backend_space *space = *owner ? *owner : make_space(owner, client);

    if (!space)
        return false;
    if (note == 0 || space->executor)
        return true;
    space->executor = executor_find(state, note);
    return space->executor && executor_use(space->executor);
}

/* npud may have ended between giving the session another executor and recording that. */
static void attach_again(struct backend_space *space)
{
    struct backend_memory *m;

    if (!away_has_executor(space))
        return;
    DL_FOREACH (space->host, m) {
        if (m->executor == space->executor)
            continue;
        detach_pages(m);
        if (!attach_pages(m, space->executor))
            log_error("session %" PRIu64 ": its executor cannot have all of its pages",
                      space->client.session);
    }
}

/* The engines of this npud have other eventfds. */
static void away_restored(void *state)
{
    struct executors *all = state;
    struct backend_space *space;
    struct executor *x;

    DL_FOREACH (spaces, space)
        if (space->executor && space->executor->state == EXECUTOR_ENDED)
            backend_lost(space->owner, atomic_load(&space->executor->code));
    DL_FOREACH (all->list, x)
        for (uint32_t d = 0; x->state == EXECUTOR_READY && d < all->devices; d++)
            if (x->begun & 1u << d && begin_device(x, d) < 0)
                executor_end(x, "npud has not the means to be woken by it");
    executors_finish_restoring(all);
    DL_FOREACH (spaces, space)
        attach_again(space);
}

static bool away_memory_usable(struct backend_memory *m)
{
    return !m->pages || mapped_usable(m->pages);
}

static uint64_t away_address_bytes(void *state)
{
    (void)state;
    return sizeof(struct backend_memory);
}

static uint64_t away_space_bytes(void *state)
{
    (void)state;
    return 0; /* it is there before the first address */
}

static int away_address_new(void *state, struct backend_space **space, uint32_t device,
                            const struct backend_memory *memory, uint64_t size, uint64_t *address)
{
    (void)state;
    (void)space;
    (void)device;
    (void)size;
    *address = memory->address;
    return 0;
}

static void away_address_free(struct backend_space *space, uint32_t device, uint64_t address)
{
    (void)space;
    (void)device;
    (void)address;
}

static bool away_address_note(void *state, struct backend_space **space, uint32_t device,
                              uint64_t address, uint64_t size)
{
    (void)state;
    (void)space;
    (void)device;
    (void)address;
    (void)size;
    return true;
}

#define AWAY_FUNCTIONS                                                                             \
    .close = away_close, .device_info = away_device_info, .executor_next = executors_next,         \
    .executors = executors_count, .device_health = executors_health, .attach = away_attach,        \
    .memory_new = away_memory_new, .memory_attach = away_memory_attach,                            \
    .memory_share = away_memory_share, .memory_free = away_memory_free,                            \
    .memory_note = away_memory_note, .memory_back = away_memory_back,                              \
    .attach_note = away_attach_note, .attach_back = away_attach_back, .restored = away_restored,   \
    .resume = away_resume, .gave = away_gave, .ahead = away_ahead, .give = away_give,              \
    .is_over = away_is_over, .await_over = away_await_over, .address_bytes = away_address_bytes,   \
    .space_bytes = away_space_bytes, .address_new = away_address_new,                              \
    .address_free = away_address_free, .address_note = away_address_note,                          \
    .space_free = away_space_free, .binary_new = away_binary_new,                                  \
    .function_new = away_function_new, .refusal = away_refusal,                                    \
    .memory_usable = away_memory_usable, .step = away_step, .poll = away_poll,                     \
    .sleep = away_sleep, .forget = away_forget, .word_read = away_word_read,                       \
    .word_write = away_word_write, .words_read = away_words_read, .slice_put = away_slice_put

const struct backend backend_acl = {.name = "acl", .open = acl_open, AWAY_FUNCTIONS};
const struct backend backend_cuda = {.name = "cuda", .open = cuda_open, AWAY_FUNCTIONS};
