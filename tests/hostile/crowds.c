#include "tests/hostile/crowds.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_rt.h"
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"
#include "proto/util/futex.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/raw_share.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/row.h"
#include "tests/common/moment.h"

#define STREAMS 4000

/* --- messages --- */

/* The slots from..to-1 of the segment, one message each, as far as there is room. */
static uint32_t put_messages(const struct raw_queue *queue, const struct raw_segment *segment,
                             uint32_t from, uint32_t to)
{
    for (; from < to; from++) {
        struct mbuf *m = &segment->view.mbufs[from];
        uint64_t held = mbuf_word_held(1, 1);

        atomic_store(&m->word, held);
        atomic_store(&m->count, 1);
        if (queue_enqueue(&queue->view, m, mbuf_ref(&segment->view, m), held, 1) != QUEUE_OK)
            break;
    }
    return from;
}

static void create_queue(struct raw *raw, uint32_t depth, const struct raw_segment *segment,
                         struct raw_queue *queue)
{
    must(raw_create_queue(raw, depth, queue), "queue");
    must(raw_allow_map(raw, queue->view.number, segment->view.id), "segment of queue");
}

#define SPARSE   (4096u / sizeof(struct mbuf)) /* slots: each message in a page of its own */
#define SEGMENTS 11

/* npud has seen none of these pages before. */
static void put_sparsely(struct raw *raw, const struct raw_queue *queue, uint32_t n)
{
    struct raw_segment segment;

    for (unsigned i = 0; i < SEGMENTS; i++) {
        must(raw_create_segment(raw, 64, QUEUE_DEPTH_MAX * SPARSE / SEGMENTS, &segment), "segment");
        must(raw_allow_map(raw, queue->view.number, segment.view.id), "segment of queue");
        for (uint32_t slot = 0; slot < segment.view.n_data && n > 0; slot += SPARSE, n--)
            must(put_messages(queue, &segment, slot, slot + 1) == slot + 1, "message");
    }
    must(n == 0, "messages");
}

void move_full_ring(void)
{
    struct raw *raw = session_new(0);
    struct raw_queue queue;

    must(raw_create_queue(raw, QUEUE_DEPTH_MAX, &queue), "queue");
    put_sparsely(raw, &queue, QUEUE_DEPTH_MAX);
    state_stands();
    for (;;) {
        must(raw_grant(raw, queue.id, getpid(), QUEUE_MANAGE | QUEUE_PUT), "right taken away");
        must(raw_grant(raw, queue.id, getpid(), QUEUE_RIGHTS), "right given back");
        turn_done();
    }
}

#define SLEEPERS 1500

static _Atomic(_Atomic uint32_t *) word_of_queue;
static _Atomic unsigned about_to_sleep;

static void *sleep_on_queues(void *arg)
{
    _Atomic uint32_t *word = NULL;

    while (true) {
        _Atomic uint32_t *now = atomic_load(&word_of_queue);
        uint32_t seen = atomic_load(now);

        if (now != word)
            atomic_fetch_add(&about_to_sleep, 1);
        word = now;
        futex_wait_until(word, seen, NULL);
    }
    return arg;
}

/* The queues stay mapped here: threads that have not come to it are about to sleep there. */
void end_queues_of_sleepers(void)
{
    struct raw *raw = session_new(0);
    struct raw_queue queue, last;
    pthread_attr_t attr;
    pthread_t thread;

    must(raw_create_queue(raw, 2, &queue), "queue");
    atomic_store(&word_of_queue, &queue.view.put->wake);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (unsigned i = 0; i < SLEEPERS; i++)
        must(pthread_create(&thread, &attr, sleep_on_queues, NULL) == 0, "thread");
    state_stands();
    for (;;) {
        while (atomic_load(&about_to_sleep) < SLEEPERS)
            wait_a_moment();
        atomic_store(&about_to_sleep, 0);
        last = queue;
        must(raw_create_queue(raw, 2, &queue), "queue");
        atomic_store(&word_of_queue, &queue.view.put->wake);
        must(raw_destroy_queue(raw, last.id), "queue destroyed");
        turn_done();
    }
}

#define FULL_QUEUES 2
#define HEIRS       8 /* npud may look at the buffers a few turns later */

