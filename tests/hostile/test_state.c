/*
 * Clients of a second user with much state and many sessions: what they make npud look through must
 * not hold up the well-behaved pair beside them (victims.c). Each row builds its state and then has
 * npud work on it, again and again; at the end all of its processes are killed at once.
 *
 * For each: all results of the pair are right, no step of npud is long (row.c), and of what the
 * second user had nothing is left. Whether the times of the pair double is judged in test_turns.c;
 * NPUD_TEST_TABLE=1 prints them.
 *
 * Skipped under ASan and TSan: the states take them minutes to build.
 * Runs long: 20 s.
 */
#include "tests/common/harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/shm/mbuf_ref.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/raw_share.h"
#include "tests/common/second_user.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/crowds.h"
#include "tests/hostile/row.h"
#include "tests/hostile/victims.h"

#define PROCESSES_MAX 4

/* --- events --- */

#define RECORDS 64

/* A record of the event is pending, as far as its page says. */
static void forge_pending(const struct raw_object *event, uint64_t number)
{
    struct ipc_page *page = event->at;

    atomic_store(&page->slot[number % IPC_SLOTS],
                 (uint64_t)(uint32_t)number << 32 | (uint64_t)event->opener << 16 | IPC_PENDING);
}

/* Streams wait for records of one event, and the test asks for the list of all waits. */
static void wait_for_records(void)
{
    struct raw *raw = session_new(2000);
    struct raw_object event;

    must(raw_create_ipc(raw, &event), "event");
    for (unsigned i = 0; i < raw->n_streams; i++) {
        struct task wait = {
            .op = TASK_IPC_WAIT, .object = event.slot, .generation = event.generation};

        wait.ipc.number = 1 + i % RECORDS;
        forge_pending(&event, wait.ipc.number);
        put_task(raw, i, &wait);
    }
    state_stands();
    for (;;)
        pause();
}

static void ask_for_waits(void)
{
    npud__report__free_unpacked(npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS), NULL);
}

/* All streams of a session wait for one record, which then completes. */
static void complete_for_many(void)
{
    struct raw *raw = session_new(1500);
    struct task wait = {.op = TASK_IPC_WAIT}, record = {.op = TASK_IPC_RECORD};
    struct raw_object event;

    must(raw_create_ipc(raw, &event), "event");
    wait.object = record.object = event.slot;
    wait.generation = record.generation = event.generation;
    state_stands();
    for (uint64_t number = 1;; number++) {
        wait.ipc.number = record.ipc.number = number;
        forge_pending(&event, number);
        for (unsigned i = 1; i < raw->n_streams; i++)
            put_task(raw, i, &wait);
        put_task(raw, 0, &record);
        for (unsigned i = 0; i < raw->n_streams; i++)
            raw_wait(&raw->stream[i]);
        turn_done();
    }
}

#define SLEEPERS 1500

static void *sleep_on_records(void *arg)
{
    struct ipc_page *page = arg;

    for (;;)
        futex_wait_until(&page->wake_seq, atomic_load(&page->wake_seq), NULL);
    return NULL;
}

/* All threads of a process sleep on the word of an event whose records complete. */
static void complete_for_many_threads(void)
{
    struct raw *raw = session_new(1);
    struct task record = {.op = TASK_IPC_RECORD};
    struct raw_object event;
    pthread_attr_t attr;
    pthread_t thread;

    must(raw_create_ipc(raw, &event), "event");
    record.object = event.slot;
    record.generation = event.generation;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (unsigned i = 0; i < SLEEPERS; i++)
        must(pthread_create(&thread, &attr, sleep_on_records, event.at) == 0, "thread");
    state_stands();
    for (uint64_t number = 1;; number++) {
        struct ipc_page *page = event.at;

        record.ipc.number = number;
        forge_pending(&event, number);
        atomic_fetch_or(&page->slot[number % IPC_SLOTS], IPC_WAITERS);
        put_task(raw, 0, &record);
        raw_wait(&raw->stream[0]);
        turn_done();
    }
}

/* Many exported events, and questions about one. */
static void ask_about_exports(void)
{
    struct raw *raw = session_new(1);
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__IpcEventInfo info = NPUD__IPC_EVENT_INFO__INIT;
    struct raw_object event;
    uint8_t handle[64];

    for (unsigned i = 0; i < 1000; i++) {
        must(raw_create_ipc(raw, &event) && raw_export_ipc(raw, event.slot, handle), "event");
        raw->n_maps--; /* stays mapped, and is not looked at again */
    }
    info.handle.data = handle;
    info.handle.len = sizeof(handle);
    request.ipc_event_info = &info;
    request.body_case = NPUD__REQUEST__BODY_IPC_EVENT_INFO;
    state_stands();
    for (;;) {
        must(session_ask(raw, &request), "info");
        turn_done();
    }
}

