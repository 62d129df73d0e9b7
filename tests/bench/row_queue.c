/*
 * Rows 7, 8 and 15: messages between two processes through queues.
 *
 * Rows 7 and 8 pass one buffer there and back. Row 15 is about streams of messages of three sizes,
 * one process putting and one taking, beside the same bytes through a pipe and a socket, and beside
 * one memcpy of them in one process. By bytes (acltdtEnqueueData, acltdtDequeueData) they are
 * copied in and out, as in a pipe; by buffer (alloc, enqueue, dequeue, free) nothing is, and
 * nothing looks at them.
 *
 * The processes here are forked, not executed: this one has not used the library yet when it does.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"
#include "tests/common/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"

#define WARM_UP 200

enum job {
    JOB_ANSWER_POLLING,
    JOB_ANSWER_ASLEEP,
    JOB_TAKE_BUFFERS,
    JOB_TAKE_BYTES,
    JOB_WRITE,
    JOB_READ,
    JOB_OVER,
};

/* Workers, each a process. */
enum { CLIENT, WRITER, READER, WORKERS };

struct seat_here {
    alignas(64) _Atomic uint32_t command; /* futex: counts the jobs */
    enum job job;
    unsigned n;
    size_t size;
    int fd[2];                             /* JOB_WRITE, JOB_READ: [1], [0] */
    int cpu;                               /* as for pin() */
    alignas(64) _Atomic uint32_t finished; /* futex: counts the jobs */
    uint64_t sleeps;
};

struct board {
    struct seat_here seat[WORKERS];
    pid_t pid[WORKERS];
    uint32_t there, back, shallow; /* queues */
    alignas(64) _Atomic uint32_t ready;
    alignas(64) _Atomic uint32_t attached;
};

#define BIGGEST ((size_t)4 << 20)

/* --- what the processes do --- */

static acltdtBuf take_buffer(uint32_t qid, bool poll)
{
    acltdtBuf buf = NULL;
    aclError error;

    while ((error = acltdtDequeue(qid, &buf, poll ? 0 : -1)) == ACL_ERROR_RT_QUEUE_EMPTY)
        let_other_run();
    CHECK(error);
    return buf;
}

static void answer_messages(struct board *b, unsigned n, bool poll)
{
    for (unsigned i = 0; i < n; i++)
        CHECK(acltdtEnqueue(b->back, take_buffer(b->there, poll), poll ? 0 : -1));
}

static void take_buffers(uint32_t qid, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        CHECK(acltdtFreeBuf(take_buffer(qid, false)));
}

static void take_bytes(uint32_t qid, unsigned n, void *data, size_t size)
{
    size_t got = 0;

    for (unsigned i = 0; i < n; i++) {
        CHECK(acltdtDequeueData(qid, data, size, &got, NULL, 0, -1));
        if (got != size)
            die("%zu bytes instead of %zu", got, size);
    }
}

static void write_all(int fd, const char *data, size_t size)
{
    for (ssize_t n; size > 0; data += n, size -= (size_t)n)
        if ((n = write(fd, data, size)) <= 0)
            die("write: %m");
}

static void read_all(int fd, char *data, size_t size)
{
    for (ssize_t n; size > 0; data += n, size -= (size_t)n)
        if ((n = read(fd, data, size)) <= 0)
            die("read: %m");
}

static uint32_t queue_for(const struct board *b, size_t size)
{
    return size < BIGGEST ? b->there : b->shallow;
}

static void do_job(struct board *b, const struct seat_here *s, char *data)
{
    switch (s->job) {
    case JOB_ANSWER_POLLING:
        answer_messages(b, s->n, true);
        break;
    case JOB_ANSWER_ASLEEP:
        answer_messages(b, s->n, false);
        break;
    case JOB_TAKE_BUFFERS:
        take_buffers(queue_for(b, s->size), s->n);
        break;
    case JOB_TAKE_BYTES:
        take_bytes(queue_for(b, s->size), s->n, data, s->size);
        break;
    case JOB_WRITE:
        for (unsigned i = 0; i < s->n; i++)
            write_all(s->fd[1], data, s->size);
        break;
    case JOB_READ:
        for (unsigned i = 0; i < s->n; i++)
            read_all(s->fd[0], data, s->size);
        break;
    case JOB_OVER:
        break;
    }
}

static void client_begin(struct board *b)
{
    uint32_t rights;

    sleep_until(&b->ready, 1);
    CHECK(aclInit(NULL));
    CHECK(acltdtAttachQueue(b->there, -1, &rights));
    CHECK(acltdtAttachQueue(b->shallow, -1, &rights));
    CHECK(acltdtAttachQueue(b->back, -1, &rights));
    tell(&b->attached, 1);
}