/* A process of which npud knows by its grants: queues live as long as it does. */
static pid_t start_heir(void)
{
    pid_t pid = fork();

    must(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void end_heir(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* In order: npud moves no ring because the process could still write there. */
static void leave_session(struct raw *raw)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__LeaveSession leave = NPUD__LEAVE_SESSION__INIT;

    request.leave_session = &leave;
    request.body_case = NPUD__REQUEST__BODY_LEAVE_SESSION;
    must(session_ask(raw, &request), "leave");
    session_free(raw);
}

/*
 * The words of all slots say that they are in full rings, in turns, where they are not; put by
 * npud, so that nothing is taken back when the session ends. Only a look at the rings tells.
 */
static void leave_buffers(pid_t heir)
{
    struct raw *raw = session_new(0);
    struct raw_segment sent, segment;
    struct raw_queue full;
    uint32_t number[FULL_QUEUES];

    must(raw_create_segment(raw, 64, QUEUE_DEPTH_MAX * FULL_QUEUES, &sent), "messages");
    must(raw_create_segment(raw, 64, 16384, &segment), "segment");
    for (uint32_t i = 0; i < FULL_QUEUES; i++) {
        uint32_t from = i * QUEUE_DEPTH_MAX, to = from + QUEUE_DEPTH_MAX;

        create_queue(raw, QUEUE_DEPTH_MAX, &segment, &full);
        must(put_messages(&full, &sent, from, to) == to, "messages");
        must(raw_grant(raw, full.id, heir, QUEUE_TAKE), "grant");
        number[i] = full.view.number;
        raw_unmap_queue(&full);
    }
    for (uint32_t slot = 0; slot < segment_slots(&segment.view); slot++)
        atomic_store(&segment.view.mbufs[slot].word,
                     mbuf_word(1, MBUF_SENDING, PEER_NPUD, number[slot % FULL_QUEUES]));
    raw_unmap_segment(&sent);
    raw_unmap_segment(&segment);
    leave_session(raw);
}

void leave_buffers_beside_full_rings(void)
{
    pid_t heir[HEIRS] = {0};

    for (unsigned turn = 0;; turn++) {
        pid_t *next = &heir[turn % HEIRS];

        if (*next > 0)
            end_heir(*next);
        *next = start_heir();
        leave_buffers(*next);
        if (turn == 0)
            state_stands();
        turn_done();
    }
}

static void wake_router(struct raw *raw, const struct raw_queue *queue)
{
    int fd;

    must(raw_bell(raw, queue->view.number, &fd), "bell");
    close(fd);
}

#define BACKLOG 32768

void leave_full_backlog(void)
{
    for (bool first = true;; first = false) {
        struct raw *raw = session_new(0);
        struct raw_segment segment;
        struct raw_queue to, from;
        uint32_t put = 0;

        must(raw_create_segment(raw, 64, BACKLOG, &segment), "segment");
        create_queue(raw, 2, &segment, &to);
        create_queue(raw, QUEUE_DEPTH_MAX, &segment, &from);
        must(raw_route(raw, from.id, to.id, true), "route");
        while (put < BACKLOG || queue_fill(&from.view) > 0) {
            put = put_messages(&from, &segment, put, BACKLOG);
            wake_router(raw, &from);
        }
        if (first)
            state_stands();
        session_free(raw);
        raw_unmap_queue(&to);
        raw_unmap_queue(&from);
        raw_unmap_segment(&segment);
        turn_done();
    }
}

#define ROUTES 4090

void send_to_all_routes(void)
{
    struct raw *raw = session_new(0);
    struct raw_segment segment;
    struct raw_queue from, to, spare;
    unsigned routes = 0;

    must(raw_create_segment(raw, 64, QUEUE_DEPTH_MAX, &segment), "segment");
    create_queue(raw, QUEUE_DEPTH_MAX, &segment, &from);
    /* A free one is given back when npud refuses a queue; and a bell takes a descriptor. */
    put_messages(&from, &segment, 0, 1);
    must(raw_create_queue(raw, 2, &spare), "queue");
    while (routes < ROUTES && raw_create_queue(raw, 2, &to)) {
        bool bound = raw_route(raw, from.id, to.id, true);

        raw_unmap_queue(&to);
        if (!bound)
            break;
        routes++;
    }
    must(routes > 500, "routes");
    must(raw_destroy_queue(raw, spare.id), "queue destroyed");
    raw_unmap_queue(&spare);
    state_stands();
    for (uint32_t put = 1;; turn_done()) {
        put = put_messages(&from, &segment, put, put + 1) % QUEUE_DEPTH_MAX;
        wake_router(raw, &from);
    }
}

#define SOURCES 4
#define ENDS    (SOURCES + 1500) /* the sources are the last ones */

static unsigned create_ends(struct raw *raw, uint32_t id[ENDS])
{
    struct raw_queue queue;
    unsigned n = 0;

    while (n < ENDS && raw_create_queue(raw, 2, &queue)) {
        id[n++] = queue.id;
        raw_unmap_queue(&queue);
    }
    must(n > 500, "queues");
    return n;
}

static void bind_ends(uid_t uid, const uint32_t *id, unsigned n)
{
    struct raw *raw = session_new(0);
    struct raw_queue queue;

    for (unsigned i = 0; i < n; i++) {
        must(raw_attach_queue(raw, uid, id[i], &queue), "attached");
        raw_unmap_queue(&queue);
    }
    for (unsigned i = 0; i < n - SOURCES; i++)
        for (unsigned k = n - SOURCES; k < n; k++)
            must(raw_route(raw, id[k], id[i], true), "route");
}

/* The routes are then no session's. */
static void bind_in_a_process(struct raw *raw, const uint32_t *id, unsigned n)
{
    int granted[2], status;
    char c;
    pid_t pid;

    must(pipe(granted) == 0, "pipe");
    pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        must(read(granted[0], &c, 1) == 1, "told");
        bind_ends(getuid(), id, n);
        _exit(0);
    }
    for (unsigned i = 0; i < n; i++)
        must(raw_grant(raw, id[i], pid, QUEUE_MANAGE), "grant");
    must(write(granted[1], "", 1) == 1, "tell");
    must(waitpid(pid, &status, 0) == pid && status == 0, "routes bound");
    close(granted[0]);
    close(granted[1]);
}

void leave_sources_of_many_routes(void)
{
    for (bool first = true;; first = false) {
        struct raw *raw = session_new(0);
        uint32_t id[ENDS];

        bind_in_a_process(raw, id, create_ends(raw, id));
        if (first)
            state_stands();
        leave_session(raw);
        turn_done();
    }
}

/* --- waits --- */

void drop_counter(void)
{
    for (bool first = true;; first = false) {
        struct raw *raw = session_new(STREAMS);
        Npud__NotifyReply count = notify_new(raw, true), never = notify_new(raw, false);
        struct task wait = {.op = TASK_COUNT_WAIT,
                            .object = count.slot,
                            .generation = count.generation,
                            .notify = {.value = 7, .mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE}};
        struct task record = wait, block = {.op = TASK_NOTIFY_WAIT,
                                            .object = never.slot,
                                            .generation = never.generation};

        record.op = TASK_COUNT_RECORD;
        record.notify.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE;
        for (unsigned i = 1; i < STREAMS; i++)
            put_task(raw, i, &wait);
        put_task(raw, 0, &block);
        put_task(raw, 0, &record);
        if (first)
            state_stands();
        must(raw_abort_stream(raw, 0, 0), "abort");
        session_free(raw);
        turn_done();
    }
}

static void end_waits(struct raw *raw, struct task *wait, const struct task *task)
{
    state_stands();
    for (;;) {
        if (wait->op == TASK_WAIT_POS)
            wait->wait.target = raw->stream[0].tail + 1;
        for (unsigned i = 1; i < raw->n_streams; i++)
            put_task(raw, i, wait);
        put_task(raw, 0, task);
        for (unsigned i = 0; i < raw->n_streams; i++)
            raw_wait(&raw->stream[i]);
        if (wait->op == TASK_WAIT_LEVEL) {
            struct task reset = *task;

            reset.op = TASK_RESET;
            put_task(raw, 0, &reset);
            raw_wait(&raw->stream[0]);
        }
        turn_done();
    }
}

void raise_for_many(void)
{
    struct raw *raw = session_new(STREAMS);
    struct task wait = {.op = TASK_WAIT_LEVEL};
    struct task record = {.op = TASK_RECORD, .flags = TASK_RECORD_LEVEL, .record.number = 1};
    struct raw_object event;

    must(raw_create_event(raw, &event), "event");
    wait.object = record.object = event.slot;
    wait.generation = record.generation = event.generation;
    end_waits(raw, &wait, &record);
}

void pass_for_many(void)
{
    struct raw *raw = session_new(STREAMS);
    struct task wait = {.op = TASK_WAIT_POS, .object = raw->stream[0].slot};
    struct task nop = {.op = TASK_NOP};

    end_waits(raw, &wait, &nop);
}

/* --- a notify that others have given up --- */

#define CROWD 5

static void export_notify(struct raw *raw, uint32_t slot, char key[128])
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__ExportNotify export = NPUD__EXPORT_NOTIFY__INIT;
    Npud__Reply *reply;

    export.slot = slot;
    export.any_pid = true;
    request.export_notify = &export;
    request.body_case = NPUD__REQUEST__BODY_EXPORT_NOTIFY;
    reply = raw_ask(raw, &request, NULL);
    must(reply && reply->error == 0, "export");
    strcpy(key, reply->export_notify->key);
    npud__reply__free_unpacked(reply, NULL);
}

