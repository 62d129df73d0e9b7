/*
 * Memory that several sessions have over the end of npud: npud ends at each place between two
 * stores of a request, of a task, or of the end of a session, and all is as in an npud that lives.
 * The engines have no thread here; each turn is a call.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 * Runs long: 14 s.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/control/session_idle.h"
#include "daemon/memory/export.h"
#include "proto/wire/packet.h"
#include "tests/unit/memory_at.h"
#include "tests/unit/restart_acts.h"

#define FIRST  2000000 /* has made the memory */
#define SECOND 2000001
#define THIRD  2000002 /* of another user */
#define BYTES  8192
#define TURNS  60
#define CROWD  80 /* more waits than a step looks at */
#define WORD   64 /* offset of the word that streams wait for */

static bool with_names;

/* --- how it is --- */

static void tell_stream(struct stream *s)
{
    uint64_t error = client_error(s);

    tell("  stream %u: %llu done, error %d of %d%s\n", s->slot.number,
         (unsigned long long)(atomic_load(&s->ctrl->done) - s->live->first),
         stream_error_code(error), stream_error_pid(error), s->waiting_on ? " waits" : "");
}

static void tell_export(const struct memory_export *export)
{
    tell("    export of %llu by %s%s:", (unsigned long long)export->size,
         export->by_number ? "number" : "key", export->importers.any_pid ? " to any" : "");
    for (uint32_t i = 0; i < export->importers.n; i++)
        tell(" %d%s", export->importers.list[i].pid,
             export->importers.list[i].process ? " known" : "");
    tell("\n");
    if (!with_names)
        return;
    tell("    number %llu, ", (unsigned long long)export->number);
    for (size_t i = 0; i < sizeof(export->key); i++)
        tell("%02x", ((const uint8_t *)&export->key)[i]);
    tell("\n");
}

static void tell_pages(struct pages *p)
{
    const _Atomic uint64_t *word = memory_at(p->holders, WORD);
    const struct mem *m;

    tell("    %s of device %u, %llu bytes, word %llu, made by %d of %u%s, %u wait, "
         "of %u holders, %u sharers, %u new, left by %llx%s:",
         p->kind == MEM_HOST ? "host memory" : "memory", p->device->index,
         (unsigned long long)p->size, (unsigned long long)atomic_load(word), (int)p->maker_pid,
         (unsigned)p->maker_uid, p->number ? ", numbered" : "", p->values.n,
         atomic_load(&p->sharers.waiting), p->sharers.n, p->sharers.newcomers,
         (unsigned long long)atomic_load(&p->sharers.left),
         pages_are_deserted(p) ? ", deserted" : "");
    DL_FOREACH (p->holders, m)
        tell(" %d/%u%s", (int)m->session->pid, m->slot.number, m->sharer->over ? " over" : "");
    tell(", maker %d\n", pages_maker(p) ? (int)pages_maker(p)->pid : 0);
    tell("    charged to %u\n", (unsigned)p->charge.user->uid);
    if (with_names)
        tell("    number %llu, maker %llu\n", (unsigned long long)p->number,
             (unsigned long long)p->maker);
}

static void tell_mem(struct mem *m)
{
    const struct memory_export *export;

    tell("  memory %u, %llu bytes imported, %u exports\n", m->slot.number,
         (unsigned long long)m->imported, m->n_exports);
    if (with_names)
        tell("    generation %u\n", slot_generation(m));
    if (m->pages->holders == m)
        tell_pages(m->pages);
    DL_FOREACH (m->exports, export)
        tell_export(export);
}

static void tell_all(void)
{
    struct session *session;
    struct stream *s;
    struct mem *m;

    DL_FOREACH (server.sessions, session) {
        tell("session of %d, %llu bytes, %u words waited for, %s\n", (int)session->pid,
             (unsigned long long)session->memory, atomic_load(&session->page->value_waiters),
             session->idle_state != IDLE_NOT ? "idle" : "in use");
        slots_foreach (&session->streams, i, s)
            tell_stream(s);
        slots_foreach (&session->mems, i, m)
            tell_mem(m);
    }
    for (uint32_t i = 0; i < server.devices->n; i++)
        tell("device %u: %llu used\n", i,
             (unsigned long long)devices_get(server.devices, i)->memory_used);
    tell("%u exports, %u numbered\n", HASH_COUNT(server.memory_exports->by_number),
         HASH_COUNT(server.memory_exports->pages));
    tell_charges();
}

