#include "tests/common/crowd.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "tests/common/process.h"

#define GUARD_S 300 /* against hanging only */

#define SHARED_STREAMS 3u /* below this, streams have parts of their own in a lap */

/* What all processes see. */
struct board {
    _Atomic uint32_t command; /* futex: counts the steps */
    uint32_t step;            /* enum crowd_step of the latest */
    uint32_t lap;
    _Atomic uint32_t done; /* futex: members that have done it; n at the end of each */
    _Atomic bool failed;
    char message[256];
    uint32_t n;
    struct place {
        aclrtIpcEventHandle handle[CROWD_OWN];
        uint64_t time; /* when its record was executed */
    } place[];
};

struct crowd {
    struct board *board;
    size_t board_size;
    uint32_t steps;
    bool killed;
    pid_t pid[];
};

/* One member. */
struct member {
    struct board *board;
    unsigned number;
    int32_t device;
    aclrtStream stream[CROWD_STREAMS];
    aclrtEvent gate, stamp, plain[CROWD_PLAIN - 2];
    aclrtEvent mine[CROWD_OWN], theirs[CROWD_THEIRS];
    uint32_t *memory; /* on the device: two words, the first of which is copied to the second */
};

static void sleep_while(_Atomic uint32_t *word, uint32_t value, unsigned seconds)
{
    struct timespec until = timespec_from_ns(clock_ns() + seconds * NSEC_PER_SEC);

    futex_wait_until(word, value, &until);
}

/* --- members --- */

