/*
 * Memory that several sessions have: its names, which processes may import it, who holds and pays
 * for it, and streams of one session that wait for what another one writes.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/backend/window.h"
#include "daemon/base/pidfd.h"
#include "daemon/control/session_life.h"
#include "daemon/core/engine.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/value.h"
#include "daemon/memory/export.h"
#include "memory_at.h"
#include "npud.h"

static const char *const settings[] = {"engine.spin_us=0", "stream.depth=64", "sim.devices=2",
                                       NULL};

#define BYTES   8192
#define WAITERS 300 /* more than are looked at in one step */
#define PID_A   101
#define PID_B   102
#define PID_C   103

static struct session *a, *b, *c; /* c is of another user */
static struct mem *ours;          /* a's */
static uint64_t used_before;

static struct device *device_of(uint32_t index)
{
    return devices_get(server.devices, index);
}

static struct mem *allocate(struct session *s, enum mem_kind kind, uint64_t size)
{
    struct mem *m;

    ck_assert_int_eq(allocation_new(s, device_of(0), kind, size, &m), 0);
    return m;
}

static void start_with(const char *const *with)
{
    npud_start(with);
    a = npud_session(PID_A);
    b = npud_session(PID_B);
    c = npud_session_of(2000, PID_C);
    used_before = device_of(0)->memory_used;
    ours = allocate(a, MEM_DEVICE, BYTES);
}

static void start_sessions(void)
{
    start_with(settings);
}

static void start_strict_sessions(void)
{
    start_with((const char *const[]){"engine.spin_us=0", "sim.devices=2", "sim.strict=yes", NULL});
}

/* It asserts that its tables and what it holds are empty. */
static void end_session(struct session **s)
{
    if (*s)
        session_free(*s);
    *s = NULL;
}

static void end_sessions(void)
{
    end_session(&a);
    end_session(&b);
    end_session(&c);
    ck_assert_uint_eq(device_of(0)->memory_used, used_before);
    ck_assert_ptr_null(server.memory_exports->by_number);
    ck_assert_ptr_null(server.memory_exports->pages);
    npud_stop();
}

/* --- exports and their names --- */

struct name {
    char text[EXPORT_KEY_TEXT + 1];
    struct export_name name;
};

static struct memory_export *export_of(struct mem *m, uint64_t size, bool any_pid, bool by_number)
{
    struct memory_export *export = NULL;

    ck_assert_int_eq(memory_export_new(m, size, any_pid, by_number, &export), 0);
    ck_assert_ptr_nonnull(export);
    return export;
}

static void name_key(struct name *name, const struct export_key *key)
{
    export_key_encode(key, name->text);
    name->text[EXPORT_KEY_TEXT] = '\0';
    name->name = (struct export_name){.key = name->text};
}

static void name_of(struct name *name, const struct memory_export *export)
{
    if (export->by_number)
        name->name = (struct export_name){.number = export->number};
    else
        name_key(name, &export->key);
}

static enum cause try_import(struct session *s, const struct name *name)
{
    struct mem *m;

    return memory_export_import(s, name->name, &m);
}

static struct mem *import_in(struct session *s, const struct memory_export *export)
{
    struct name name;
    struct mem *m;

    name_of(&name, export);
    ck_assert_int_eq(memory_export_import(s, name.name, &m), 0);
    return m;
}

/* What a process would be told that finds, allows or ends this export. */
static void expect_no_name(const struct name *name, enum cause cause)
{
    uint32_t mems = b->mems.live;
    struct memory_export *export;

    ck_assert_int_eq(try_import(b, name), cause);
    ck_assert_int_eq(try_import(a, name), cause);
    ck_assert_int_eq(memory_export_find_own(a, name->name, &export), cause);
    ck_assert_uint_eq(b->mems.live, mems);
}

START_TEST(exported_by_key_and_by_number)
{
    struct memory_export *export = export_of(ours, 100, true, _i);
    struct memory_export *found;
    struct name name;
    struct mem *m;

    name_of(&name, export);
    ck_assert_int_eq(memory_export_find_own(a, name.name, &found), 0);
    ck_assert_ptr_eq(found, export);
    ck_assert_int_eq(memory_export_find_own(b, name.name, &found), CAUSE_MEMORY_NOT_EXPORTED);
    m = import_in(b, export);
    ck_assert_ptr_eq(m->pages, ours->pages);
    ck_assert_uint_eq(m->imported, 100);
    ck_assert_uint_eq(m->pages->size, BYTES);
    ck_assert_int_eq(m->pages->maker_pid, PID_A);
    ck_assert_uint_eq(m->pages->n_holders, 2);
    ck_assert_ptr_eq(pages_maker(m->pages), a);
    ck_assert_ptr_eq(allocation_get(b, m->slot.number, slot_generation(m)), m);
    memory_export_free(export);
    expect_no_name(&name, CAUSE_MEMORY_GONE);
    ck_assert_uint_eq(m->pages->n_holders, 2);
}
END_TEST

START_TEST(sizes_have_limits)
{
    static const uint64_t wrong[] = {0, BYTES + 1, BYTES + 4096, UINT64_MAX};
    static const uint64_t right[] = {1, 4095, 4096, BYTES};
    struct memory_export *export;

    for (unsigned i = 0; i < 4; i++)
        for (unsigned by_number = 0; by_number < 2; by_number++)
            ck_assert_int_eq(memory_export_new(ours, wrong[i], true, by_number, &export),
                             CAUSE_ALLOCATION_RANGE);
    ck_assert_ptr_null(ours->exports);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(import_in(b, export_of(ours, right[i], true, false))->imported, right[i]);
}
END_TEST