/* --- what the clients do --- */

static struct mem *mem_in(pid_t pid, uint32_t slot)
{
    struct mem *m = slots_get(&session_of(pid)->mems, slot);

    ck_assert_ptr_nonnull(m);
    return m;
}

static struct mem *allocate_by(pid_t pid, uint32_t device, enum mem_kind kind)
{
    struct mem *m;

    ck_assert_int_eq(allocation_new(session_of(pid), devices_get(server.devices, device), kind,
                                    BYTES - device, &m),
                     0);
    return m;
}

static struct memory_export *export_by(pid_t pid, uint32_t slot, bool any_pid, bool by_number)
{
    struct memory_export *export;

    ck_assert_int_eq(memory_export_new(mem_in(pid, slot), BYTES / 2, any_pid, by_number, &export),
                     0);
    return export;
}

static enum cause try_import(pid_t pid, const struct memory_export *export)
{
    char text[EXPORT_KEY_TEXT + 1] = {0};
    struct export_name name = {.number = export->number};
    struct mem *m;

    if (!export->by_number) {
        export_key_encode(&export->key, text);
        name.key = text;
    }
    return memory_export_import(session_of(pid), name, &m);
}

static void import_by(pid_t pid)
{
    ck_assert_int_eq(try_import(pid, mem_in(FIRST, 0)->exports), 0);
}

static _Atomic uint64_t *word_of(struct mem *m)
{
    return memory_at(m, WORD);
}

static void submit(pid_t pid, uint32_t slot, enum task_op op)
{
    const struct mem *m = mem_in(pid, 0);

    client_submit(stream_in(pid, slot), (struct task){.op = (uint8_t)op,
                                                      .flags = op == TASK_VALUE_WAIT, /* equal */
                                                      .object = m->slot.number,
                                                      .generation = slot_generation(m),
                                                      .value = {WORD, 7}});
}

/* All that there is to do. */
static void act_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        turn_engines(TURNS);
        npud_turn();
    }
}

/* Three sessions; the first has memory, which is exported to any, and the second has it, too. */
static void start_clients(void)
{
    static const pid_t pids[] = {FIRST, SECOND, THIRD};

    start_two_devices();
    for (unsigned i = 0; i < 3; i++) {
        connect_client_of(1000 + i / 2, pids[i], -1);
        for (unsigned k = 0; k < 2; k++)
            npud_stream(session_of(pids[i]), (i + k) % 2);
    }
    allocate_by(FIRST, 0, MEM_DEVICE);
    export_by(FIRST, 0, true, false);
    import_by(SECOND);
    kept_commit();
}

/* All three have it, and the second twice. */
static void start_holders(void)
{
    start_clients();
    import_by(THIRD);
    import_by(SECOND);
    kept_commit();
}

static void start_crowd(void)
{
    start_clients();
    for (unsigned i = 2; i < CROWD; i++)
        npud_stream(session_of(SECOND), i % 2);
    kept_commit();
}

/* --- it is as it was --- */

/* Streams that wait do so again when their engine has looked at them. */
static void tell_after_turns(void)
{
    act_turns();
    tell_all();
}

START_TEST(memory_is_as_it_was)
{
    struct memory_export *export;
    struct mem *m;

    with_names = true;
    start_holders();
    for (uint32_t i = 1; i < 12; i++) {
        m = allocate_by(THIRD, i % 2, i % 3 ? MEM_DEVICE : MEM_HOST);
        export = export_by(THIRD, m->slot.number, i % 4 == 1, i % 2);
        for (int32_t k = 0; k < (int32_t)(4 * i) && i % 4 != 1; k++)
            ck_assert_int_eq(memory_export_allow(export, &(int32_t){4000000 + k}, 1), 0);
        if (i % 4 == 1)
            ck_assert_int_eq(try_import(i % 8 == 1 ? THIRD : FIRST, export), 0);
        if (i % 5 == 4)
            allocation_free(m);
        if (i % 5 == 3)
            memory_export_free(export);
    }
    kept_commit();
    submit(SECOND, 1, TASK_VALUE_WAIT);
    act_turns();
    for (unsigned i = 0; i < 3; i++)
        expect_same_after_restart(tell_after_turns);
    /* Names hold, and numbers go on. */
    import_by(SECOND);
    ck_assert_uint_gt(server.last->memory, 7);
    allocation_free(mem_in(FIRST, 0));
    kept_commit();
    expect_same_after_restart(tell_after_turns);
    ck_assert_ptr_null(pages_maker(mem_in(SECOND, 0)->pages));
    stop_all();
}
END_TEST

