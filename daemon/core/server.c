#include "daemon/core/server.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/config.h"
#include "daemon/core/device.h"
#include "daemon/kept/record.h"
#include "proto/shm/mbuf_shm.h"
#include "proto/util/clock.h"

/* --- what is kept --- */

#define SERVER_MEMBERS(DO)                                                                         \
    DO##SAME(instance, instance);                                                                  \
    DO##SAME(since_ns, since_ns);                                                                  \
    DO##SAME(epoch_ns, devices->epoch_ns);

RECORD_LIVE(static, record_of_server, SERVER, struct server, kept, struct server_record,
            SERVER_MEMBERS, last)

int server_keep(struct server *server)
{
    return server->kept.cell || record_of_server_keep(server) ? 0 : -ENOMEM;
}

void server_forget(struct server *server)
{
    kept_drop(&server->kept);
    server->last = NULL;
}

bool server_restore(struct server *server, struct kept_cell *cell)
{
    struct server_record r;

    kept_read(cell, &r, sizeof(r));
    kept_drop(&server->kept);
    if (!record_of_server_back(server, server, cell, &r))
        return false;
    server->restarts = ++((struct server_record *)kept_record(&server->kept))->restarts;
    return true;
}

/* --- what npud may have --- */

/*
 * What npud needs for itself, beside what users are charged for: its threads, its heap, the
 * connections of administrators, reports, replies that wait. One part in so many.
 */
#define OWN_PART 16

/* Of a resource of which npud may have so many. */
static uint64_t for_users(uint64_t all)
{
    return all - all / OWN_PART;
}

static uint64_t mappings_of_process(void)
{
    unsigned long long maps = 65530; /* the kernel's default; a sandbox may hide the setting */
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

    if (f && fscanf(f, "%llu", &maps) != 1)
        maps = 65530;
    if (f)
        fclose(f);
    return maps;
}

void server_count_resources(struct server *server)
{
    struct users *users = &server->users;

    users->total[RESOURCE_MAPPINGS] = for_users(mappings_of_process());
    /* The kernel's bound is RLIMIT_NOFILE, too. */
    users->total[RESOURCE_UNREAD_FDS] = for_users(server->fds);
    /* A single user may have all of the rest: then a request that npud has nothing for is refused,
     * and no other user is there to notice. */
    if (server->config->access_group[0] == '\0')
        return;
    users_divide(users);
    users->total[RESOURCE_FDS] = for_users(server->fds);
    users->total[RESOURCE_SESSIONS] = PEER_MAX;
    users->total[RESOURCE_STREAMS] = DEVICE_STREAMS_MAX;
    users->total[RESOURCE_NOTIFIES] = DEVICE_NOTIFIES_MAX;
}

/* Of the descriptors that there are, events that no session has open get a quarter at most. */
static uint32_t linger_max(const struct server *server)
{
    uint64_t max = server->fds / 4;

    return server->config->linger_max < max ? server->config->linger_max : (uint32_t)max;
}

void server_configure(struct server *server)
{
    const struct config *config = server->config;

    server->users.limit = config->limit;
    server->batch_jobs.memory_max = config->job_memory;
    users_tell_of_memory(&server->users);
    atomic_store(&server->users.filled_max, config->limit[RESOURCE_FILLED_MEMORY]);
    server->linger_max = linger_max(server);
    server->users.device_share = config->device_share;
    server->any_uid = config->ipc_any_uid;
    server->submit_ns = config->submit_ms * NSEC_PER_MSEC;
    log_set_level(config->log_level);
}