START_TEST(a_number_is_given_once)
{
    struct memory_export *export = export_of(ours, BYTES, true, true), *second;

    ck_assert_int_eq(memory_export_new(ours, BYTES, true, true, &second),
                     CAUSE_MEMORY_EXPORTED_BEFORE);
    export_of(ours, BYTES, true, false);
    memory_export_free(export);
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, true, &second),
                     CAUSE_MEMORY_EXPORTED_BEFORE);
    memory_export_free(ours->exports);
    export_of(ours, BYTES, true, true);
}
END_TEST

START_TEST(only_the_maker_exports)
{
    struct mem *m = import_in(b, export_of(ours, BYTES, true, false)), *own;
    struct memory_export *export;

    ck_assert_int_eq(memory_export_new(m, BYTES, true, false, &export), CAUSE_MEMORY_IMPORTED);
    ck_assert_int_eq(memory_export_new(m, BYTES, true, true, &export), CAUSE_MEMORY_IMPORTED);
    own = import_in(a, ours->exports);
    ck_assert_int_eq(memory_export_new(own, BYTES, true, false, &export), CAUSE_MEMORY_IMPORTED);
    allocation_free(ours);
    ck_assert_int_eq(memory_export_new(m, BYTES, true, false, &export), CAUSE_MEMORY_IMPORTED);
    ck_assert_ptr_null(pages_maker(m->pages));
}
END_TEST

START_TEST(damaged_keys)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    struct name name;

    for (size_t i = 0; i < EXPORT_KEY_TEXT; i++) {
        name_of(&name, export);
        name.text[i] = name.text[i] == 'A' ? 'B' : 'A';
        expect_no_name(&name, CAUSE_MEMORY_KEY);
        name.text[i] = '!';
        expect_no_name(&name, CAUSE_MEMORY_KEY);
        name.text[i] = '\0'; /* shorter */
        expect_no_name(&name, CAUSE_MEMORY_KEY);
    }
    name_of(&name, export);
    ck_assert_int_eq(try_import(b, &name), 0);
}
END_TEST

/* As a process seals them that knows how keys are made. */
START_TEST(forged_keys)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    struct memory_export *numbered = export_of(allocate(a, MEM_DEVICE, BYTES), BYTES, true, true);
    struct export_key key;
    struct name name;

    for (unsigned i = 0; i < sizeof(key.secret) * 8; i++) {
        key = export->key;
        key.secret[i / 8] ^= (uint8_t)(1u << i % 8);
        export_key_seal(&key);
        name_key(&name, &key);
        expect_no_name(&name, CAUSE_MEMORY_KEY);
    }
    key = export->key;
    key.device ^= 1;
    export_key_seal(&key);
    name_key(&name, &key);
    expect_no_name(&name, CAUSE_MEMORY_KEY);
    key = export->key;
    key.version++;
    export_key_seal(&key);
    name_key(&name, &key);
    expect_no_name(&name, CAUSE_MEMORY_KEY);
    key = export->key;
    key.instance ^= 1;
    export_key_seal(&key);
    name_key(&name, &key);
    expect_no_name(&name, CAUSE_MEMORY_OF_OTHER_NPUD);
    key = export->key;
    key.number ^= 1;
    export_key_seal(&key);
    name_key(&name, &key);
    expect_no_name(&name, CAUSE_MEMORY_GONE);
    /* What has a number has no key, not even one of zeros. */
    key = (struct export_key){.magic = EXPORT_KEY_MEMORY,
                              .version = EXPORT_KEY_VERSION,
                              .number = numbered->number,
                              .instance = server.instance};
    export_key_seal(&key);
    name_key(&name, &key);
    expect_no_name(&name, CAUSE_MEMORY_KEY);
}
END_TEST

START_TEST(keys_of_other_kinds)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    struct notify_open *notify, *imported;
    struct name name;

    ck_assert_int_eq(notify_new(a, device_of(0), false, &notify), 0);
    ck_assert_int_eq(notify_export(notify, true), 0);
    name_key(&name, &notify->notify->key);
    expect_no_name(&name, CAUSE_MEMORY_KEY);
    name_key(&name, &export->key);
    ck_assert_int_eq(notify_import(b, name.text, EXPORT_KEY_TEXT, &imported), CAUSE_NOTIFY_KEY);
}
END_TEST

START_TEST(guessed_numbers)
{
    struct memory_export *keyed = export_of(ours, BYTES, true, false);
    struct memory_export *numbered = export_of(allocate(a, MEM_DEVICE, BYTES), BYTES, true, true);
    struct name name = {.name = {0}};
    const uint64_t numbers[] = {0,
                                1,
                                UINT64_MAX,
                                numbered->number - 1,
                                numbered->number + 1,
                                keyed->number, /* in its key, for all that have that */
                                ours->pages->number};

    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        name.name.number = numbers[i];
        expect_no_name(&name, CAUSE_MEMORY_GONE);
    }
    ck_assert_uint_ne(numbered->number, keyed->number);
}
END_TEST

/* --- which processes may import --- */