/*
 * The one that has them longest pays, and not the one whose record stands first in kept memory: the
 * second session has given a name up, and its next one has the cell of that.
 */
START_TEST(the_oldest_holder_pays)
{
    static const struct {
        pid_t pid;
        uint32_t slot;
    } oldest_first[] = {{FIRST, 0}, {THIRD, 0}, {SECOND, 1}, {SECOND, 0}};
    struct pages *p;

    start_holders();
    allocation_free(mem_in(SECOND, 0));
    kept_commit();
    import_by(SECOND);
    kept_commit();
    with_names = true;
    for (unsigned i = 0; i < 4; i++) {
        struct mem *m;

        expect_same_after_restart(tell_after_turns);
        m = mem_in(oldest_first[i].pid, oldest_first[i].slot);
        p = m->pages;
        ck_assert_ptr_eq(p->holders, m);
        ck_assert_ptr_eq(p->charge.user, m->session->user->payer);
        ck_assert_uint_eq(m->session->memory, p->size);
        allocation_free(m);
        kept_commit();
    }
    stop_all();
}
END_TEST

/* What npud notes of the addresses of strict devices is paid for as before. */
START_TEST(addresses_are_charged_again)
{
    uint64_t address, one, without, with;

    restart_start((const char *const[]){"sim.devices=2", "sim.strict=yes", "engine.spin_us=0",
                                        "stream.depth=64", NULL});
    connect_client_of(1000, FIRST, -1);
    for (uint32_t i = 0; i < 5; i++)
        allocate_by(FIRST, i % 2, i % 3 ? MEM_DEVICE : MEM_HOST);
    allocation_free(mem_in(FIRST, 1));
    kept_commit();
    address = mem_in(FIRST, 2)->address;
    one = mem_in(FIRST, 2)->charge_address.amount;
    ck_assert_uint_ne(address, 0);
    ck_assert_uint_ne(one, 0);
    restart_npud();
    ck_assert_uint_eq(mem_in(FIRST, 2)->address, address);
    ck_assert_uint_eq(mem_in(FIRST, 2)->charge_address.amount, one);
    with = session_of(FIRST)->charge_tables.amount;
    allocation_free(mem_in(FIRST, 2));
    allocation_free(mem_in(FIRST, 4));
    kept_commit();
    restart_npud(); /* no address is left, and no windows */
    without = session_of(FIRST)->charge_tables.amount;
    ck_assert_uint_eq(with - without, backend_sim.space_bytes(server.devices->backend_state));
    stop_all();
}
END_TEST

/* A process on the list is that one, and not a later one with its pid. */
START_TEST(an_importer_is_the_same_process)
{
    struct memory_export *export;
    pid_t pid;
    int pidfd;

    start_clients();
    pid = start_process(&pidfd);
    export = export_by(FIRST, 0, false, false);
    ck_assert_int_eq(memory_export_allow(export, &pid, 1), 0);
    kept_commit();
    restart_npud();
    connect_client_of(1001, pid, pidfd);
    export = mem_in(FIRST, 0)->exports->next;
    ck_assert_uint_eq(export->importers.list[0].process, pidfd_now(pid));
    ck_assert_int_eq(try_import(pid, export), 0);
    export->importers.list[0].process ^= 1;
    kept_touch(&export->importers.kept);
    kept_commit();
    restart_npud();
    ck_assert_int_eq(try_import(pid, mem_in(FIRST, 0)->exports->next), CAUSE_MEMORY_NOT_LISTED);
    end_process(pid);
    npud_turn();
    stop_all();
}
END_TEST