static void report_fault(struct board *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void report_fault(struct board *b, const char *fmt, ...)
{
    static _Atomic bool first = true;
    va_list ap;

    /* One of this process; of several processes that write at the same moment any may win. */
    if (!atomic_exchange(&first, false) || atomic_load(&b->failed))
        return;
    va_start(ap, fmt);
    vsnprintf(b->message, sizeof(b->message), fmt, ap);
    va_end(ap);
    atomic_store(&b->failed, true);
}

#define TRY(m, call)                                                                               \
    do {                                                                                           \
        aclError r_ = (call);                                                                      \
        if (r_ != ACL_SUCCESS) {                                                                   \
            report_fault((m)->board, "member %u: %s: %d: %s", (m)->number, #call, r_,              \
                         aclGetRecentErrMsg());                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#define EXPECT(m, condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            report_fault((m)->board, "member %u: not so: %s", (m)->number, #condition);            \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static void connect_member(struct member *m)
{
    TRY(m, aclInit(NULL));
    m->device = (int32_t)(m->number % 2);
    TRY(m, aclrtSetDevice(m->device));
}

static void create_objects(struct member *m)
{
    for (unsigned i = 1; i < CROWD_STREAMS; i++)
        TRY(m, aclrtCreateStream(&m->stream[i]));
    TRY(m, aclrtCreateEventWithFlag(&m->gate, ACL_EVENT_SYNC));
    TRY(m, aclrtCreateEventWithFlag(&m->stamp, ACL_EVENT_TIME_LINE));
    for (unsigned i = 0; i < CROWD_PLAIN - 2; i++)
        TRY(m, aclrtCreateEvent(&m->plain[i]));
    for (unsigned i = 0; i < CROWD_OWN; i++) {
        TRY(m, aclrtCreateEventExWithFlag(&m->mine[i], ACL_EVENT_IPC));
        TRY(m, aclrtIpcGetEventHandle(m->mine[i], &m->board->place[m->number].handle[i]));
    }
}

static void open_events(struct member *m)
{
    unsigned before = (m->number + m->board->n - 1) % m->board->n;

    for (unsigned i = 0; i < CROWD_THEIRS; i++)
        TRY(m, aclrtIpcOpenEventHandle(m->board->place[before].handle[i], &m->theirs[i]));
}

static void arm_gate(struct member *m)
{
    aclrtStream s = m->stream[1];
    uint32_t words[2] = {m->number + m->board->lap, UINT32_MAX};
    void *memory;

    TRY(m, aclrtMalloc(&memory, sizeof(words), ACL_MEM_MALLOC_NORMAL_ONLY));
    m->memory = memory;
    TRY(m, aclrtMemcpy(memory, sizeof(words), words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE));
    TRY(m, aclrtStreamWaitEvent(s, m->gate));
    TRY(m, aclrtResetEvent(m->gate, s));
    TRY(m, aclrtMemcpyAsync(&m->memory[1], sizeof(words[1]), &m->memory[0], sizeof(words[0]),
                            ACL_MEMCPY_DEVICE_TO_DEVICE, s));
    TRY(m, aclrtRecordEvent(m->stamp, s));
    TRY(m, aclrtRecordEvent(m->mine[m->board->lap % CROWD_OWN], s));
}

static void link_to_neighbour(struct member *m)
{
    aclrtEventRecordedStatus status;
    aclrtEvent before = m->theirs[m->board->lap % CROWD_THEIRS];
    uint32_t copied;

    if (m->number > 0) {
        TRY(m, aclrtStreamWaitEvent(m->stream[2], before));
        TRY(m, aclrtRecordEvent(m->gate, m->stream[2]));
    }
    TRY(m, aclrtQueryEventStatus(before, &status));
    EXPECT(m, status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    TRY(m, aclrtMemcpy(&copied, sizeof(copied), &m->memory[1], sizeof(copied),
                       ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(m, copied == UINT32_MAX);
}

/* Every plain event is recorded on one stream and waited for by the next. */
static void chain_events(struct member *m)
{
    unsigned n = CROWD_STREAMS - SHARED_STREAMS;

    for (unsigned i = 0; i < CROWD_PLAIN - 2; i++) {
        TRY(m, aclrtRecordEvent(m->plain[i], m->stream[SHARED_STREAMS + i % n]));
        TRY(m, aclrtStreamWaitEvent(m->stream[SHARED_STREAMS + (i + 1) % n], m->plain[i]));
    }
}

static void run_round(struct member *m)
{
    aclrtEventRecordedStatus status;
    uint32_t copied;

    if (m->number == 0)
        TRY(m, aclrtRecordEvent(m->gate, m->stream[2]));
    chain_events(m);
    TRY(m, aclrtSynchronizeEvent(m->theirs[m->board->lap % CROWD_THEIRS]));
    TRY(m, aclrtSynchronizeDevice());
    TRY(m, aclrtMemcpy(&copied, sizeof(copied), &m->memory[1], sizeof(copied),
                       ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(m, copied == m->number + m->board->lap);
    for (unsigned i = 0; i < CROWD_PLAIN - 2; i++) {
        TRY(m, aclrtQueryEventStatus(m->plain[i], &status));
        EXPECT(m, status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    }
    TRY(m, aclrtQueryEventStatus(m->mine[m->board->lap % CROWD_OWN], &status));
    EXPECT(m, status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    TRY(m, aclrtEventGetTimestamp(m->stamp, &m->board->place[m->number].time));
    TRY(m, aclrtFree(m->memory));
}

static void release_objects(struct member *m)
{
    if (m->number % 2 == 0) {
        for (unsigned i = 1; i < CROWD_STREAMS; i++)
            TRY(m, aclrtDestroyStream(m->stream[i]));
        TRY(m, aclrtDestroyEvent(m->gate));
        TRY(m, aclrtDestroyEvent(m->stamp));
        for (unsigned i = 0; i < CROWD_PLAIN - 2; i++)
            TRY(m, aclrtDestroyEvent(m->plain[i]));
        for (unsigned i = 0; i < CROWD_OWN; i++) {
            TRY(m, aclrtDestroyEvent(m->theirs[i]));
            TRY(m, aclrtDestroyEvent(m->mine[i]));
        }
        TRY(m, aclrtResetDevice(m->device));
    }
    TRY(m, aclFinalize());
}

static void (*const steps[])(struct member *m) = {
    [CROWD_CONNECT] = connect_member, [CROWD_CREATE] = create_objects,  [CROWD_OPEN] = open_events,
    [CROWD_ARM] = arm_gate,           [CROWD_LINK] = link_to_neighbour, [CROWD_RUN] = run_round,
    [CROWD_LEAVE] = release_objects,
};

static int serve_commands(void *arg)
{
    struct member m = *(const struct member *)arg;
    struct board *b = m.board;

    for (uint32_t n = 1;; n++) {
        enum crowd_step step;

        while (atomic_load(&b->command) < n)
            sleep_while(&b->command, n - 1, GUARD_S);
        step = (enum crowd_step)b->step;
        steps[step](&m);
        if (atomic_fetch_add(&b->done, 1) + 1 == b->n * n || atomic_load(&b->failed))
            futex_wake_all(&b->done);
        if (step == CROWD_LEAVE)
            return atomic_load(&b->failed);
    }
}

/* --- the crowd --- */

struct crowd *crowd_start(unsigned n)
{
    struct crowd *c = calloc(1, sizeof(*c) + n * sizeof(c->pid[0]));

    if (!c)
        return NULL;
    c->board_size = sizeof(*c->board) + n * sizeof(c->board->place[0]);
    c->board = mmap(NULL, c->board_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->board == MAP_FAILED) {
        free(c);
        return NULL;
    }
    c->board->n = n;
    for (unsigned i = 0; i < n; i++) {
        struct member member = {.board = c->board, .number = i};

        c->pid[i] = process_start(serve_commands, &member);
        if (c->pid[i] < 0) {
            crowd_kill(c);
            crowd_end(c);
            return NULL;
        }
    }
    return c;
}

const char *crowd_step(struct crowd *c, enum crowd_step step)
{
    struct board *b = c->board;
    uint32_t all = ++c->steps * b->n;
    time_t give_up = time(NULL) + GUARD_S;
    uint32_t done;

    b->step = step;
    atomic_store(&b->command, c->steps);
    futex_wake_all(&b->command);
    while ((done = atomic_load(&b->done)) != all && !atomic_load(&b->failed)) {
        if (time(NULL) >= give_up) {
            snprintf(b->message, sizeof(b->message), "step %d hangs: %u members have not done it",
                     step, all - done);
            atomic_store(&b->failed, true);
        }
        sleep_while(&b->done, done, 1);
    }
    return atomic_load(&b->failed) ? b->message : NULL;
}

const char *crowd_assemble(struct crowd *c)
{
    const char *wrong = NULL;

    for (enum crowd_step s = CROWD_CONNECT; s <= CROWD_OPEN && !wrong; s++)
        wrong = crowd_step(c, s);
    return wrong;
}

const char *crowd_lap(struct crowd *c)
{
    struct board *b = c->board;
    const char *wrong = NULL;

    b->lap++;
    for (enum crowd_step s = CROWD_ARM; s <= CROWD_RUN && !wrong; s++)
        wrong = crowd_step(c, s);
    for (uint32_t i = 1; i < b->n && !wrong; i++)
        if (b->place[i].time < b->place[i - 1].time) {
            snprintf(b->message, sizeof(b->message), "member %u went before the one before it", i);
            wrong = b->message;
        }
    return wrong;
}

void crowd_kill(struct crowd *c)
{
    c->killed = true;
    for (uint32_t i = 0; i < c->board->n; i++)
        if (c->pid[i] > 0)
            kill(c->pid[i], SIGKILL);
}

const char *crowd_end(struct crowd *c)
{
    const char *wrong = NULL;

    for (uint32_t i = 0; i < c->board->n; i++) {
        if (c->pid[i] > 0 && process_end(c->pid[i]) != 0 && !c->killed)
            wrong = "a member of the crowd died";
    }
    munmap(c->board, c->board_size);
    free(c);
    return wrong;
}