/* --- notifies --- */

/* Sessions with many notifies, and a stream that waits for every second one, come and go. */
static void die_with_notifies(void)
{
    for (bool first = true;; first = false) {
        struct raw *raw = session_new(500);

        for (unsigned i = 0; i < 1000; i++) {
            Npud__NotifyReply notify = notify_new(raw, false);
            struct task wait = {
                .op = TASK_NOTIFY_WAIT, .object = notify.slot, .generation = notify.generation};

            if (i % 2 == 0)
                put_task(raw, i / 2, &wait);
        }
        if (first)
            state_stands();
        session_free(raw);
        turn_done();
    }
}

/* Lists of importers, as long as they may be. */
static void allow_many_importers(void)
{
    struct raw *raw = session_new(1);
    Npud__Request export = NPUD__REQUEST__INIT, allow = NPUD__REQUEST__INIT,
                  destroy = NPUD__REQUEST__INIT;
    Npud__ExportNotify exported = NPUD__EXPORT_NOTIFY__INIT;
    Npud__AllowNotify allowed = NPUD__ALLOW_NOTIFY__INIT;
    Npud__DestroyNotify destroyed = NPUD__DESTROY_NOTIFY__INIT;
    int32_t pids[32];

    export.export_notify = &exported;
    export.body_case = NPUD__REQUEST__BODY_EXPORT_NOTIFY;
    allow.allow_notify = &allowed;
    allow.body_case = NPUD__REQUEST__BODY_ALLOW_NOTIFY;
    destroy.destroy_notify = &destroyed;
    destroy.body_case = NPUD__REQUEST__BODY_DESTROY_NOTIFY;
    allowed.pids = pids;
    allowed.n_pids = 32;
    state_stands();
    for (;;) {
        exported.slot = allowed.slot = destroyed.slot = notify_new(raw, false).slot;
        must(session_ask(raw, &export), "export");
        for (int32_t pid = 1; pid <= 256; pid++) {
            pids[(pid - 1) % 32] = pid;
            if (pid % 32 == 0)
                must(session_ask(raw, &allow), "allow");
        }
        must(session_ask(raw, &destroy), "destroy");
        turn_done();
    }
}

/* --- buffers and queues --- */

/* Sessions that have many queues hang up. */
static void hang_up_with_queues(void)
{
    struct raw_queue queue;

    for (bool first = true;; first = false) {
        struct raw *raw = session_new(0);

        for (unsigned i = 0; i < 500; i++) {
            must(raw_create_queue(raw, 2, &queue), "queue");
            raw_unmap_queue(&queue);
        }
        if (first)
            state_stands();
        session_free(raw);
        turn_done();
    }
}

/* Sessions end whose buffers all seem to be held by others: npud looks after them. */
static void leave_orphans(void)
{
    struct raw_segment segment;

    for (bool first = true;; first = false) {
        struct raw *raw = session_new(0);

        for (unsigned i = 0; i < 16; i++) {
            must(raw_create_segment(raw, 64, 4096, &segment), "segment");
            for (uint32_t slot = 0; slot < segment_slots(&segment.view); slot++)
                atomic_store(&segment.view.mbufs[slot].word,
                             mbuf_word_held(slot, 1 + (slot + i) % 16));
            raw_unmap_segment(&segment);
        }
        if (first)
            state_stands();
        session_free(raw);
        turn_done();
    }
}

#define LINES    40
#define SEGMENTS 40

/* Readers of many queues may map many segments; rights are granted and taken away. */
static void change_rights(void)
{
    struct raw *raw = session_new(0), *reader = session_new(0);
    struct raw_segment segment[SEGMENTS], mapped;
    struct raw_queue queue[LINES], attached;

    for (unsigned i = 0; i < SEGMENTS; i++)
        must(raw_create_segment(raw, 64, 8, &segment[i]), "segment");
    for (unsigned q = 0; q < LINES; q++) {
        must(raw_create_queue(raw, 2, &queue[q]), "queue");
        for (unsigned i = 0; i < SEGMENTS; i++)
            must(raw_allow_map(raw, queue[q].view.number, segment[i].view.id), "allow");
    }
    state_stands();
    for (unsigned turn = 0;; turn++) {
        uint32_t id = queue[turn % LINES].id;

        raw_grant(raw, id, getpid(), turn / LINES % 2 ? 0 : QUEUE_TAKE);
        if (raw_attach_queue(reader, geteuid(), id, &attached))
            raw_unmap_queue(&attached);
        if (raw_map_segment(reader, segment[turn % SEGMENTS].view.id, &mapped))
            raw_unmap_segment(&mapped);
        must(raw->socket >= 0 && reader->socket >= 0, "npud has ended a session");
        turn_done();
    }
}

