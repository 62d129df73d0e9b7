#include "tests/hostile/crowds.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "acl/acl_rt.h"
#include "proto/shm/mbuf_ref.h"
#include "proto/shm/queue_shm.h"
#include "proto/util/futex.h"
#include "tests/common/raw_share.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/row.h"

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

void move_full_ring(void)
{
    struct raw *raw = session_new(0);
    struct raw_segment segment;
    struct raw_queue queue;

    must(raw_create_segment(raw, 64, QUEUE_DEPTH_MAX, &segment), "segment");
    create_queue(raw, QUEUE_DEPTH_MAX, &segment, &queue);
    must(put_messages(&queue, &segment, 0, QUEUE_DEPTH_MAX) == QUEUE_DEPTH_MAX, "messages");
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
            sched_yield();
        atomic_store(&about_to_sleep, 0);
        last = queue;
        must(raw_create_queue(raw, 2, &queue), "queue");
        atomic_store(&word_of_queue, &queue.view.put->wake);
        must(raw_destroy_queue(raw, last.id), "queue destroyed");
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
