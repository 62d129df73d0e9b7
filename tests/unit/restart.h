/*
 * An npud inside a test program whose tables outlive it: restart_npud() forgets the npud that runs, as
 * a SIGKILL does, and sets another one up from what it has kept. The test is client, keeper and
 * supervisor at once. Instead of npud_start() and npud_stop() of npud.h.
 */
#pragma once

#include <fcntl.h>

#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "daemon/recovery/recovery.h"
#include "tests/unit/npud.h"

/* --- the keeper: a table, and the link that npud is linked with has none --- */

#define RESTART_FDS 4096

static struct {
    uint64_t key;
    int fd;
} restart_kept[RESTART_FDS];

/** Take over what npud has given to the keeper, and give it back to the next one. */
static inline int restart_find(uint64_t key)
{
    for (unsigned i = 0; i < RESTART_FDS; i++)
        if (restart_kept[i].key == key)
            return (int)i;
    return -1;
}

/** How many descriptors the keeper has, beside the tables. */
static inline unsigned restart_fds(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < RESTART_FDS; i++)
        n += restart_kept[i].key >= KEEPER_KEY_FIRST;
    return n;
}

/* In place of the functions of daemon/base/keeper_link.c: mk/test.mk wraps them for test_restart_*. */
void __wrap_keeper_put(uint64_t key, int fd);
void __wrap_keeper_drop(const uint64_t *keys, size_t n);
int __wrap_keeper_fetch(keeper_take *take, void *arg);

void __wrap_keeper_put(uint64_t key, int fd)
{
    int i = restart_find(key);

    if (i < 0)
        i = restart_find(0);
    ck_assert_int_ge(i, 0);
    if (restart_kept[i].key != 0)
        close(restart_kept[i].fd);
    restart_kept[i].key = key;
    restart_kept[i].fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    ck_assert_int_ge(restart_kept[i].fd, 0);
}

void __wrap_keeper_drop(const uint64_t *keys, size_t n)
{
    for (; n > 0; n--, keys++) {
        int i = restart_find(*keys);

        if (i < 0)
            continue;
        close(restart_kept[i].fd);
        restart_kept[i].key = 0;
    }
}

int __wrap_keeper_fetch(keeper_take *take, void *arg)
{
    int n = 0;

    for (unsigned i = 0; i < RESTART_FDS; i++)
        if (restart_kept[i].key != 0) {
            take(arg, restart_kept[i].key, fcntl(restart_kept[i].fd, F_DUPFD_CLOEXEC, 0));
            n++;
        }
    return n;
}

/* --- npud --- */

static inline void restart_configure(const char *const *settings)
{
    log_setup(LOG_CRIT);
    config_init(&config);
    config.log_level = LOG_CRIT;
    for (; settings && *settings; settings++)
        ck_assert_int_eq(config_set(&config, *settings), 0);
}

static inline void restart_assemble(void)
{
    server = (struct server){
        .config = &config, .fds = SERVER_FDS, .admin_gid = (gid_t)-1, .instance = 1};
    npud_assemble(&server);
    server_configure(&server);
    ck_assert_int_eq(npud_begin(&server), 0);
}

/** The first npud. settings: as for --set, ended by NULL. */
static inline void restart_start(const char *const *settings)
{
    restart_configure(settings);
    ck_assert_int_eq(kept_begin(), 0);
    restart_assemble();
    ck_assert_int_eq(npud_start_engines(&server), 0);
}

/**
 * This npud is gone, with whatever it had begun and not committed, and the next one serves. Its
 * memory and its descriptors stay as garbage: a test is a process of its own.
 */
static inline void restart_npud(void)
{
    int tables;

    for (uint32_t i = 0; i < server.devices->n; i++)
        engine_free(server.devices->device[i].engine);
    kept_abandon();
    ck_assert_int_ge(kept_fds_fetch(), 1);
    tables = kept_fd_take(KEEPER_KEY_TABLES);
    ck_assert_int_ge(tables, 0);
    ck_assert_int_eq(kept_begin_from(tables), 0);
    restart_assemble();
    ck_assert_int_eq(recovery_run(&server), 0);
    ck_assert_int_eq(npud_start_engines(&server), 0);
}

/** The last npud ends in order: nothing may be left, in its tables or with the keeper. */
static inline void restart_stop(void)
{
    npud_turn();
    server_end(&server);
    ck_assert_uint_eq(restart_fds(), 0);
    ck_assert_int_eq(kept_scan(), 0);
    ck_assert_uint_eq(kept_scanned(), 0);
    kept_scan_end();
    kept_end();
}