/* From one queue to many others, and away again. */
static void bind_many_routes(void)
{
    struct raw *raw = session_new(0);
    uint32_t id[301];

    for (unsigned i = 0; i < 301; i++) {
        struct raw_queue queue;

        must(raw_create_queue(raw, 2, &queue), "queue");
        id[i] = queue.id;
        raw_unmap_queue(&queue);
    }
    state_stands();
    for (bool bind = true;; bind = !bind) {
        for (unsigned i = 1; i < 301; i++)
            must(raw_route(raw, id[0], id[i], bind), "route");
        turn_done();
    }
}

#define ENDS 180 /* sources, and destinations: nearly all combinations are routes */

/* As many routes in a request as it may have, beside those that there are already. */
static void bind_in_one_request(void)
{
    static uint32_t id[2 * ENDS], pairs[ENDS * ENDS][2];
    struct raw *raw = session_new(0);
    const unsigned all = ENDS * ENDS / ROUTES_MAX * ROUTES_MAX;

    for (unsigned i = 0; i < 2 * ENDS; i++) {
        struct raw_queue queue;

        must(raw_create_queue(raw, 2, &queue), "queue");
        id[i] = queue.id;
        raw_unmap_queue(&queue);
    }
    for (unsigned i = 0; i < ENDS * ENDS; i++) {
        pairs[i][0] = id[i % ENDS];
        pairs[i][1] = id[ENDS + i / ENDS];
    }
    for (unsigned i = 0; i < all; i += ROUTES_MAX)
        must(raw_routes(raw, ROUTES_MAX, &pairs[i], true), "routes");
    state_stands();
    for (bool bind = false;; bind = !bind) {
        must(raw_routes(raw, ROUTES_MAX, pairs, bind), "routes");
        turn_done();
    }
}

/* --- engines --- */

#define CROWD 32 /* sessions of each process */

/* Many sessions, each of which always has tasks. */
static void keep_engine_busy(void)
{
    struct raw *raw[CROWD];
    struct task nop = {.op = TASK_NOP};

    for (unsigned i = 0; i < CROWD; i++)
        raw[i] = session_new(1);
    state_stands();
    for (;;) {
        for (unsigned i = 0; i < CROWD; i++) {
            struct raw_stream *stream = &raw[i]->stream[0];

            while (stream->tail - atomic_load(&stream->ctrl->done) < raw[i]->depth / 2)
                raw_put(raw[i], stream, &nop);
            raw_ring(raw[i], stream);
        }
        turn_done();
    }
}

/* --- locks of files --- */

#define FILE_BYTES (UINT64_C(64) << 20)

static void *allocate_pages(void *arg)
{
    const int *fd = arg;

    for (;;) {
        fallocate(*fd, 0, 0, (off_t)FILE_BYTES);
        fallocate(*fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)FILE_BYTES);
    }
    return NULL;
}

/* The lock of a file that npud writes to is nearly always held. */
static void fight_for_a_file(void)
{
    struct raw *raw = session_new(1);
    struct task set = {.op = TASK_SET, .set.size = 1 << 20};
    struct raw_object memory;
    pthread_t thread;
    int fd;

    raw->keep_fds = true;
    must(raw_malloc(raw, false, FILE_BYTES, &memory), "memory");
    fd = raw->map[raw->n_maps - 1].fd;
    for (unsigned i = 0; i < 8; i++)
        must(pthread_create(&thread, NULL, allocate_pages, &fd) == 0, "thread");
    set.object = memory.slot;
    set.generation = memory.generation;
    state_stands();
    for (;;) {
        struct raw_object other;

        put_task(raw, 0, &set);
        raw_wait(&raw->stream[0]);
        atomic_store(&raw->stream[0].ctrl->error, 0); /* it may fill so much and no more */
        must(raw_malloc(raw, false, 1 << 20, &other) && raw_free(raw, other.slot), "free");
        munmap(other.at, 1 << 20);
        raw->n_maps--;
        turn_done();
    }
}

/* --- the table --- */