START_TEST(listed_processes_import)
{
    struct memory_export *export = export_of(ours, BYTES, false, _i);
    const int32_t pids[] = {PID_B, 4000000, PID_B};
    struct name name;

    name_of(&name, export);
    ck_assert_int_eq(try_import(b, &name), CAUSE_MEMORY_NOT_LISTED);
    ck_assert_int_eq(try_import(c, &name), CAUSE_MEMORY_NOT_LISTED);
    ck_assert_int_eq(memory_export_allow(export, pids, 3), 0);
    ck_assert_uint_eq(export->importers.n, 2);
    import_in(b, export);
    ck_assert_int_eq(try_import(c, &name), CAUSE_MEMORY_NOT_LISTED);
    /* Of any user. */
    ck_assert_int_eq(memory_export_allow(export, &(int32_t){PID_C}, 1), 0);
    import_in(c, export);
}
END_TEST

START_TEST(lists_have_limits)
{
    struct memory_export *export = export_of(ours, BYTES, false, false);
    struct memory_export *free_for_all = export_of(ours, BYTES, true, false);
    int32_t pids[NOTIFY_PIDS_REQUEST + 1] = {PID_B, 0};

    ck_assert_int_eq(memory_export_allow(export, pids, 2), CAUSE_IMPORTER_PID);
    pids[1] = -1;
    ck_assert_int_eq(memory_export_allow(export, pids, 2), CAUSE_IMPORTER_PID);
    ck_assert_uint_eq(export->importers.n, 0);
    for (unsigned i = 0; i <= NOTIFY_PIDS_REQUEST; i++)
        pids[i] = PID_B;
    ck_assert_int_eq(memory_export_allow(export, pids, NOTIFY_PIDS_REQUEST + 1),
                     CAUSE_IMPORTERS_REQUEST);
    for (int32_t i = 0; i < (int32_t)IMPORTERS_MAX; i++)
        ck_assert_int_eq(memory_export_allow(export, &(int32_t){4000000 + i}, 1), 0);
    ck_assert_int_eq(memory_export_allow(export, &(int32_t){PID_B}, 1), CAUSE_IMPORTERS);
    ck_assert_int_eq(memory_export_allow(export, &(int32_t){4000000}, 1), 0);
    ck_assert_uint_eq(export->importers.n, IMPORTERS_MAX);
    ck_assert_int_eq(memory_export_allow(free_for_all, &(int32_t){PID_B}, 1), CAUSE_MEMORY_ANY_PID);
}
END_TEST

/* A later process that has got the pid of the one that was listed. */
START_TEST(a_pid_is_not_a_process)
{
    struct memory_export *export = export_of(ours, BYTES, false, false);
    struct session *theirs;
    struct name name;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pause();
        _exit(0);
    }
    ck_assert_int_eq(memory_export_allow(export, &pid, 1), 0);
    ck_assert_uint_eq(export->importers.list[0].process, pidfd_now(pid));
    ck_assert_uint_ne(export->importers.list[0].process, 0);
    theirs = npud_session(pid);
    theirs->pidfd = pidfd_open_process(pid);
    ck_assert_int_ge(theirs->pidfd, 0);
    name_of(&name, export);
    import_in(theirs, export);
    export->importers.list[0].process ^= 1;
    ck_assert_int_eq(try_import(theirs, &name), CAUSE_MEMORY_NOT_LISTED);
    session_free(theirs);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(any_process_is_of_the_user)
{
    struct memory_export *export = export_of(ours, BYTES, true, _i);
    struct name name;

    name_of(&name, export);
    import_in(b, export);
    ck_assert_int_eq(try_import(c, &name), CAUSE_MEMORY_OF_OTHER_USER);
    server.any_uid = true;
    import_in(c, export);
}
END_TEST

/* It needs no place on its list. */
START_TEST(the_exporter_imports_too)
{
    struct memory_export *export = export_of(ours, BYTES, false, _i);
    struct mem *first = import_in(a, export), *second = import_in(a, export);

    ck_assert_uint_ne(first->slot.number, second->slot.number);
    ck_assert_uint_eq(ours->pages->n_holders, 3);
    ck_assert_uint_eq(a->memory, BYTES);
    if (_i)
        allocation_free(ours);
    allocation_free(first);
    ck_assert_uint_eq(a->memory, BYTES);
    ck_assert_uint_eq(device_of(0)->memory_used, used_before + BYTES);
    ck_assert_ptr_nonnull(allocation_place(second, 0, BYTES).memory);
}
END_TEST

START_TEST(imported_twice)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    struct mem *first = import_in(b, export), *second = import_in(b, export);

    ck_assert_ptr_eq(first->pages, second->pages);
    allocation_free(first);
    ck_assert_uint_eq(ours->pages->n_holders, 2);
    ck_assert_ptr_eq(allocation_place(second, 0, 8).memory, allocation_place(ours, 0, 8).memory);
}
END_TEST

/* --- who holds and pays --- */

static uint64_t memory_of(uid_t uid, enum mem_kind kind)
{
    struct user *user = user_find(&server.users, uid);

    return user_used(user, kind == MEM_HOST ? RESOURCE_HOST_MEMORY : RESOURCE_DEVICE_MEMORY);
}

