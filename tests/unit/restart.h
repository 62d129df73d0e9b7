/*
 * An npud inside a test program whose tables outlive it: restart_npud() forgets the npud that runs,
 * as a SIGKILL does, and sets another one up from what it has kept. The test is client, keeper and
 * supervisor at once. Instead of npud_start() and npud_stop() of npud.h.
 *
 * These programs are built with kill places (daemon/base/kill_here.h): restart_kill() ends npud at
 * one of them.
 */
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <setjmp.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/waitlist.h"
#include "daemon/kept/cells.h"
#include "daemon/kept/blame.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept.h"
#include "daemon/recovery/recovery.h"
#include "proto/util/kill_point.h"
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

/** Called for each key that the keeper gets, and for each that it lets go of. */
static void (*restart_on_key)(uint64_t key, bool put);

/** How many descriptors the keeper has, beside the tables. */
static inline unsigned restart_fds(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < RESTART_FDS; i++)
        n += restart_kept[i].key >= KEEPER_KEY_FIRST;
    return n;
}

/*
 * In place of the functions of daemon/base/keeper_link.c: mk/test.mk wraps them for test_restart_*.
 */
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
    if (restart_on_key)
        restart_on_key(key, true);
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
        if (restart_on_key)
            restart_on_key(*keys, false);
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

/* --- memory for records --- */

/** There is none for records of this kind. */
static enum kept_kind restart_lacks = KEPT_KIND_MAX;
static unsigned restart_lacks_times = UINT_MAX; /* so often, and later there is some */

/* In place of kept_make(): mk/test.mk. */
bool __real_kept_make(struct kept *kept, enum kept_kind kind, size_t bytes, kept_write_fn *write);
bool __wrap_kept_make(struct kept *kept, enum kept_kind kind, size_t bytes, kept_write_fn *write);

bool __wrap_kept_make(struct kept *kept, enum kept_kind kind, size_t bytes, kept_write_fn *write)
{
    if (kind != restart_lacks || restart_lacks_times == 0)
        return __real_kept_make(kept, kind, bytes, write);
    restart_lacks_times -= restart_lacks_times != UINT_MAX;
    *kept = (struct kept){0};
    return false;
}

/* --- places where npud ends --- */

static jmp_buf restart_out;
static bool restart_armed;
/* Behind the places of npud those of proto/, which npud passes as clients do. */
#define RESTART_PLACES (KILL_PLACE_COUNT + KILL_POINT_COUNT)
/* It does not end by a SIGKILL there, but by a fault of its own. Few programs say so. */
static bool restart_crashes __attribute__((unused));
static unsigned restart_place;
static unsigned restart_pass;                 /* from 1 */
static unsigned restart_hits[RESTART_PLACES]; /* so far */

#ifdef NPUD_KILL_POINTS
static inline void restart_passes(unsigned place)
{
    restart_hits[place]++;
    if (!restart_armed || place != restart_place || restart_hits[place] != restart_pass)
        return;
    if (restart_crashes)
        blame_note_fault(false);
    longjmp(restart_out, 1);
}

void kill_point(enum kill_point point)
{
    restart_passes(KILL_PLACE_COUNT + point);
}

/*
 * Places of the control thread. The engines of these npuds have threads, which none of them stops.
 */
void kill_here(enum kill_place place)
{
    if (gettid() == getpid())
        restart_passes(place);
}
#endif

/* What an npud leaves that is killed is no leak. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
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

/**
 * The first npud. settings: as for --set, ended by NULL.
 *
 * Its large tables are mapped each by itself, however many npuds have left such as garbage: glibc
 * would take them from the heap from the second one on, write to all of them, and each fork of the
 * test would copy the page tables of that, which was most of the time of these tests.
 */
static inline void restart_start(const char *const *settings)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 17);
    restart_configure(settings);
    ck_assert_int_eq(kept_begin(), 0);
    blame_begin(BLAME_KILLED);
    restart_assemble();
    ck_assert_int_eq(npud_start_engines(&server), 0);
    blame_note_serving();
}

static enum blame_end restart_end;     /* how npud seems to have ended */
static void (*restart_last_act)(void); /* when its engines have stopped; NULL: nothing */

/**
 * This npud is gone, with whatever it had begun and not committed, and the next one serves. Its
 * memory and its descriptors stay as garbage: a test is a process of its own.
 */
static inline void restart_npud(void)
{
    int tables;

    for (uint32_t i = 0; i < server.devices->n; i++)
        engine_free(server.devices->device[i].engine);
    if (restart_last_act)
        restart_last_act();
#ifdef NPUD_KILL_POINTS
    waitlist_forget_locks();
    cells_forget_lock();
#endif
    event_base_free(server.base);
    close(server.schedule.fd);
    close(server.schedule.meter.ready_fd);
    spare_fds_deinit(&server.spare);
    kept_end();
    ck_assert_int_ge(kept_fds_fetch(), 1);
    tables = kept_fd_take(KEEPER_KEY_TABLES);
    ck_assert_int_ge(tables, 0);
    ck_assert_int_eq(kept_begin_from(tables), 0);
    blame_begin(restart_end);
    restart_assemble();
    ck_assert_int_eq(recovery_run(&server), 0);
    ck_assert_int_eq(npud_start_engines(&server), 0);
    blame_note_serving();
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

/**
 * Do something, and end npud when it passes the place for the n-th time (from 1); then another npud
 * serves. False: it was not passed so often, and npud lives.
 */
static inline bool restart_kill(unsigned place, unsigned pass, void (*act)(void *arg), void *arg)
{
    memset(restart_hits, 0, sizeof(restart_hits));
    restart_place = place;
    restart_pass = pass;
    if (setjmp(restart_out) == 0) {
        restart_armed = true;
        act(arg);
        restart_armed = false;
        return false;
    }
    restart_armed = false;
    restart_npud();
    return true;
}
