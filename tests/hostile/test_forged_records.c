/*
 * Clients of a second user that write pending records into the page of an IPC event which they have
 * open, and which no stream has. What records on the event, or waits for it, must not be held up
 * until the attacker leaves: each call ends, with success or with a named error, while the attacker
 * stays. A record of the victim that takes long, because its stream waits, does not fail.
 *
 * All attacks go on at the same time, each on an event and a victim of its own, beside the
 * well-behaved pair (victims.c). NPUD_TEST_TABLE=1 prints the row.
 *
 * Skipped under TSan: attackers write into shared memory that is read meanwhile.
 * Runs long: 8 s.
 */
#include "tests/common/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "tests/common/need.h"
#include "tests/common/raw.h"
#include "tests/common/second_user.h"
#include "tests/hostile/row.h"
#include "tests/hostile/victims.h"

#define FAILED    ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define RECORDS   (2 * IPC_SLOTS)
#define BATCH     64
#define PATIENCE  (30 * NSEC_PER_SEC) /* of one call, on a busy machine */
#define NO_OPENER 4000

static const char *const settings[] = {"--set=ipc.scope=any", "--set=ipc.submit_ms=100", NULL};

/* What both sides of an attack share. */
struct scene {
    aclrtIpcEventHandle handle;
    _Atomic uint32_t exported, forged; /* futexes: 0, then 1 */
    _Atomic uint32_t calls;            /* of the victim that have ended */
    _Atomic uint32_t over;             /* the victim is through */
};

struct attack {
    const char *name;
    void (*forge)(struct ipc_page *page, uint32_t mine, uint32_t victims, struct scene *scene);
    void (*suffer)(aclrtEvent event, aclrtStream stream, struct scene *scene);
};

static void publish_word(_Atomic uint32_t *word)
{
    atomic_store(word, 1);
    futex_wake_all(word);
}

static void await_word(_Atomic uint32_t *word)
{
    while (atomic_load(word) == 0)
        futex_wait_until(word, 0, NULL);
}

/* --- attackers --- */

static void forge_window(struct ipc_page *page, uint64_t newest, uint32_t opener)
{
    for (uint64_t n = newest - IPC_SLOTS + 1; n <= newest; n++)
        atomic_store(&page->slot[n % IPC_SLOTS],
                     ipc_slot_of_latest(ipc_latest_make(n, opener, IPC_PENDING)));
    atomic_store(&page->latest, ipc_latest_make(newest, opener, IPC_PENDING));
}

static void forge_as_self(struct ipc_page *page, uint32_t mine, uint32_t victims,
                          struct scene *scene)
{
    (void)victims;
    forge_window(page, 5000, mine);
    publish_word(&scene->forged);
}

static void forge_as_victim(struct ipc_page *page, uint32_t mine, uint32_t victims,
                            struct scene *scene)
{
    (void)mine;
    forge_window(page, 5000, victims);
    publish_word(&scene->forged);
}

static void forge_as_nobody(struct ipc_page *page, uint32_t mine, uint32_t victims,
                            struct scene *scene)
{
    (void)mine, (void)victims;
    forge_window(page, 5000, NO_OPENER);
    publish_word(&scene->forged);
}

/* What npud fails is pending again at once. */
static void forge_again(struct ipc_page *page, uint32_t mine, uint32_t victims, struct scene *scene)
{
    (void)victims;
    for (;;) {
        forge_window(page, 5000, mine);
        publish_word(&scene->forged);
    }
}

/* The record that is in the way is another one each time. */
static void forge_onwards(struct ipc_page *page, uint32_t mine, uint32_t victims,
                          struct scene *scene)
{
    for (uint64_t newest = 5000;; newest += IPC_SLOTS) {
        forge_window(page, newest, newest / IPC_SLOTS % 2 ? mine : victims);
        publish_word(&scene->forged);
    }
}