/* The exporter frees it: bytes and charge go to the next holder. */
START_TEST(the_next_holder_keeps_and_pays)
{
    enum mem_kind kind = _i ? MEM_HOST : MEM_DEVICE;
    struct mem *m = allocate(a, kind, BYTES), *theirs, *last;
    uint64_t used = device_of(0)->memory_used, ours_before = memory_of(1000, kind);
    struct memory_export *export;
    unsigned char *bytes;

    server.any_uid = true;
    export = export_of(m, BYTES, true, false);
    bytes = memory_at(m, 0);
    memset(bytes, 0x5a, BYTES);
    theirs = import_in(c, export);
    last = import_in(b, export);
    ck_assert_uint_eq(memory_of(2000, kind), 0);
    ck_assert_uint_eq(memory_of(1000, kind), ours_before);
    ck_assert_uint_eq(c->memory, 0);
    allocation_free(m);
    ck_assert_uint_eq(memory_of(2000, kind), BYTES);
    ck_assert_uint_eq(memory_of(1000, kind), ours_before - BYTES);
    ck_assert_uint_eq(c->memory, BYTES);
    ck_assert_uint_eq(b->memory, 0);
    ck_assert_uint_eq(device_of(0)->memory_used, used);
    bytes = memory_at(theirs, 0);
    for (unsigned i = 0; i < BYTES; i++)
        ck_assert_uint_eq(bytes[i], 0x5a);
    allocation_free(theirs);
    ck_assert_uint_eq(memory_of(2000, kind), 0);
    ck_assert_uint_eq(b->memory, BYTES);
    bytes = memory_at(last, 0);
    ck_assert_uint_eq(bytes[BYTES - 1], 0x5a);
    allocation_free(last);
    ck_assert_uint_eq(memory_of(1000, kind), ours_before - BYTES);
    ck_assert_uint_eq(device_of(0)->memory_used, used - (kind == MEM_HOST ? 0 : BYTES));
}
END_TEST

/* Else two users could have as much as they like, by handing each other what they have made. */
START_TEST(only_what_could_be_paid_for)
{
    enum mem_kind kind = _i ? MEM_HOST : MEM_DEVICE;
    enum cause cause = _i ? CAUSE_USER_HOST_MEMORY : CAUSE_USER_DEVICE_MEMORY;
    struct mem *m = allocate(a, kind, BYTES);
    struct memory_export *export = export_of(m, BYTES, true, false);
    struct name name;

    server.any_uid = true;
    name_of(&name, export);
    config.limit[_i ? RESOURCE_HOST_MEMORY : RESOURCE_DEVICE_MEMORY] = BYTES;
    allocate(c, kind, 4096);
    ck_assert_int_eq(try_import(c, &name), cause);
    ck_assert_uint_eq(m->pages->n_holders, 1);
    /* The user that pays already imports in any case. */
    import_in(b, export);
    config.limit[_i ? RESOURCE_HOST_MEMORY : RESOURCE_DEVICE_MEMORY] = BYTES + 4096;
    import_in(c, export);
}
END_TEST

static uint64_t count_files(uid_t uid)
{
    return user_used(user_find(&server.users, uid), RESOURCE_FDS);
}

START_TEST(each_holder_pays_for_a_descriptor)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    uint64_t files = count_files(1000), files_c = count_files(2000);
    struct mem *theirs_here;
    struct name name;

    server.any_uid = true;
    name_of(&name, export);
    theirs_here = import_in(c, export);
    import_in(b, export);
    ck_assert_uint_eq(count_files(1000), files + 1);
    ck_assert_uint_eq(count_files(2000), files_c + 1);
    config.limit[RESOURCE_FDS] = files_c + 1;
    ck_assert_int_eq(try_import(c, &name), CAUSE_USER_DESCRIPTORS);
    ck_assert_uint_eq(c->mems.live, 1);
    allocation_free(ours);
    ck_assert_uint_eq(count_files(1000), files);
    ck_assert_uint_eq(count_files(2000), files_c + 1);
    allocation_free(theirs_here);
    ck_assert_uint_eq(count_files(2000), files_c);
}
END_TEST

/* --- addresses of strict devices --- */

#define ADDRESSES 600 /* more than wait before they may come again */

static uint64_t tables_of(uid_t uid)
{
    return user_used(user_find(&server.users, uid), RESOURCE_TABLE_MEMORY);
}

/* What npud notes of them is paid for, and does not grow with what was freed. */
START_TEST(addresses_are_charged)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    uint64_t before, with_space;
    struct mem *m[2];

    server.any_uid = true;
    allocation_free(allocate(c, MEM_HOST, BYTES)); /* it has its tables */
    before = tables_of(2000);
    m[0] = import_in(c, export);
    ck_assert_uint_gt(tables_of(2000), before + ADDRESSES / 4 * window_range_bytes());
    allocation_free(m[0]);
    with_space = tables_of(2000);
    ck_assert_uint_gt(with_space, before);
    m[0] = allocate(c, MEM_DEVICE, BYTES);
    ck_assert_uint_eq(tables_of(2000), with_space + sizeof(struct pages) + window_range_bytes());
    m[1] = import_in(c, export);
    ck_assert_uint_gt(tables_of(2000),
                      with_space + sizeof(struct pages) + 2 * window_range_bytes());
    allocation_free(m[1]);
    for (unsigned i = 0; i < ADDRESSES; i++)
        allocation_free(allocate(c, MEM_DEVICE, BYTES));
    allocation_free(m[0]);
    ck_assert_uint_eq(tables_of(2000), with_space);
    session_free(c);
    c = NULL;
    ck_assert_ptr_null(user_find(&server.users, 2000)); /* all was given back */
}
END_TEST

/* The first one, with which the session's windows come, and another one. */
START_TEST(addresses_have_a_limit)
{
    struct mem *m = allocate(c, MEM_HOST, BYTES);
    uint64_t before;

    allocation_free(m);
    if (_i == 1)
        allocation_free(allocate(c, MEM_DEVICE, BYTES));
    before = tables_of(2000);
    config.limit[RESOURCE_TABLE_MEMORY] =
        before + sizeof(struct pages) + window_range_bytes() - (unsigned)_i;
    ck_assert_int_eq(allocation_new(c, device_of(0), MEM_DEVICE, BYTES, &m),
                     CAUSE_USER_TABLE_MEMORY);
    ck_assert_uint_eq(tables_of(2000), before);
    config.limit[RESOURCE_TABLE_MEMORY] = UINT64_MAX;
    allocation_free(allocate(c, MEM_DEVICE, BYTES));
}
END_TEST