static Npud__NotifyReply import_notify(struct raw *raw, char *key)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__ImportNotify import = NPUD__IMPORT_NOTIFY__INIT;
    Npud__NotifyReply notify;
    Npud__Reply *reply;

    import.key = key;
    request.import_notify = &import;
    request.body_case = NPUD__REQUEST__BODY_IMPORT_NOTIFY;
    reply = raw_ask(raw, &request, NULL);
    must(reply && reply->error == 0, "import");
    notify = *reply->notify;
    npud__reply__free_unpacked(reply, NULL);
    return notify;
}

static void destroy_notify(struct raw *raw, uint32_t slot)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__DestroyNotify destroy = NPUD__DESTROY_NOTIFY__INIT;

    destroy.slot = slot;
    request.destroy_notify = &destroy;
    request.body_case = NPUD__REQUEST__BODY_DESTROY_NOTIFY;
    must(session_ask(raw, &request), "destroy");
}

static void wait_with_all(struct raw *raw, const Npud__NotifyReply *notify)
{
    struct task wait = {
        .op = TASK_NOTIFY_WAIT, .object = notify->slot, .generation = notify->generation};

    for (unsigned i = 0; i < raw->n_streams; i++)
        put_task(raw, i, &wait);
}

static bool all_passed(struct raw *const crowd[])
{
    for (unsigned k = 0; k < CROWD; k++)
        for (unsigned i = 0; i < crowd[k]->n_streams; i++)
            if (!raw_passed(&crowd[k]->stream[i]))
                return false;
    return true;
}