struct worker {
    struct board *board;
    int who;
};

static int do_jobs(void *arg)
{
    const struct worker worker = *(const struct worker *)arg;
    struct board *b = worker.board;
    struct seat_here *s = &b->seat[worker.who];
    char *data = malloc(BIGGEST);
    int cpu = -1;

    if (!data)
        die("out of memory");
    memset(data, worker.who, BIGGEST);
    if (worker.who == CLIENT)
        client_begin(b);
    for (uint32_t n = 1;; n++) {
        uint64_t sleeps;

        sleep_until(&s->command, n);
        if (s->job == JOB_OVER)
            return 0;
        if (s->cpu != cpu)
            pin(cpu = s->cpu);
        sleeps = sleeps_so_far();
        do_job(b, s, data);
        s->sleeps = sleeps_so_far() - sleeps;
        tell(&s->finished, n);
    }
}

/* --- giving jobs --- */

static void job_give(struct board *b, int who, enum job job, unsigned n, size_t size)
{
    struct seat_here *s = &b->seat[who];

    s->job = job;
    s->n = n;
    s->size = size;
    atomic_fetch_add_explicit(&s->command, 1, memory_order_release);
    futex_wake(&s->command);
}

static void job_wait(struct board *b, int who)
{
    struct seat_here *s = &b->seat[who];

    sleep_until(&s->finished, atomic_load_explicit(&s->command, memory_order_relaxed));
}

static struct board *board_new(void)
{
    struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (b == MAP_FAILED)
        die("mmap: %m");
    for (int i = 0; i < WORKERS; i++) {
        b->seat[i].cpu = -1;
        b->pid[i] = 0;
    }
    return b;
}

static void worker_start(struct board *b, int who)
{
    b->pid[who] = start_process(do_jobs, &(struct worker){b, who});
}

static uint32_t queue_new(uint32_t depth, pid_t pid, uint32_t rights)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t qid = 0;

    CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    CHECK(acltdtCreateQueue(attr, &qid));
    CHECK(acltdtDestroyQueueAttr(attr));
    CHECK(acltdtGrantQueue(qid, pid, rights, 0));
    return qid;
}

static void queues_new(struct board *b)
{
    CHECK(aclInit(NULL));
    b->there = queue_new(1024, b->pid[CLIENT], ACL_TDT_QUEUE_PERMISSION_DEQUEUE);
    b->shallow = queue_new(4, b->pid[CLIENT], ACL_TDT_QUEUE_PERMISSION_DEQUEUE);
    b->back = queue_new(8, b->pid[CLIENT], ACL_TDT_QUEUE_PERMISSION_ENQUEUE);
    tell(&b->ready, 1);
    sleep_until(&b->attached, 1);
}

static void board_end(struct board *b)
{
    for (int who = 0; who < WORKERS; who++) {
        if (b->pid[who] == 0)
            continue;
        job_give(b, who, JOB_OVER, 0, 0);
        expect_success("worker", process_end(b->pid[who]));
    }
    CHECK(acltdtDestroyQueue(b->there));
    CHECK(acltdtDestroyQueue(b->shallow));
    CHECK(acltdtDestroyQueue(b->back));
    CHECK(aclFinalize());
    munmap(b, sizeof(*b));
}

/* --- 7 and 8 --- */

struct trip {
    struct board *board;
    struct pair pair;
    acltdtBuf buf;
    uint64_t sleeps[2], raw_sleeps[2], rounds, raw_rounds;
};

static void lead_trips(struct trip *t, unsigned n, bool poll)
{
    for (unsigned i = 0; i < n; i++) {
        CHECK(acltdtEnqueue(t->board->there, t->buf, poll ? 0 : -1));
        t->buf = take_buffer(t->board->back, poll);
    }
}

static double trip_side(struct trip *t, unsigned n, bool poll)
{
    uint64_t sleeps = sleeps_so_far(), start;

    job_give(t->board, CLIENT, poll ? JOB_ANSWER_POLLING : JOB_ANSWER_ASLEEP, WARM_UP + n, 0);
    lead_trips(t, WARM_UP, poll);
    start = now_ns();
    lead_trips(t, n, poll);
    start = now_ns() - start;
    t->sleeps[0] += sleeps_so_far() - sleeps;
    job_wait(t->board, CLIENT);
    t->sleeps[1] += t->board->seat[CLIENT].sleeps;
    t->rounds += WARM_UP + n;
    return (double)start / n;
}