/* Sessions that hold it end in each order. */
START_TEST(sessions_end_in_each_order)
{
    static const uint8_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct session **sessions[] = {&a, &b, &c};
    struct memory_export *export = export_of(ours, BYTES, false, _i % 2);

    ck_assert_int_eq(memory_export_allow(export, (const int32_t[]){PID_B, PID_C}, 2), 0);
    import_in(b, export);
    import_in(c, export);
    import_in(b, export);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(device_of(0)->memory_used, used_before + BYTES);
        end_session(sessions[orders[_i][i]]);
        ck_assert_uint_eq(HASH_COUNT(server.memory_exports->by_number), a != NULL);
    }
    ck_assert_uint_eq(device_of(0)->memory_used, used_before);
}
END_TEST

START_TEST(importers_are_counted_in_their_session)
{
    struct memory_export *export = export_of(ours, BYTES, true, false);
    struct name name;

    name_of(&name, export);
    for (unsigned i = 0; i < SESSION_MEMS_MAX / 64; i++)
        import_in(b, export);
    b->mems.max = b->mems.live; /* as if it had as many as there may be */
    ck_assert_int_eq(try_import(b, &name), CAUSE_ALLOCATIONS_OF_SESSION);
    import_in(a, export);
}
END_TEST

/* All go with the allocation, in one step. */
START_TEST(exports_have_limits)
{
    struct memory_export *export;

    for (unsigned i = 0; i < MEM_EXPORTS_MAX; i++)
        export = export_of(ours, BYTES, true, false);
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, false, &export), CAUSE_MEMORY_EXPORTS);
    memory_export_free(ours->exports);
    export_of(ours, BYTES, true, false);
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, false, &export), CAUSE_MEMORY_EXPORTS);
    allocation_free(ours);
}
END_TEST

START_TEST(a_user_has_a_limit_of_exports)
{
    struct memory_export *export;

    config.limit[RESOURCE_MEMORY_EXPORTS] = 0;
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, false, &export),
                     CAUSE_USER_MEMORY_EXPORTS);
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, true, &export),
                     CAUSE_USER_MEMORY_EXPORTS);
    ck_assert_ptr_null(ours->exports);
    ck_assert_uint_eq(ours->pages->number, 0);
    config.limit[RESOURCE_MEMORY_EXPORTS] = 1;
    export = export_of(ours, BYTES, true, false);
    ck_assert_uint_eq(user_used(a->user, RESOURCE_MEMORY_EXPORTS), 1);
    memory_export_free(export);
    ck_assert_uint_eq(user_used(a->user, RESOURCE_MEMORY_EXPORTS), 0);
    export_of(ours, BYTES, true, false);
    ck_assert_int_eq(memory_export_new(ours, BYTES, true, false, &export),
                     CAUSE_USER_MEMORY_EXPORTS);
}
END_TEST

/* --- words that one session waits for, and another writes --- */

static struct mem *theirs; /* b's, of the same pages */

static void start_sharing(void)
{
    start_sessions();
    theirs = import_in(b, export_of(ours, BYTES, true, false));
}

static _Atomic uint64_t *word_at(uint64_t offset)
{
    return memory_at(b ? theirs : ours, offset);
}

static struct task on_word(const struct mem *m, enum task_op op, uint64_t offset, uint64_t value)
{
    return (struct task){.op = (uint8_t)op,
                         .flags = op == TASK_VALUE_WAIT, /* equal */
                         .object = m->slot.number,
                         .generation = slot_generation(m),
                         .value = {offset, value}};
}

static uint32_t count_parked(void)
{
    return atomic_load(&ours->pages->values.n);
}

static struct stream *wait_on(const struct mem *m, uint32_t device, uint64_t offset)
{
    struct stream *s = npud_stream(m->session, device);
    struct pages *p = m->pages;
    uint32_t n = atomic_load(&p->values.n);

    client_submit(s, on_word(m, TASK_VALUE_WAIT, offset, 7));
    AWAIT(atomic_load(&p->values.n) == n + 1);
    /* Its engine tells the holders then, and looks at the word once more: all in one turn. */
    engine_lock(device_of(device)->engine);
    engine_unlock(device_of(device)->engine);
    return s;
}

static uint32_t count_waiters(const struct session *s)
{
    return atomic_load(&s->page->value_waiters);
}

static void expect_over(struct stream *s, int32_t error, int32_t pid)
{
    AWAIT((npud_turn(), client_passed(s, 0))); /* npud decides that nobody is left to write */
    ck_assert_int_eq(stream_error_code(client_error(s)), error);
    ck_assert_int_eq(stream_error_pid(client_error(s)), pid);
}

static void expect_parked(struct stream *s)
{
    do
        npud_turn();
    while (schedule_busy(&server.schedule));
    ck_assert(waitlist_has(&((struct mem *)theirs)->pages->values, &s->waiter));
    ck_assert_uint_eq(atomic_load(&s->ctrl->done), 0);
}

static void write_word(struct stream *writer)
{
    client_submit(writer, on_word(ours, TASK_VALUE_WRITE, 64, 7));
}