static void pass_engine(struct raw *raw)
{
    struct task nop = {.op = TASK_NOP};

    put_task(raw, 0, &nop);
    raw_wait(&raw->stream[0]);
}

/* It is over, as it says. */
static void be_idle(struct raw *raw)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__IdleSession in = NPUD__IDLE_SESSION__INIT;

    in.idle = true;
    request.idle_session = &in;
    request.body_case = NPUD__REQUEST__BODY_IDLE_SESSION;
    must(session_ask(raw, &request), "idle");
}

/* The engine may come to some waits later: those are for another one that has the notify. */
static void desert_until_passed(struct raw *other, char *key, struct raw *const crowd[])
{
    do {
        Npud__NotifyReply import = import_notify(other, key);

        pass_engine(other);
        destroy_notify(other, import.slot);
    } while (!all_passed(crowd));
}

void desert_notify(void)
{
    struct raw *raw = session_new(1), *other = session_new(1), *crowd[CROWD];
    Npud__NotifyReply notify = notify_new(raw, false), theirs[CROWD];
    char key[128];

    export_notify(raw, notify.slot, key);
    for (unsigned i = 0; i < CROWD; i++) {
        crowd[i] = session_new(STREAMS);
        theirs[i] = import_notify(crowd[i], key);
        be_idle(crowd[i]);
    }
    state_stands();
    for (;;) {
        for (unsigned i = 0; i < CROWD; i++)
            wait_with_all(crowd[i], &theirs[i]);
        desert_until_passed(other, key, crowd);
        turn_done();
    }
}