static double polling_side(void *arg, unsigned n)
{
    return trip_side(arg, n, true);
}

static double asleep_side(void *arg, unsigned n)
{
    return trip_side(arg, n, false);
}

static double raw_side(struct trip *t, enum game game, unsigned n)
{
    double ns = pair_play(&t->pair, game, WARM_UP, n);

    t->raw_sleeps[0] += t->pair.first.seat->sleeps;
    t->raw_sleeps[1] += t->pair.second.seat->sleeps;
    t->raw_rounds += WARM_UP + n;
    return ns;
}

static double spin_side(void *arg, unsigned n)
{
    return raw_side(arg, GAME_SPIN, n);
}

static double futex_side(void *arg, unsigned n)
{
    return raw_side(arg, GAME_FUTEX, n);
}

static void run_contest(struct trip *t, const struct row *row, side_fn value, side_fn baseline,
                        unsigned n, unsigned rounds)
{
    struct contest c = {
        .value = value,
        .baseline = baseline,
        .arg = t,
        .n_value = n,
        .n_baseline = n,
        .rounds = count_of(rounds, 5),
    };
    struct result r;

    memset(t->sleeps, 0, sizeof(t->sleeps));
    memset(t->raw_sleeps, 0, sizeof(t->raw_sleeps));
    t->rounds = t->raw_rounds = 0;
    r = contest_run(row, &c);
    snprintf(r.note, sizeof(r.note), "sleeps per round trip: %.2f + %.2f, raw %.2f + %.2f",
             (double)t->sleeps[0] / (double)t->rounds, (double)t->sleeps[1] / (double)t->rounds,
             (double)t->raw_sleeps[0] / (double)t->raw_rounds,
             (double)t->raw_sleeps[1] / (double)t->raw_rounds);
    result_emit(&r);
}

static void place_pair(struct trip *t, int first, int second)
{
    pin(first);
    t->pair.first.seat->cpu = first;
    t->pair.second.seat->cpu = t->board->seat[CLIENT].cpu = second;
}

static void trip_begin(struct trip *t)
{
    memset(t, 0, sizeof(*t));
    t->board = board_new();
    worker_start(t->board, CLIENT);
    pair_start(&t->pair);
    queues_new(t->board);
    CHECK(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &t->buf));
}

static void trip_end(struct trip *t)
{
    CHECK(acltdtFreeBuf(t->buf));
    board_end(t->board);
    pair_stop(&t->pair);
}

void rows_queue_polling(void)
{
    static const struct row rows[] = {
        {"7", "queue round trip of one buffer, both polling; vs two processes spinning",
         BUDGET_NONE},
        {"7-apart", "the same, one pinned to CPU 0, the other to CPU 1", BUDGET_NONE},
    };
    struct trip t;

    trip_begin(&t);
    run_contest(&t, &rows[0], polling_side, spin_side, 1000, 500);
    if (cpu_count() > 1) {
        place_pair(&t, 0, 1);
        run_contest(&t, &rows[1], polling_side, spin_side, 1000, 500);
        place_pair(&t, -1, -1);
    }
    trip_end(&t);
}

void rows_queue_asleep(void)
{
    static const struct row rows[] = {
        {"8", "the same, both asleep in acltdtDequeue; vs two processes on futexes", BUDGET_NONE},
        {"8-apart", "the same, one pinned to CPU 0, the other to CPU 1", BUDGET_NONE},
    };
    struct trip t;

    trip_begin(&t);
    run_contest(&t, &rows[0], asleep_side, futex_side, 200, 300);
    if (cpu_count() > 1) {
        place_pair(&t, 0, 1);
        run_contest(&t, &rows[1], asleep_side, futex_side, 200, 300);
        place_pair(&t, -1, -1);
    }
    trip_end(&t);
}

/* --- 15 --- */

struct rate {
    struct board *board;
    int pipe[2], socket[2];
    size_t size;
    char *from, *to;
};

static double bytes_side(void *arg, unsigned n)
{
    struct rate *r = arg;
    uint32_t qid = queue_for(r->board, r->size);
    uint64_t start = now_ns();

    job_give(r->board, CLIENT, JOB_TAKE_BYTES, n, r->size);
    for (unsigned i = 0; i < n; i++)
        CHECK(acltdtEnqueueData(qid, r->from, r->size, NULL, 0, -1, 0));
    job_wait(r->board, CLIENT);
    return (double)(now_ns() - start) / n;
}