static const struct attack {
    const char *name;
    void (*run)(void); /* in a process of the second user, until it is killed */
    unsigned processes;
    unsigned sessions;       /* of all of them */
    void (*meanwhile)(void); /* in the test, over and over; NULL: nothing */
} attacks[] = {
    {"2,000 waits for 64 records, reports of them", wait_for_records, 1, 1, ask_for_waits},
    {"records for which 1,500 streams wait", complete_for_many, 4, 4, NULL},
    {"records for which 1,500 threads sleep", complete_for_many_threads, 2, 2, NULL},
    {"questions about one of 1,000 exported events", ask_about_exports, 2, 2, NULL},
    {"ends of 1,000 notifies, half of them waited for", die_with_notifies, 2, 2, NULL},
    {"notifies with 256 importers", allow_many_importers, 2, 2, NULL},
    {"ends of sessions with 500 queues", hang_up_with_queues, 2, 2, NULL},
    {"orphans: 65,536 buffers that others seem to hold", leave_orphans, 2, 2, NULL},
    {"65,536 buffers that seem to be in full rings", leave_buffers_beside_full_rings, 2, 2, NULL},
    {"rights: 40 queues times 40 segments", change_rights, 2, 4, NULL},
    {"300 routes from one queue", bind_many_routes, 2, 2, NULL},
    {"512 routes in a request, beside 32,000", bind_in_one_request, 1, 1, NULL},
    {"128 sessions that keep an engine busy", keep_engine_busy, 4, 4 * CROWD, NULL},
    {"8,192 messages in a ring that moves", move_full_ring, 1, 1, NULL},
    {"queues on which 1,500 threads sleep", end_queues_of_sleepers, 1, 1, NULL},
    {"32,768 messages for a queue that goes", leave_full_backlog, 1, 1, NULL},
    {"messages for thousands of routes", send_to_all_routes, 1, 1, NULL},
    {"ends of sources of 1,500 routes", leave_sources_of_many_routes, 1, 1, NULL},
    {"dropped records for which 4,000 streams wait", drop_counter, 1, 1, NULL},
    {"an event for which 4,000 streams wait", raise_for_many, 1, 1, NULL},
    {"a stream for which 4,000 others wait", pass_for_many, 1, 1, NULL},
    {"a notify for which 20,000 streams wait, given up", desert_notify, 1, 7, NULL},
    {"8 threads that hold the lock of a shared file", fight_for_a_file, 1, 1, NULL},
};
#define ATTACKS ((int)(sizeof(attacks) / sizeof(attacks[0])))

static int run_attack(void *arg)
{
    const struct attack *attack = arg;

    alarm(0);
    second_user_become();
    attack->run();
    return 1;
}

static void begin_attack(const struct attack *attack, pid_t *pid)
{
    attack_begin();
    for (unsigned i = 0; i < attack->processes; i++)
        pid[i] = child_start(run_attack, (void *)attack);
    EVENTUALLY((victims_work(1), attacks_standing() == attack->processes),
               "%u of %u processes have built their state", attacks_standing(), attack->processes);
}

static void watch_attack(const struct attack *attack, uint32_t ms)
{
    uint64_t end = now_ns() + ms * NSEC_PER_MSEC;

    if (!attack->meanwhile)
        victims_work(ms);
    while (attack->meanwhile && now_ns() < end) {
        attack->meanwhile();
        victims_work(1);
    }
    /* On a busy machine it may be late: all of that would have shown nothing. */
    if (!attack->meanwhile)
        EVENTUALLY((victims_work(1), attack_turns() > 0), "the attack has done nothing");
    child_expect_none_failed();
}

/* False: once more. */
static bool bear_attack(const struct attack *attack, unsigned attempt)
{
    uint32_t ms = choose_effort(300, 3000);
    pid_t pid[PROCESSES_MAX];
    aclrtIpcEventHandle spoiled;
    bool good;

    npud_start_shared(NULL);
    victims_start(&spoiled);
    victims_phase(PHASE_COMPARED);
    victims_work(ms / 3);
    victims_phase(PHASE_HOSTILE);
    begin_attack(attack, pid);
    watch_attack(attack, ms);
    for (unsigned i = 0; i < attack->processes; i++)
        child_kill(pid[i]);
    npud_await_sessions(2);
    victims_phase(PHASE_NONE);
    good = row_finish_victims(attack->name, attack->processes, attack->sessions, attempt);
    victims_end();
    npud_expect_empty();
    npud_teardown();
    return good;
}

START_TEST(beside_much_state)
{
    const struct attack *attack = &attacks[_i];

    if (need_root(attack->name) && need_own_fds(attack->name, 8192))
        for (unsigned attempt = 0; !bear_attack(attack, attempt);)
            attempt++;
}
END_TEST

int main(void)
{
    return run_suite(row_suite("state", beside_much_state, ATTACKS));
}