/* Bits that mean nothing change without end: no two looks at a pending record are alike. */
static void forge_and_garble(struct ipc_page *page, uint32_t mine, uint32_t victims,
                             struct scene *scene)
{
    (void)victims;
    forge_window(page, 5000, mine);
    publish_word(&scene->forged);
    for (uint64_t noise = 0;; noise = (noise + 1) & 0x1fff)
        for (uint32_t i = 0; i < IPC_SLOTS; i++) {
            uint64_t word = atomic_load(&page->slot[i]);

            atomic_compare_exchange_strong(&page->slot[i], &word,
                                           (word & ~UINT64_C(0xfff8)) | noise << 3);
        }
}

/* --- victims --- */

static void expect_end(aclError error, uint64_t start, struct scene *scene)
{
    uint64_t took = now_ns() - start;

    ck_assert_msg(error == 0 || error == FAILED, "%d: %s", error, aclGetRecentErrMsg());
    ck_assert_msg(took < PATIENCE, "a call has taken %llu ms", (unsigned long long)took / 1000000);
    atomic_fetch_add(&scene->calls, 1);
}

static void record(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    uint64_t start = now_ns();

    expect_end(aclrtRecordEvent(event, stream), start, scene);
}

/* The window was forged once: npud clears it, and all goes on as before. */
static void record_much(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    for (unsigned i = 0; i < RECORDS; i++)
        record(event, stream, scene);
}

/* The same with a stream that has something to do: the records are tasks. */
static void record_in_tasks(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    for (unsigned i = 0; i < RECORDS / BATCH; i++) {
        aclrtEvent gate = stream_hold(stream);

        for (unsigned k = 0; k < BATCH; k++)
            record(event, stream, scene);
        stream_let_go(gate);
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtDestroyEvent(gate));
    }
}

/* The page is forged again and again: each call ends. */
static void record_some(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    aclrtEvent gate = stream_hold(stream);

    record(event, stream, scene);
    record(event, stream, scene);
    stream_let_go(gate);
}

static void synchronize(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    uint64_t start = now_ns();

    (void)stream;
    expect_end(aclrtSynchronizeEvent(event), start, scene);
}

/*
 * A forged record is newer than the victim's, which is pending for as long: npud tells them apart.
 */
static void record_behind_a_gate(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    aclrtEvent gate = stream_hold(stream), mine;

    OK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(mine, stream));
    record(event, stream, scene);
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(mine, 4000));
    stream_let_go(gate);
    OK(aclrtSynchronizeEvent(mine));
    OK(aclrtSynchronizeStream(stream));
}

static const struct attack attacks[] = {
    {"as self", forge_as_self, record_much},
    {"as self, tasks", forge_as_self, record_in_tasks},
    {"as the victim", forge_as_victim, record_much},
    {"as the victim, tasks", forge_as_victim, record_in_tasks},
    {"as nobody", forge_as_nobody, record_much},
    {"again", forge_again, record_some},
    {"onwards", forge_onwards, record_some},
    {"waits", forge_as_self, synchronize},
    {"waits, again", forge_again, synchronize},
    {"garbled", forge_and_garble, record_some},
    {"waits, garbled", forge_and_garble, synchronize},
    {"waits for the victim", forge_as_victim, synchronize},
    {"beside a long record", forge_as_victim, record_behind_a_gate},
};
#define ATTACKS (sizeof(attacks) / sizeof(attacks[0]))

static struct scene *scenes; /* ATTACKS of them, shared */

/* --- processes --- */

static struct scene *scene_of(const struct attack *attack)
{
    bool listed = attack >= attacks && attack < attacks + ATTACKS;

    return &scenes[listed ? attack - attacks : 0];
}

static int run_victim(void *arg)
{
    const struct attack *attack = arg;
    struct scene *scene = scene_of(attack);
    aclrtEvent event;
    aclrtStream stream;

    alarm(0);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &scene->handle));
    OK(aclrtRecordEvent(event, stream)); /* the page tells the opener's number */
    publish_word(&scene->exported);
    await_word(&scene->forged);
    attack->suffer(event, stream, scene);
    OK(aclrtSynchronizeStream(stream));
    atomic_store(&scene->over, 1);
    return 0;
}