static double buffers_side(void *arg, unsigned n)
{
    struct rate *r = arg;
    uint32_t qid = queue_for(r->board, r->size);
    uint64_t start = now_ns();

    job_give(r->board, CLIENT, JOB_TAKE_BUFFERS, n, r->size);
    for (unsigned i = 0; i < n; i++) {
        acltdtBuf buf = NULL;

        CHECK(acltdtAllocBuf(r->size, ACL_TDT_NORMAL_MEM, &buf));
        CHECK(acltdtSetBufDataLen(buf, r->size));
        CHECK(acltdtEnqueue(qid, buf, -1));
    }
    job_wait(r->board, CLIENT);
    return (double)(now_ns() - start) / n;
}

static double time_transfer(struct rate *r, const int fd[2], unsigned n)
{
    uint64_t start = now_ns();

    memcpy(r->board->seat[WRITER].fd, fd, 2 * sizeof(int));
    memcpy(r->board->seat[READER].fd, fd, 2 * sizeof(int));
    job_give(r->board, READER, JOB_READ, n, r->size);
    job_give(r->board, WRITER, JOB_WRITE, n, r->size);
    job_wait(r->board, WRITER);
    job_wait(r->board, READER);
    return (double)(now_ns() - start) / n;
}

static double pipe_side(void *arg, unsigned n)
{
    struct rate *r = arg;

    return time_transfer(r, r->pipe, n);
}

static double socket_side(void *arg, unsigned n)
{
    struct rate *r = arg;

    return time_transfer(r, r->socket, n);
}

static double memcpy_side(void *arg, unsigned n)
{
    struct rate *r = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        memcpy(r->to, r->from, r->size);
        __asm__ volatile("" : : "r"(r->to) : "memory");
    }
    return (double)(now_ns() - start) / n;
}

static void rate_text(char *text, size_t size, double ns, size_t bytes)
{
    snprintf(text, size, "%.3g M/s %.3g GB/s", 1e3 / ns, (double)bytes / ns);
}

static void rate_row(struct rate *r, const char *name, const char *what, side_fn value,
                     side_fn baseline, unsigned n)
{
    char mine[40], theirs[40];
    struct row row = {.name = name, .what = what, .budget = BUDGET_NONE};
    struct contest c = {
        .value = value,
        .baseline = baseline,
        .arg = r,
        .n_value = n,
        .n_baseline = n,
        .rounds = count_of(40, 3),
    };
    struct result result = contest_run(&row, &c);

    rate_text(mine, sizeof(mine), result.value_ns, r->size);
    rate_text(theirs, sizeof(theirs), result.baseline_ns, r->size);
    snprintf(result.note, sizeof(result.note), "%s, other %s", mine, theirs);
    result_emit(&result);
}

static void run_rates(struct rate *r, const char *size_name, size_t size, unsigned n)
{
    static const struct {
        const char *suffix, *what;
        side_fn value, baseline;
    } rows[] = {
        {"pipe", "%s messages by bytes, process to process; vs a pipe", bytes_side, pipe_side},
        {"sock", "%s messages by bytes; vs a Unix stream socket", bytes_side, socket_side},
        {"copy", "%s messages by bytes; vs one memcpy in one process", bytes_side, memcpy_side},
        {"own", "%s messages by buffer, nothing copied; vs one memcpy", buffers_side, memcpy_side},
    };

    r->size = size;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[16], what[96];

        snprintf(name, sizeof(name), "15-%s-%s", size_name, rows[i].suffix);
        snprintf(what, sizeof(what), rows[i].what, size_name);
        rate_row(r, name, what, rows[i].value, rows[i].baseline, count_of(n, n / 10 + 1));
    }
}

static char *memory_new(int fill)
{
    char *p = malloc(BIGGEST);

    if (!p)
        die("out of memory");
    memset(p, fill, BIGGEST);
    return p;
}

void rows_queue_rate(void)
{
    struct rate r = {.board = board_new(), .from = memory_new(1), .to = memory_new(2)};

    /* A pipe as large as one may have. */
    if (pipe(r.pipe) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, r.socket) < 0)
        die("pipe: %m");
    fcntl(r.pipe[1], F_SETPIPE_SZ, 1 << 20);
    for (int who = 0; who < WORKERS; who++)
        worker_start(r.board, who);
    queues_new(r.board);
    run_rates(&r, "64B", 64, 20000);
    run_rates(&r, "4K", 4096, 5000);
    run_rates(&r, "4M", BIGGEST, 10);
    board_end(r.board);
    free(r.from);
    free(r.to);
}