static void copy_word(struct stream *writer)
{
    struct mem *source = allocate(a, MEM_DEVICE, 4096);
    struct task copy = {
        .op = TASK_COPY, .object = ours->slot.number, .generation = slot_generation(ours)};

    atomic_store((_Atomic uint64_t *)memory_at(source, 64), 7);
    copy.copy.size = 128;
    copy.copy.src = source->slot.number;
    copy.copy.src_generation = slot_generation(source);
    client_submit(writer, copy);
}

/* The client by itself, in its own mapping. */
static void store_word(struct stream *writer)
{
    (void)writer;
    atomic_store(word_at(64), 7);
    value_written(ours, 64, 8);
}

static void (*const writes[])(struct stream *writer) = {write_word, copy_word, store_word};

START_TEST(a_write_in_one_wakes_the_other)
{
    struct stream *waiter = wait_on(theirs, (uint32_t)_i % 2, 64);
    struct stream *other = wait_on(theirs, 0, 256), *own = wait_on(ours, 1, 64);
    struct stream *writer = npud_stream(a, 0);

    ck_assert_uint_eq(count_waiters(b), 2);
    ck_assert_uint_eq(count_waiters(a), 1);
    writes[_i / 2](writer);
    expect_over(waiter, 0, 0);
    expect_over(own, 0, 0);
    expect_parked(other);
    ck_assert_uint_eq(count_waiters(b), 1);
    ck_assert_uint_eq(count_waiters(a), 0);
}
END_TEST

static bool is_told(const struct mem *m)
{
    return session_is_waited(m->session->page, m->slot.number);
}

static void write_by_hand(void)
{
    value_written(ours, 64, 8);
    pages_tell_idle(ours->pages);
}

/* What processes look at before they tell npud that they have written the memory by themselves. */
START_TEST(holders_are_told_that_a_stream_waits)
{
    struct mem *own = allocate(b, MEM_DEVICE, 4096), *third;
    struct memory_export *export = ours->exports;
    struct stream *waiter;
    uint32_t slot;

    ck_assert(!is_told(ours) && !is_told(theirs) && !is_told(own));
    waiter = wait_on(theirs, 0, 64);
    ck_assert(is_told(ours) && is_told(theirs) && !is_told(own));
    write_by_hand(); /* another word than it waits for */
    ck_assert(is_told(ours) && is_told(theirs));
    third = import_in(a, export);
    ck_assert(is_told(third));
    slot = third->slot.number;
    allocation_free(third);
    ck_assert(!session_is_waited(a->page, slot)); /* it may get other pages */
    store_word(NULL);
    expect_over(waiter, 0, 0);
    ck_assert(is_told(ours));
    write_by_hand(); /* in vain: the last time */
    ck_assert(!is_told(ours) && !is_told(theirs));
}
END_TEST

static const struct backend *backend;
static _Atomic bool told_at_last_look;

static bool look_at_word(struct work_place at, uint64_t *word)
{
    atomic_store(&told_at_last_look, is_told(ours));
    return backend->word_read(at, word);
}

/* Else a process may store after the look, and find that it need not tell. */
START_TEST(holders_are_told_before_the_last_look)
{
    struct device *d = device_of(0);
    struct backend looking = *d->backend;
    struct stream *waiter;

    backend = d->backend;
    looking.word_read = look_at_word;
    engine_lock(d->engine);
    d->backend = &looking;
    engine_unlock(d->engine);
    waiter = wait_on(theirs, 0, 64);
    AWAIT(atomic_load(&told_at_last_look));
    engine_lock(d->engine);
    d->backend = backend;
    engine_unlock(d->engine);
    store_word(NULL);
    expect_over(waiter, 0, 0);
}
END_TEST

/* An engine does not tell thousands: from so many on, they are told for good. */
START_TEST(many_holders_are_always_told)
{
    enum { MANY = 64 };
    struct memory_export *export = ours->exports;
    struct mem *more[MANY];
    struct stream *waiter;

    for (unsigned i = 0; i < MANY; i++) {
        more[i] = import_in(i % 2 ? b : a, export);
        ck_assert_int_eq(is_told(ours), ours->pages->n_holders > MANY);
        ck_assert_int_eq(is_told(more[i]), ours->pages->n_holders > MANY);
    }
    write_by_hand();
    ck_assert(is_told(ours) && is_told(theirs) && is_told(more[0]) && is_told(more[MANY - 1]));
    waiter = wait_on(ours, 0, 64);
    while (ours->pages->n_holders > MANY)
        allocation_free(more[ours->pages->n_holders - 3]);
    write_by_hand();
    ck_assert(is_told(ours) && is_told(more[0])); /* it waits */
    store_word(NULL);
    expect_over(waiter, 0, 0);
    write_by_hand();
    ck_assert(!is_told(ours) && !is_told(theirs) && !is_told(more[0]));
}
END_TEST

/* A page that npud 0.9.0 has made ends before the bits: they are not for it. */
START_TEST(an_older_page_is_not_written_beyond_its_end)
{
    static const size_t older = offsetof(struct session_page, waited);

    ck_assert(!session_page_tells_waited(older));
    ck_assert(session_page_tells_waited(sizeof(struct session_page)));
    b->tells_waited = false;
    wait_on(theirs, 0, 64);
    ck_assert(is_told(ours) && !is_told(theirs));
    store_word(NULL);
    b->tells_waited = true;
}
END_TEST

