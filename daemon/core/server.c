#include "daemon/core/server.h"

#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/config.h"

/*
 * Where several users share npud, none may have more than half of the descriptors that there are,
 * whatever the configuration allows, nor of the mappings, of which most of them need one each: the
 * others are to notice nothing.
 */
void server_share_fds(struct server *server, struct config *config)
{
    uint64_t fds = server->fds;
    unsigned long long maps = 65530; /* the kernel's default; a sandbox may hide the setting */
    uint64_t *limit = &config->limit[RESOURCE_FDS];
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

    if (f && fscanf(f, "%llu", &maps) != 1)
        maps = 65530;
    if (f)
        fclose(f);
    if (config->access_group[0] == '\0')
        return;
    if (fds > maps)
        fds = maps;
    if (*limit <= fds / 2)
        return;
    log_info("limits.fds is %llu and not %llu: at most half of the descriptors that npud itself "
             "may have (LimitNOFILE)",
             (unsigned long long)(fds / 2), (unsigned long long)*limit);
    *limit = fds / 2;
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
    server->linger_max = linger_max(server);
    server->any_uid = config->ipc_any_uid;
    log_set_level(config->log_level);
}