static int run_attacker(void *arg)
{
    static struct raw raw = {.socket = -1};
    const struct attack *attack = arg;
    struct scene *scene = scene_of(attack);
    struct raw_object event;
    struct ipc_page *page;
    uint64_t latest;

    alarm(0);
    await_word(&scene->exported);
    second_user_become();
    must(raw_open(&raw) && raw_open_ipc(&raw, &scene->handle, &event) && event.at, "event");
    page = event.at;
    latest = atomic_load(&page->latest);
    attack->forge(page, event.opener, ipc_slot_opener(ipc_slot_of_latest(latest)), scene);
    pause(); /* until it is killed */
    return 1;
}

/* --- the test --- */

static void await_victims(const pid_t *pid)
{
    for (unsigned i = 0; i < ATTACKS; i++)
        EVENTUALLY((victims_work(10), atomic_load(&scenes[i].over)),
                   "%s: the victim is held up after %u calls", attacks[i].name,
                   atomic_load(&scenes[i].calls));
    for (unsigned i = 0; i < ATTACKS; i++)
        child_expect_ok(pid[i]);
}

/* False: once more. */
static bool bear_attacks(unsigned attempt)
{
    pid_t victim[ATTACKS], attacker[ATTACKS];
    aclrtIpcEventHandle spoiled;
    bool good;

    npud_start_shared(settings);
    victims_start(&spoiled);
    victims_phase(PHASE_COMPARED);
    victims_work(100);
    victims_phase(PHASE_HOSTILE);
    scenes = child_share(ATTACKS * sizeof(*scenes));
    for (unsigned i = 0; i < ATTACKS; i++) {
        victim[i] = child_start(run_victim, (void *)&attacks[i]);
        attacker[i] = child_start(run_attacker, (void *)&attacks[i]);
    }
    await_victims(victim);
    for (unsigned i = 0; i < ATTACKS; i++)
        child_kill(attacker[i]);
    npud_await_sessions(2);
    victims_phase(PHASE_NONE);
    good = row_finish_victims("records that nobody has submitted", ATTACKS, ATTACKS, attempt);
    victims_end();
    npud_expect_empty();
    npud_teardown();
    return good;
}

START_TEST(forged_records_hold_up_nobody)
{
    if (need_root("forged_records_hold_up_nobody"))
        for (unsigned attempt = 0; !bear_attacks(attempt);)
            attempt++;
}
END_TEST

/* Of a record that waits for its place, where records have 10 s to come into a stream. */
#define BRIEF (5 * NSEC_PER_SEC) /* less than one, on a machine that does nothing else */

static void record_briefly(aclrtEvent event, aclrtStream stream, struct scene *scene)
{
    uint64_t start = now_ns(), took;

    (void)scene;
    FAILS_SAYING(FAILED, "nothing can be recorded", aclrtRecordEvent(event, stream));
    took = now_ns() - start;
    ck_assert_msg(took < BRIEF, "%llu ms", (unsigned long long)(took / NSEC_PER_MSEC));
    if (getenv("NPUD_TEST_TABLE"))
        fprintf(stderr, "a record behind a forged one: %llu ms\n",
                (unsigned long long)(took / NSEC_PER_MSEC));
    OK(aclrtDestroyEvent(event));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
}

static const struct attack brief[] = {
    {"briefly", forge_as_self, record_briefly},
    {"briefly, garbled", forge_and_garble, record_briefly},
};

START_TEST(a_forged_record_holds_up_briefly)
{
    static const char *const set[] = {"--set=ipc.scope=any", NULL};
    pid_t victim, attacker;

    if (!need_root("a_forged_record_holds_up_briefly"))
        return;
    npud_start_shared(set);
    scenes = child_share(sizeof(*scenes));
    victim = child_start(run_victim, (void *)&brief[_i]);
    attacker = child_start(run_attacker, (void *)&brief[_i]);
    child_expect_ok(victim);
    child_kill(attacker);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forged_records");
    TCase *t = suite_case(suite, "forged_records", 180, NULL, NULL);

    tcase_add_test(t, forged_records_hold_up_nobody);
    tcase_add_loop_test(t, a_forged_record_holds_up_briefly, 0, sizeof(brief) / sizeof(brief[0]));
    return run_suite(suite);
}