/* The step of the one that has stored has a time limit, however many streams of others wait. */
START_TEST(a_store_wakes_many_in_steps)
{
    static struct stream *s[WAITERS];

    for (unsigned i = 0; i < WAITERS; i++)
        s[i] = wait_on(theirs, i % 2, 64);
    atomic_store(word_at(64), 7);
    server.schedule.until = 1; /* a step whose time is over */
    value_written(ours, 64, 8);
    ck_assert_uint_ge(count_parked(), WAITERS - 64);
    server.schedule.until = 0;
    if (_i)
        allocation_free(ours);
    npud_turn();
    for (unsigned i = 0; i < WAITERS; i++)
        expect_over(s[i], 0, 0);
}
END_TEST

/* Streams in the same slot, that wait for the same word. */
START_TEST(waiters_of_two_sessions_differ)
{
    struct stream *first = wait_on(theirs, 0, 64), *second = wait_on(ours, 0, 64);

    ck_assert_uint_eq(first->slot.number, second->slot.number);
    ck_assert_uint_ne(first->waiter.target, second->waiter.target);
    write_word(npud_stream(a, 1));
    expect_over(first, 0, 0);
    expect_over(second, 0, 0);
    ck_assert_uint_eq(count_parked(), 0);
}
END_TEST

START_TEST(a_waiting_session_ends)
{
    wait_on(theirs, 0, 64);
    wait_on(theirs, 1, 64);
    end_session(&b);
    ck_assert_uint_eq(count_parked(), 0);
    write_word(npud_stream(a, 0));
    ck_assert_uint_eq(ours->pages->n_holders, 1);
}
END_TEST

/* The maker lets go of it in order: nobody is left, and nobody can come, that writes the word. */
START_TEST(a_freed_share_fails_waits)
{
    struct stream *waiter = wait_on(theirs, 0, 64), *own = wait_on(ours, 0, 64);

    allocation_free(ours);
    npud_turn();
    expect_over(own, ACL_ERROR_RT_SYS_DMA, 0);
    expect_over(waiter, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, PID_A);
    allocation_free(theirs);
    ck_assert_uint_eq(count_waiters(a) + count_waiters(b), 0);
}
END_TEST

/* One of two imports in a session: only what waits by that one fails. */
START_TEST(one_of_two_imports_is_freed)
{
    struct mem *second = import_in(b, ours->exports);
    struct stream *by_first = wait_on(theirs, 0, 64), *by_second = wait_on(second, 0, 64);

    allocation_free(second);
    expect_over(by_second, ACL_ERROR_RT_SYS_DMA, 0);
    expect_parked(by_first);
    write_word(npud_stream(a, 0));
    expect_over(by_first, 0, 0);
}
END_TEST

START_TEST(the_last_other_process_dies)
{
    struct mem *second = import_in(b, ours->exports);
    struct stream *waiter = wait_on(theirs, 0, 64), *other = wait_on(second, 1, 128);

    if (_i) /* also if there was a third */
        import_in(a, ours->exports);
    end_session(&a);
    expect_over(waiter, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, PID_A);
    expect_over(other, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, PID_A);
    ck_assert_uint_eq(count_waiters(b), 0);
}
END_TEST

START_TEST(not_the_last_other_process_dies)
{
    struct memory_export *export = export_of(ours, BYTES, false, false);
    struct stream *waiter;

    ck_assert_int_eq(memory_export_allow(export, &(int32_t){PID_C}, 1), 0);
    import_in(c, export);
    waiter = wait_on(theirs, 0, 64);
    end_session(&a);
    expect_parked(waiter);
    end_session(&c);
    expect_over(waiter, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, PID_C);
}
END_TEST

/* What it has written before it died has come. */
START_TEST(a_dying_process_has_written)
{
    struct stream *waiter = wait_on(theirs, 0, 64), *other = wait_on(theirs, 0, 128);

    atomic_store(word_at(64), 7);
    end_session(&a);
    expect_over(waiter, 0, 0);
    expect_over(other, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, PID_A);
}
END_TEST

/*
 * A stream has written, and the memory goes before all that wait were looked at: its session frees
 * it, or ends.
 */
START_TEST(a_writer_that_goes_wakes_all_the_same)
{
    static struct stream *s[WAITERS];
    struct memory_export *export = export_of(ours, BYTES, false, false);
    struct stream *writer = npud_stream(a, 0);

    ck_assert_int_eq(memory_export_allow(export, &(int32_t){PID_C}, 1), 0);
    import_in(c, export);
    for (unsigned i = 0; i < WAITERS; i++) {
        s[i] = npud_stream(b, i % 2);
        client_submit(s[i], on_word(theirs, TASK_VALUE_WAIT, 64, 7));
    }
    AWAIT(count_parked() == WAITERS);
    if (_i % 2) {
        write_word(writer);
        AWAIT(atomic_load(word_at(64)) == 7);
    } else {
        atomic_store(word_at(64), 7); /* and the engine has told nobody */
    }
    if (_i / 2)
        end_session(&a);
    else
        allocation_free(ours);
    npud_turn();
    for (unsigned i = 0; i < WAITERS; i++)
        expect_over(s[i], 0, 0);
    ck_assert_uint_eq(count_waiters(b), 0);
}
END_TEST

/* The look is paid for by the first holder, which may go meanwhile. */
START_TEST(a_look_goes_on_for_the_next_holder)
{
    struct memory_export *export = export_of(ours, BYTES, false, false);
    struct stream *waiter;
    struct mem *last;

    ck_assert_int_eq(memory_export_allow(export, &(int32_t){PID_C}, 1), 0);
    last = import_in(c, export);
    import_in(a, export); /* so that b and c are not alone */
    waiter = wait_on(last, 0, 64);
    atomic_store(word_at(64), 7);
    allocation_free(ours);
    ck_assert(last->pages->look.listed);
    ck_assert_ptr_eq(last->pages->look.owner, &b->owner);
    allocation_free(theirs);
    end_session(&b);
    ck_assert_ptr_eq(last->pages->look.owner, &c->owner);
    npud_turn();
    ck_assert(!last->pages->look.listed);
    expect_over(waiter, 0, 0);
    theirs = ours = NULL;
}
END_TEST