/* The end of a session may come before the engines have looked at the streams of the others. */
START_TEST(a_wait_is_there_before_engines_run)
{
    uint64_t error;

    start_clients();
    submit(SECOND, 1, TASK_VALUE_WAIT);
    act_turns();
    restart_npud();
    ck_assert_uint_eq(atomic_load(&session_of(SECOND)->page->value_waiters), 1);
    hang_up(FIRST);
    for (unsigned i = 0; i < 3; i++)
        npud_turn();
    act_turns();
    error = client_error(stream_in(SECOND, 1));
    ck_assert_int_eq(stream_error_code(error), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_int_eq(stream_error_pid(error), FIRST);
    ck_assert_uint_eq(atomic_load(&session_of(SECOND)->page->value_waiters), 0);
    stop_all();
}
END_TEST

/* No session has left that could write the word: the importer has never had it. */
START_TEST(an_import_that_fails_ends_no_wait)
{
    struct memory_export *export;

    start_clients();
    allocation_free(mem_in(SECOND, 0));
    export = export_by(FIRST, 0, true, false);
    kept_commit();
    submit(FIRST, 1, TASK_VALUE_WAIT);
    act_turns();
    restart_lacks = KEPT_MEMORY;
    ck_assert_int_eq(try_import(THIRD, export), CAUSE_FILE_MEMORY);
    restart_lacks = KEPT_KIND_MAX;
    ck_assert_uint_eq(atomic_load(&mem_in(FIRST, 0)->pages->sharers.left) & 1, 0);
    act_turns();
    ck_assert_uint_eq(client_error(stream_in(FIRST, 1)), 0);
    ck_assert_uint_eq(atomic_load(&session_of(FIRST)->page->value_waiters), 1);
    stop_all();
}
END_TEST

/* --- a program that finalizes, and keeps its session --- */

static void finalize(void)
{
    ck_assert_int_eq(session_idle_begin(session_of(FIRST)), CAUSE_NONE);
    kept_commit();
    act_turns();
}

static bool is_idle(void)
{
    return session_of(FIRST)->idle_state != IDLE_NOT;
}

static bool is_in_use(void)
{
    return !is_idle();
}

/* Until it is done, the request stays. */
static void come_back(void)
{
    while (!session_idle_end(session_of(FIRST)))
        kept_commit();
    kept_commit();
}

/* The first session is idle, and gets the memory of the third, of which one has ended. */
static void get_memory_when_idle(void)
{
    struct memory_export *export;
    struct mem *m;

    start_clients();
    allocate_by(THIRD, 0, MEM_DEVICE);
    export = export_by(THIRD, 0, true, false);
    ck_assert_int_eq(try_import(SECOND, export), 0);
    finalize();
    hang_up(SECOND);
    act_turns();
    ck_assert_int_eq(try_import(FIRST, export), 0);
    kept_commit();
    DL_FOREACH (export->mem->pages->holders, m)
        ck_assert(!m->sharer->over);
}

/* What an idle session gets when all know that it is idle counts as ever, over restarts, too. */
START_TEST(what_an_idle_session_gets_later)
{
    get_memory_when_idle();
    submit(THIRD, 1, TASK_VALUE_WAIT);
    act_turns();
    for (unsigned i = 0; i < 2; i++)
        expect_same_after_restart(tell_after_turns);
    ck_assert_uint_eq(client_error(stream_in(THIRD, 1)), 0);
    ck_assert_uint_eq(atomic_load(&session_of(THIRD)->page->value_waiters), 1);
    come_back();
    ck_assert(is_in_use());
    ck_assert(!mem_in(FIRST, 0)->sharer->over);
    stop_all();
}
END_TEST

static void run_come_back(void *arg)
{
    (void)arg;
    come_back();
}

/*
 * The next npud does not make it idle anew where the one before was taking that back; with work:
 * nor when its streams have done what they were given.
 */
static bool take_back_in_part(unsigned pass, bool with_work, bool *was_in_use)
{
    bool killed, over;

    start_clients();
    if (with_work)
        submit(FIRST, 0, TASK_VALUE_WAIT);
    finalize();
    ck_assert(mem_in(FIRST, 0)->sharer->over == !with_work);
    killed = restart_kill(KILL_HERE_IDLE_PIECE, pass, run_come_back, NULL);
    over = mem_in(FIRST, 0)->sharer->over;
    *was_in_use |= killed && !over;
    if (with_work)
        submit(SECOND, 1, TASK_VALUE_WRITE);
    act_turns();
    ck_assert(mem_in(FIRST, 0)->sharer->over == over);
    ck_assert(is_idle() == killed);
    come_back();
    ck_assert(is_in_use());
    ck_assert(!mem_in(FIRST, 0)->sharer->over);
    stop_all();
    return killed;
}

START_TEST(an_idle_session_is_in_use_in_part)
{
    bool was_in_use = false;

    for (unsigned pass = 1; take_back_in_part(pass, _i, &was_in_use); pass++)
        ;
    ck_assert(was_in_use);
}
END_TEST

/* No memory for a record: nothing has changed. */
/* It may give up one name, and stays over: each record of it says so. */
START_TEST(an_idle_session_gives_up_a_name)
{
    start_holders();
    ck_assert_int_eq(session_idle_begin(session_of(SECOND)), CAUSE_NONE);
    kept_commit();
    act_turns();
    allocation_free(mem_in(SECOND, (uint32_t)_i));
    kept_commit();
    act_turns();
    ck_assert_uint_eq(mem_in(FIRST, 0)->pages->sharers.over, 1);
    expect_same_after_restart(tell_after_turns);
    stop_all();
}
END_TEST

static void run_turns(void *arg)
{
    (void)arg;
    act_turns();
}

static int error_of_first(uint32_t slot)
{
    return stream_error_code(client_error(stream_in(FIRST, slot)));
}

/* That nobody was left is no reason for a wait that begins when somebody is there again. */
START_TEST(a_desertion_that_is_over_fails_nothing)
{
    start_clients();
    submit(FIRST, 0, TASK_VALUE_WAIT);
    act_turns();
    hang_up(SECOND);
    ck_assert(restart_kill(KILL_HERE_VALUE_TOLD, 1, run_turns, NULL));
    act_turns();
    ck_assert_int_eq(error_of_first(0), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    import_by(THIRD);
    kept_commit();
    submit(FIRST, 1, TASK_VALUE_WAIT);
    act_turns();
    expect_same_after_restart(tell_after_turns);
    ck_assert_int_eq(error_of_first(1), 0);
    stop_all();
}
END_TEST

/* It has begun after that was decided, and before the others were told: the next npud spares it. */
START_TEST(a_wait_that_comes_after_the_decision_is_spared)
{
    start_clients();
    submit(FIRST, 0, TASK_VALUE_WAIT);
    act_turns();
    hang_up(SECOND);
    ck_assert(restart_kill(KILL_HERE_VALUE_DESERTED, 1, run_turns, NULL));
    import_by(THIRD);
    kept_commit();
    submit(FIRST, 1, TASK_VALUE_WAIT);
    turn_engines(TURNS);
    if (_i)
        ck_assert(restart_kill(KILL_HERE_VALUE_DESERTED, 1, run_turns, NULL));
    act_turns();
    ck_assert_int_eq(error_of_first(0), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_int_eq(error_of_first(1), 0);
    stop_all();
}
END_TEST

/* npud does not see it from the namespace of pids that npud is in. */
START_TEST(one_that_leaves_has_no_pid)
{
    start_clients();
    submit(FIRST, 0, TASK_VALUE_WAIT);
    act_turns();
    session_of(SECOND)->pid = 0;
    hang_up(SECOND);
    act_turns();
    ck_assert_int_eq(error_of_first(0), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    stop_all();
}
END_TEST

START_TEST(without_memory_for_records)
{
    static const enum kept_kind kinds[] = {KEPT_MEMORY_EXPORT, KEPT_MEMORY, KEPT_MEMORY_PIDS};
    enum cause cause = CAUSE_NONE;
    struct memory_export *export;
    char *before;

    start_clients();
    export = export_by(FIRST, 0, false, false);
    kept_commit();
    before = text_of(tell_all);
    restart_lacks = kinds[_i];
    if (_i == 0)
        cause = memory_export_new(mem_in(FIRST, 0), BYTES, true, false, &export);
    else if (_i == 1)
        cause = try_import(THIRD, mem_in(FIRST, 0)->exports);
    else
        cause = memory_export_allow(export, &(int32_t){SECOND}, 1);
    restart_lacks = KEPT_KIND_MAX;
    ck_assert_int_eq(cause, _i == 1 ? CAUSE_FILE_MEMORY : CAUSE_MEMORY);
    ck_assert(same_text(before, text_of(tell_all)));
    kept_commit();
    expect_same_after_restart(tell_all);
    stop_all();
}
END_TEST

/* --- requests, tasks and ends that are cut short --- */

/* It is done again in any case. */
static bool never(void)
{
    return false;
}

static bool has_two_exports(void)
{
    return mem_in(FIRST, 0)->n_exports == 2;
}

static void act_export_key(void)
{
    export_by(FIRST, 0, false, false);
    kept_commit();
}

/* The first export of its memory: it gets its number. */
static void act_export_first(void)
{
    export_by(THIRD, 0, true, true);
    kept_commit();
}

static bool third_has_exported(void)
{
    return mem_in(THIRD, 0)->n_exports == 1;
}

static void allocate_by_third(void)
{
    allocate_by(THIRD, 1, MEM_HOST);
    kept_commit();
}

static void prepare_allow(void)
{
    struct memory_export *export = export_by(FIRST, 0, false, false);

    for (int32_t i = 0; i < 16; i++)
        ck_assert_int_eq(memory_export_allow(export, &(int32_t){4000000 + i}, 1), 0);
    kept_commit();
}

/* The record of the list grows. */
static void act_allow(void)
{
    const int32_t pids[] = {4000003, 4000100, 4000101};

    ck_assert_int_eq(memory_export_allow(mem_in(FIRST, 0)->exports->next, pids, 3), 0);
    kept_commit();
}

static void act_unexport(void)
{
    memory_export_free(mem_in(FIRST, 0)->exports->next);
    kept_commit();
}

static bool is_unexported(void)
{
    return mem_in(FIRST, 0)->n_exports == 1;
}

static void act_import(void)
{
    import_by(THIRD);
    kept_commit();
}

static bool third_has_it(void)
{
    return session_of(THIRD)->mems.live == 1;
}

static void act_free_first(void)
{
    allocation_free(mem_in(FIRST, 0));
    kept_commit();
    act_turns();
}

static bool first_has_none(void)
{
    return session_of(FIRST)->mems.live == 0;
}

static void act_free_second(void)
{
    allocation_free(mem_in(SECOND, 0));
    kept_commit();
    act_turns();
}

static bool second_has_freed(void)
{
    return !slots_get(&session_of(SECOND)->mems, 0);
}

static void all_free(void)
{
    static const pid_t pids[] = {FIRST, SECOND, THIRD};

    for (unsigned i = 0; i < 3; i++)
        for (uint32_t slot = 0; slot < 2; slot++) {
            struct mem *m = slots_get(&session_of(pids[i])->mems, slot);

            if (m)
                allocation_free(m);
            kept_commit();
        }
}

static void wait_second(void)
{
    submit(SECOND, 0, TASK_VALUE_WAIT);
    submit(SECOND, 1, TASK_VALUE_WAIT);
}

static void wait_both(void)
{
    wait_second();
    submit(FIRST, 0, TASK_VALUE_WAIT);
}

static void wait_two(void)
{
    submit(SECOND, 0, TASK_VALUE_WAIT);
    submit(THIRD, 0, TASK_VALUE_WAIT);
}

static void crowd_waits(void)
{
    for (unsigned i = 0; i < CROWD; i++)
        submit(SECOND, i, TASK_VALUE_WAIT);
    turn_engines(TURNS);
}

static void submit_write(void)
{
    submit(FIRST, 1, TASK_VALUE_WRITE);
}

static void hang_up_first(void)
{
    hang_up(FIRST);
}

static void hang_up_second(void)
{
    hang_up(SECOND);
}

/* The word is there, and npud does not know it. */
static void store_and_hang_up(void)
{
    atomic_store(word_of(mem_in(FIRST, 0)), 7);
    hang_up(FIRST);
}

static void write_and_hang_up(void)
{
    submit_write();
    hang_up(FIRST);
}

static void hang_up_all_in_turn(void)
{
    hang_up(FIRST);
    hang_up(THIRD);
    hang_up(SECOND);
}

/* The waiters are looked at in part. */
static void act_write_and_free(void)
{
    AWAIT((turn_engines(1), atomic_load(word_of(mem_in(SECOND, 0))) == 7));
    act_free_first();
}

static const struct act acts[] = {
    {"export by key", start_clients, NULL, NULL, act_export_key, has_two_exports},
    {"first export, by number", start_clients, allocate_by_third, NULL, act_export_first,
     third_has_exported},
    {"allow", start_clients, prepare_allow, NULL, act_allow, never},
    {"unexport", start_clients, prepare_allow, NULL, act_unexport, is_unexported},
    {"import", start_clients, NULL, NULL, act_import, third_has_it},
    {"exporter frees", start_clients, wait_both, NULL, act_free_first, first_has_none},
    {"exporter frees, many hold", start_holders, wait_both, NULL, act_free_first, first_has_none},
    {"exporter frees with a list", start_holders, prepare_allow, NULL, act_free_first,
     first_has_none},
    {"importer frees", start_clients, wait_both, NULL, act_free_second, second_has_freed},
    {"one of two imports is freed", start_holders, wait_both, NULL, act_free_second,
     second_has_freed},
    {"all free", start_holders, wait_both, NULL, all_free, never},
    {"exporter dies", start_clients, wait_both, hang_up_first, NULL, never},
    {"exporter dies with a list", start_clients, prepare_allow, hang_up_first, NULL, never},
    {"exporter dies, many hold", start_holders, wait_both, hang_up_first, NULL, never},
    {"the only one who can write dies", start_holders, wait_two, hang_up_first, NULL, never},
    {"the same, and a crowd waits", start_crowd, crowd_waits, hang_up_first, NULL, never},
    {"importer dies", start_clients, wait_both, hang_up_second, NULL, never},
    {"importer dies, many hold", start_holders, wait_both, hang_up_second, NULL, never},
    {"all die", start_holders, wait_both, hang_up_all_in_turn, NULL, never},
    {"write wakes the other", start_clients, wait_both, submit_write, NULL, never},
    {"write wakes a crowd", start_crowd, crowd_waits, submit_write, NULL, never},
    {"writer frees", start_crowd, crowd_waits, submit_write, act_write_and_free, first_has_none},
    {"writer dies", start_crowd, crowd_waits, write_and_hang_up, NULL, never},
    {"has stored, and dies", start_clients, wait_both, store_and_hang_up, NULL, never},
    {"finalizes", start_clients, wait_second, NULL, finalize, is_idle},
    {"finalizes, many hold", start_holders, wait_second, NULL, finalize, is_idle},
    {"finalizes with work", start_clients, wait_both, NULL, finalize, is_idle},
    {"comes back", start_holders, finalize, NULL, come_back, is_in_use},
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static const struct stage stage = {act_turns, tell_all};

START_TEST(each_act_at_each_place)
{
    with_names = false;
    act_play_everywhere(&stage, &acts[_i]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: memory");
    TCase *t = suite_case(s, "memory", 300, NULL, NULL);

    tcase_add_test(t, memory_is_as_it_was);
    tcase_add_test(t, the_oldest_holder_pays);
    tcase_add_test(t, addresses_are_charged_again);
    tcase_add_test(t, an_importer_is_the_same_process);
    tcase_add_test(t, a_wait_is_there_before_engines_run);
    tcase_add_test(t, an_import_that_fails_ends_no_wait);
    tcase_add_test(t, what_an_idle_session_gets_later);
    tcase_add_loop_test(t, an_idle_session_is_in_use_in_part, 0, 2);
    tcase_add_loop_test(t, an_idle_session_gives_up_a_name, 0, 2);
    tcase_add_test(t, a_desertion_that_is_over_fails_nothing);
    tcase_add_loop_test(t, a_wait_that_comes_after_the_decision_is_spared, 0, 2);
    tcase_add_test(t, one_that_leaves_has_no_pid);
    tcase_add_loop_test(t, without_memory_for_records, 0, 3);
    tcase_add_loop_test(t, each_act_at_each_place, 0, (int)ACTS);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
