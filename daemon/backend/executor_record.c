/* Executors outlive npud: the next one finds them by what the keeper has. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/backend/executors.h"
#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "daemon/kept/executor_record.h"
#include "daemon/kept/record.h"

#define EXECUTOR_MEMBERS(DO)                                                                       \
    DO##SAME(session, session);                                                                    \
    DO##SAME(uid, uid);                                                                            \
    DO##SAME(pid, pid);                                                                            \
    DO##FD(pidfd, pidfd);                                                                          \
    DO##FD(socket, socket);                                                                        \
    DO##FD(ring, ring_fd);                                                                         \
    DO##FD(page, page_fd);                                                                         \
    DO##FD(log, log.fd);                                                                           \
    DO##SAME(own_uid, own_uid);                                                                    \
    DO##SAME(number, number);                                                                      \
    DO##SAME(begun, begun);                                                                        \
    DO##SAME(usable, usable);                                                                      \
    DO##SAME(since_ns, since_ns);

RECORD_LIVE(static, executor, EXECUTOR, struct executor, kept, struct executor_record,
            EXECUTOR_MEMBERS, live)

bool executor_note(struct executor *x)
{
    kept_fd(x->pidfd);
    kept_fd(x->socket);
    kept_fd(x->ring_fd);
    kept_fd(x->page_fd);
    kept_fd(x->log.fd);
    if (!executor_keep(x))
        return false;
    atomic_store(&x->live->life, x->life);
    return true;
}

void executor_drop_note(struct executor *x)
{
    kept_drop(&x->kept);
}

/* Has it been started by an npud that lays the files out as this one does? */
static bool is_of_this_version(const struct executor *x)
{
    struct executor_head head;

    return pread(x->ring_fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           head.version == EXECUTOR_VERSION;
}

/* In the place of files of another version, which may be shorter: empty ones, that nobody has. */
static bool map_files(struct executor *x, bool known)
{
    const int both = PROT_READ | PROT_WRITE, how = MAP_SHARED | (known ? 0 : MAP_ANONYMOUS);

    x->ring = mmap(NULL, sizeof(*x->ring), both, how, known ? x->ring_fd : -1, 0);
    x->page = mmap(NULL, sizeof(*x->page), both, how, known ? x->page_fd : -1, 0);
    if (x->ring == MAP_FAILED)
        x->ring = NULL;
    if (x->page == MAP_FAILED)
        x->page = NULL;
    return x->ring && x->page;
}

bool executor_restore(struct server *server, struct kept_cell *cell)
{
    struct executors *all = server->devices->backend_state;
    struct executor_record r;
    struct executor *x;
    bool known;

    kept_read(cell, &r, sizeof(r));
    if (!server->devices->backend->attach_back)
        return false; /* the backend is another one now */
    x = executor_make(all, r.uid, r.session);
    if (!x || !executor_back(server, x, cell, &r))
        return false;
    known = is_of_this_version(x);
    if (!map_files(x, known) || executor_charge(x, true) < 0)
        return false;
    if (!known)
        executor_accuse(x, "it is of another version of npud");
    executor_uid_again(all, x->own_uid);
    x->life = (uint32_t)atomic_fetch_add(&x->live->life, 1) + 1;
    if (all->last < x->number)
        all->last = x->number;
    return executor_go_on(x);
}

/* What had its work done has ended, and npud after that: memory of it is there by name. */
static struct executor *make_ended(struct executors *all, uint32_t number)
{
    struct executor *x = executor_make(all, 0, 0);

    if (!x)
        return NULL;
    x->number = number;
    if (all->last < number)
        all->last = number;
    x->state = EXECUTOR_ENDED;
    atomic_store(&x->code, ACL_ERROR_RT_LOST_HEARTBEAT);
    return x;
}

struct executor *executor_find(struct executors *all, uint32_t number)
{
    struct executor *x;

    DL_FOREACH (all->list, x)
        if (x->number == number)
            return x;
    return make_ended(all, number);
}

/* --- what it has --- */

/* It has what no record names, as npud has ended in between; or lacks what one does. */
static void compare_list(struct executor *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t handle = x->heard->handles[i];
        struct executor_request request = {.op = EXECUTOR_MEMORY_FREE, .handle = handle};
        struct name *name = executor_named(x, handle);

        if (name)
            name->listed = true;
        else
            executor_tell(x, &request, -1);
    }
}

static bool has_all(struct executor *x)
{
    struct name *name;

    slots_foreach (&x->handles, i, name)
        if (name->restored && !name->listed)
            return false;
    return true;
}

struct list {
    struct asked asked; /* first */
    uint64_t from;
};

static void list_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct executor *x = asked->executor;
    uint64_t from = ((struct list *)asked)->from;

    free(asked);
    if (fd >= 0)
        close(fd);
    if (!answer)
        return;
    compare_list(x, answer->more);
    if (answer->code == 0 && answer->value > from && answer->value < EXECUTOR_HANDLES &&
        answer->more > 0 && executor_ask_for_list(x, answer->value) == 0)
        return; /* forward only, so that it ends */
    x->resumes = false;
    if (!has_all(x))
        executor_end(x, "it has lost memory");
    else
        x->all->told(x);
}

int executor_ask_for_list(struct executor *x, uint64_t from)
{
    struct executor_request request = {.op = EXECUTOR_LIST, .value = from};
    struct list *list = calloc(1, sizeof(*list));
    int r;

    if (!list)
        return -ENOMEM;
    list->from = from;
    r = executor_ask(x, &list->asked, list_over, &request, NULL, 0);
    if (r < 0)
        free(list);
    return r;
}