#define ROUNDS 40 /* each begins with pages that no engine has mapped */
#define VOLLEY 12

/* Each waits for the other's word of the volley before it writes its own. */
static uint64_t submit_volleys(struct stream *s, const struct mem *m, uint64_t from, uint64_t to)
{
    uint64_t last = 0;

    for (uint64_t i = 1; i <= VOLLEY; i++) {
        client_submit(s, on_word(m, TASK_VALUE_WAIT, from, from < to ? i - 1 : i));
        last = client_submit(s, on_word(m, TASK_VALUE_WRITE, to, i));
    }
    return last;
}

/* Two engines at the same words, while other holders come and go. */
START_TEST(engines_meet_at_the_same_words)
{
    struct stream *left = npud_stream(a, 0), *right = npud_stream(b, 1);

    server.any_uid = true;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct mem *m = allocate(a, MEM_DEVICE, BYTES), *there;
        struct memory_export *export = export_of(m, BYTES, true, round % 2);
        uint64_t left_last, right_last;

        there = import_in(b, export);
        left_last = submit_volleys(left, m, 0, 8);
        right_last = submit_volleys(right, there, 8, 0);
        while (!client_passed(left, left_last) || !client_passed(right, right_last)) {
            struct mem *third = import_in(c, export);

            ck_assert_uint_eq(third->pages->n_holders, 3);
            allocation_free(third);
            npud_turn();
        }
        ck_assert_uint_eq(client_error(left) | client_error(right), 0);
        ck_assert_uint_eq(m->pages->values.n, 0);
        allocation_free(round / 2 % 2 ? m : there);
        allocation_free(round / 2 % 2 ? there : m);
    }
}
END_TEST

static void add_tests_of_names(TCase *t)
{
    tcase_add_loop_test(t, exported_by_key_and_by_number, 0, 2);
    tcase_add_test(t, sizes_have_limits);
    tcase_add_test(t, a_number_is_given_once);
    tcase_add_test(t, only_the_maker_exports);
    tcase_add_test(t, damaged_keys);
    tcase_add_test(t, forged_keys);
    tcase_add_test(t, keys_of_other_kinds);
    tcase_add_test(t, guessed_numbers);
}

static void add_tests_of_importers(TCase *t)
{
    tcase_add_loop_test(t, listed_processes_import, 0, 2);
    tcase_add_test(t, lists_have_limits);
    tcase_add_test(t, a_pid_is_not_a_process);
    tcase_add_loop_test(t, any_process_is_of_the_user, 0, 2);
    tcase_add_loop_test(t, the_exporter_imports_too, 0, 2);
    tcase_add_test(t, imported_twice);
}

static void add_tests_of_holders(TCase *t)
{
    tcase_add_loop_test(t, the_next_holder_keeps_and_pays, 0, 2);
    tcase_add_loop_test(t, only_what_could_be_paid_for, 0, 2);
    tcase_add_test(t, each_holder_pays_for_a_descriptor);
    tcase_add_loop_test(t, sessions_end_in_each_order, 0, 6);
    tcase_add_test(t, importers_are_counted_in_their_session);
    tcase_add_test(t, exports_have_limits);
    tcase_add_test(t, a_user_has_a_limit_of_exports);
}

static void add_tests_of_addresses(TCase *t)
{
    tcase_add_test(t, addresses_are_charged);
    tcase_add_loop_test(t, addresses_have_a_limit, 0, 2);
}

static void add_tests_of_waits(TCase *t)
{
    tcase_add_loop_test(t, a_write_in_one_wakes_the_other, 0, 6);
    tcase_add_test(t, holders_are_told_that_a_stream_waits);
    tcase_add_test(t, holders_are_told_before_the_last_look);
    tcase_add_test(t, many_holders_are_always_told);
    tcase_add_test(t, an_older_page_is_not_written_beyond_its_end);
    tcase_add_loop_test(t, a_store_wakes_many_in_steps, 0, 2);
    tcase_add_test(t, waiters_of_two_sessions_differ);
    tcase_add_test(t, a_waiting_session_ends);
    tcase_add_test(t, a_freed_share_fails_waits);
    tcase_add_test(t, one_of_two_imports_is_freed);
    tcase_add_loop_test(t, the_last_other_process_dies, 0, 2);
    tcase_add_test(t, not_the_last_other_process_dies);
    tcase_add_test(t, a_dying_process_has_written);
    tcase_add_loop_test(t, a_writer_that_goes_wakes_all_the_same, 0, 4);
    tcase_add_test(t, a_look_goes_on_for_the_next_holder);
    tcase_add_test(t, engines_meet_at_the_same_words);
}

int main(void)
{
    Suite *s = suite_create("shared memory");

    add_tests_of_names(suite_case(s, "names", 60, start_sessions, end_sessions));
    add_tests_of_importers(suite_case(s, "importers", 60, start_sessions, end_sessions));
    add_tests_of_holders(suite_case(s, "holders", 60, start_sessions, end_sessions));
    add_tests_of_addresses(suite_case(s, "addresses", 60, start_strict_sessions, end_sessions));
    add_tests_of_waits(suite_case(s, "waits", 60, start_sharing, end_sessions));
    return run_suite(s);
}
