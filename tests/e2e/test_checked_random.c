/*
 * Random programs of one to three processes, as the model of npu-check has them
 * (tests/unit/check_program.h), and run here by the library and npud: what npu-check finds in what
 * the processes have written must be the races of the reference. So a call that writes no record, a
 * wrong one, or one at the wrong time is seen.
 *
 * CHECK_SEED: the first seed; CHECK_COUNT: how many programs. Under chaos they are run by servers
 * that are killed meanwhile, which changes nothing.
 *
 * Skipped under TSan: the calls are those of tests/model, which it sees.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "client/tools/npu-check/checker.h"
#include "tests/common/checked.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/unit/check_program.h"

#define OBJECTS   3u
#define MEMORIES  3u
#define PROCESSES 3u
#define BLOCK     8u
#define BYTES     4096u
#define KEY       65u

/* --- a program that can be run: what the driver cannot do in the steps' order is left out --- */

static bool is_left_out(const struct step *s)
{
    switch (s->kind) {
    case STEP_LEVEL_RECORD:
    case STEP_LEVEL_WAIT:
    case STEP_COUNT_RECORD: /* these are of one process */
    case STEP_COUNT_WAIT:
    case STEP_CALLBACK:
    case STEP_BEGIN:
    case STEP_END:
    case STEP_FREE: /* a task that comes after it would fail, and its stream would stop */
        return true;
    default:
        return false;
    }
}

static bool is_of_stream(const struct step *s, int8_t stream)
{
    return !s->gone && s->stream == stream && s->kind != STEP_SYNC && s->kind != STEP_DESTROY;
}

/* What waits for what, and nothing else: of those steps that are before `end`. */
static bool is_over_before(const struct program *p, uint32_t end, int8_t stream)
{
    bool over[PROGRAM_STEPS] = {false}, more = true;

    while (more) {
        bool stopped[PROGRAM_STREAMS] = {false};

        more = false;
        for (uint32_t i = 0; i < end; i++) {
            const struct step *s = &p->step[i];
            bool free =
                s->kind != STEP_WAIT && s->kind != STEP_NOTIFY_WAIT && s->kind != STEP_VALUE_WAIT;

            if (s->stream < 0 || !is_of_stream(s, s->stream) || over[i] || stopped[s->stream])
                continue;
            for (uint32_t j = 0; j < end && !free; j++)
                free = over[j] && p->step[j].object == s->object && p->step[j].round == s->round &&
                       p->step[j].kind + 1 == s->kind;
            over[i] = free;
            more |= free;
            stopped[s->stream] = !free;
        }
    }
    for (uint32_t i = 0; i < end; i++)
        if (is_of_stream(&p->step[i], stream) && !over[i])
            return false;
    return true;
}

/* A wait of a round may go on by a record of the next, if the driver did not wait in between. */
static bool mixes_rounds(const struct program *p)
{
    bool known[PROGRAM_STEPS] = {false};

    for (uint32_t i = 0; i < p->n; i++) {
        const struct step *s = &p->step[i];

        if (s->gone)
            continue;
        if (s->kind == STEP_SYNC || s->kind == STEP_DESTROY)
            for (uint32_t j = 0; j < i; j++)
                known[j] |= p->step[j].stream == s->stream;
        if (s->kind < STEP_NOTIFY_RECORD || s->kind > STEP_VALUE_WAIT)
            continue;
        for (uint32_t j = 0; j < i; j++) {
            const struct step *t = &p->step[j];
            bool same = t->kind == s->kind || t->kind + 1 == s->kind || s->kind + 1 == t->kind;

            if (!t->gone && same && t->object == s->object && t->round != s->round && !known[j])
                return true;
        }
    }
    return false;
}

/* False: another program must be taken. */
static bool adapt(struct program *p)
{
    static struct bits before[PROGRAM_STEPS];

    for (uint32_t i = 0; i < p->n; i++) {
        struct step *s = &p->step[i];

        if (s->kind == STEP_VALUE_SET)
            s->kind = STEP_VALUE_WRITE;
        s->gone = is_left_out(s);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct step *s = &p->step[i];

        /* The library waits for all that the stream was given. */
        if (s->kind == STEP_SYNC) {
            s->gone = !is_over_before(p, i, s->stream);
            s->since = i;
        }
    }
    return program_close(p, before) && !mixes_rounds(p);
}

/* --- a process of it --- */

struct keys {
    char memory[MEMORIES + 1][KEY], notify[OBJECTS][KEY];
    aclrtIpcEventHandle event[OBJECTS];
};

static struct {
    const struct program *p;
    struct keys *keys; /* shared by all */
    uint8_t me;
    void *memory[MEMORIES + 1]; /* the last: words */
    void *scratch[PROGRAM_STREAMS];
    aclrtStream stream[PROGRAM_STREAMS];
    aclrtEvent event[2 * OBJECTS];
    aclrtNotify notify[OBJECTS];
} my;

static void make_stream(uint32_t i)
{
    if (my.p->process[i] != my.me)
        return;
    OK(aclrtCreateStream(&my.stream[i]));
    OK(aclrtMalloc(&my.scratch[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void make_shared(void)
{
    for (unsigned i = 0; i <= MEMORIES; i++) {
        OK(aclrtMalloc(&my.memory[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemset(my.memory[i], BYTES, 0, BYTES));
        OK(aclrtIpcMemGetExportKey(my.memory[i], BYTES, my.keys->memory[i], KEY,
                                   ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        OK(aclrtCreateEventExWithFlag(&my.event[OBJECTS + i], ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(my.event[OBJECTS + i], &my.keys->event[i]));
        OK(aclrtCreateNotify(&my.notify[i], 0));
        OK(aclrtNotifyGetExportKey(my.notify[i], my.keys->notify[i], KEY,
                                   ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    }
}

static void import_shared(void)
{
    for (unsigned i = 0; i <= MEMORIES; i++)
        OK(aclrtIpcMemImportByKey(&my.memory[i], my.keys->memory[i], 0));
    for (unsigned i = 0; i < OBJECTS; i++) {
        OK(aclrtIpcOpenEventHandle(my.keys->event[i], &my.event[OBJECTS + i]));
        OK(aclrtNotifyImportByKey(&my.notify[i], my.keys->notify[i], 0));
    }
}

static void begin_process(void)
{
    session_open();
    (my.me == 0 ? make_shared : import_shared)();
    OK(aclrtCreateEventExWithFlag(&my.event[my.me], ACL_EVENT_SYNC));
    for (uint32_t i = 0; i < my.p->streams; i++)
        make_stream(i);
}

static void do_access(const struct step *s)
{
    char *at = (char *)my.memory[s->memory] + s->first * BLOCK, here[PROGRAM_BLOCKS * BLOCK];
    size_t size = (s->last - s->first + 1u) * BLOCK;

    if (s->stream < 0 && s->writes)
        OK(aclrtMemset(at, size, 1, size));
    else if (s->stream < 0)
        OK(aclrtMemcpy(here, size, at, size, ACL_MEMCPY_DEVICE_TO_HOST));
    else if (s->writes)
        OK(aclrtMemsetAsync(at, size, 1, size, my.stream[s->stream]));
    else
        OK(aclrtMemcpyAsync(my.scratch[s->stream], size, at, size, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            my.stream[s->stream]));
}

static void do_step(uint32_t i)
{
    const struct step *s = &my.p->step[i];
    aclrtStream stream = s->stream < 0 ? NULL : my.stream[s->stream];
    uint64_t *word = (uint64_t *)my.memory[MEMORIES] + s->object;

    OK(aclnpudCheckCaller("step", "", i) ? 0 : 1);
    switch (s->kind) {
    case STEP_ACCESS:
        do_access(s);
        break;
    case STEP_RECORD:
        OK(aclrtRecordEvent(my.event[s->object], stream));
        break;
    case STEP_WAIT:
        OK(aclrtStreamWaitEvent(stream, my.event[s->object]));
        break;
    case STEP_NOTIFY_RECORD:
        OK(aclrtRecordNotify(my.notify[s->object], stream));
        break;
    case STEP_NOTIFY_WAIT:
        OK(aclrtWaitAndResetNotify(my.notify[s->object], stream, 0));
        break;
    case STEP_VALUE_WRITE:
        OK(aclrtValueWrite(word, s->round, 0, stream));
        break;
    case STEP_VALUE_WAIT:
        OK(aclrtValueWait(word, s->round, ACL_STREAM_WAIT_VALUE_GEQ, stream));
        break;
    case STEP_SYNC:
        OK(aclrtSynchronizeStream(stream));
        break;
    case STEP_SYNC_EVENT:
        OK(aclrtSynchronizeEvent(my.event[s->object]));
        break;
    case STEP_DESTROY:
        OK(aclrtDestroyStream(stream));
        break;
    default:
        ck_abort_msg("step %s", step_name(s));
    }
    aclnpudCheckCaller(NULL, NULL, 0);
}

static int process_of(const struct program *p, const struct step *s)
{
    if (s->kind == STEP_SYNC_EVENT)
        return s->object < OBJECTS ? (int)(s->object % p->processes) : 0;
    return s->stream < 0 ? 0 : p->process[s->stream];
}

/* Does its steps when it is told to, and says when it is through; is killed at the end. */
static void __attribute__((noreturn))
run_process(const struct program *p, struct keys *keys, uint8_t me, int in, int out)
{
    uint32_t i = 0;

    my.p = p;
    my.keys = keys;
    my.me = me;
    while (read(in, &i, sizeof(i)) == sizeof(i)) {
        if (i == UINT32_MAX)
            begin_process();
        else
            do_step(i);
        if (write(out, &i, sizeof(i)) != sizeof(i))
            break;
    }
    _exit(0);
}

/* --- all of them --- */

struct child {
    pid_t pid;
    int to, from;
};

static void tell(const struct child *c, uint32_t i)
{
    uint32_t done;

    ck_assert_int_eq(write(c->to, &i, sizeof(i)), sizeof(i));
    ck_assert_msg(read(c->from, &done, sizeof(done)) == sizeof(done), "step %u failed", i);
}

static void start_child(struct child *c, const struct program *p, struct keys *keys, uint8_t me)
{
    int to[2], from[2];

    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
    c->pid = fork();
    if (c->pid == 0) {
        close(to[1]);
        close(from[0]);
        run_process(p, keys, me, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    c->to = to[1];
    c->from = from[0];
    tell(c, UINT32_MAX);
}

static void run_program(const struct program *p)
{
    struct keys *keys =
        mmap(NULL, sizeof(*keys), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct child c[PROCESSES];

    ck_assert_ptr_ne(keys, MAP_FAILED);
    for (uint8_t i = 0; i < p->processes; i++)
        start_child(&c[i], p, keys, i);
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->step[i].gone)
            tell(&c[process_of(p, &p->step[i])], i);
    }
    for (uint8_t i = 0; i < p->processes; i++) {
        kill(c[i].pid, SIGKILL);
        waitpid(c[i].pid, NULL, 0);
        close(c[i].to);
        close(c[i].from);
    }
    munmap(keys, sizeof(*keys));
}

/* --- judgement --- */

struct trial {
    const struct program *p;
    struct bits before[PROGRAM_STEPS];
    struct world world;
    struct findings found;
};

/* -1: none of the program's; the processes' own memory is given back by nobody. */
static int find_step(const struct trial *t, const struct act *a)
{
    const struct world_place *place;

    if (a->place == WORLD_NONE)
        return -1;
    place = &t->world.places[a->place];
    return place->source_file ? (int)place->source_line : -1;
}

static bool conflict_at(const struct trial *t, uint32_t a, uint32_t b, unsigned memory,
                        unsigned block)
{
    return steps_conflict(t->p, a, b, memory, block) && !bit_is_set(&t->before[a], b) &&
           !bit_is_set(&t->before[b], a);
}

/* Blocks where two steps race; of one memory, or of all. */
static bool is_race(const struct trial *t, uint32_t a, uint32_t b)
{
    for (unsigned m = 0; m < MEMORIES; m++)
        for (unsigned block = 0; block < PROGRAM_BLOCKS; block++)
            if (conflict_at(t, a, b, m, block))
                return true;
    return false;
}

static bool is_told(const struct trial *t, unsigned memory, unsigned block)
{
    for (size_t i = 0; i < t->found.n; i++) {
        int a = find_step(t, &t->found.list[i].first), b = find_step(t, &t->found.list[i].second);

        if (a >= 0 && b >= 0 && steps_conflict(t->p, (uint32_t)a, (uint32_t)b, memory, block))
            return true;
    }
    return false;
}

static bool are_races(const struct trial *t)
{
    for (size_t i = 0; i < t->found.n; i++) {
        int a = find_step(t, &t->found.list[i].first), b = find_step(t, &t->found.list[i].second);

        if (a >= 0 && b >= 0 && is_race(t, (uint32_t)a, (uint32_t)b))
            continue;
        printf("steps %d and %d are told, and are no race\n", a, b);
        return false;
    }
    return true;
}

static bool are_told(const struct trial *t)
{
    for (uint32_t a = 0; a < t->p->n; a++)
        for (uint32_t b = 0; b < a; b++)
            for (unsigned i = 0; i < MEMORIES * PROGRAM_BLOCKS; i++)
                if (conflict_at(t, a, b, i / PROGRAM_BLOCKS, i % PROGRAM_BLOCKS) &&
                    !is_told(t, i / PROGRAM_BLOCKS, i % PROGRAM_BLOCKS)) {
                    printf("steps %u and %u are a race, and are not told\n", b, a);
                    return false;
                }
    return true;
}

static void print_program(const struct program *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct step *s = &p->step[i];

        if (!s->gone)
            printf("%3u stream %d of process %d: %s %u, round %u, memory %u %s %u to %u\n", i,
                   s->stream, process_of(p, s), step_name(s), s->object, s->round, s->memory,
                   s->writes ? "written" : "read", s->first, s->last);
    }
}

/* How many races npu-check has told. */
static size_t judge(const struct program *p, uint64_t seed)
{
    const struct checker_options options = {.kinds = 1u << FINDING_RACE};
    struct trial *t = calloc(1, sizeof(*t));
    const char *directory = checked_make_directory();
    size_t found;

    t->p = p;
    ck_assert(program_close(p, t->before));
    run_program(p);
    ck_assert(checker_run(directory, &options, &t->world, &t->found, NULL));
    found = t->found.n;
    if (!are_races(t) || !are_told(t)) {
        print_program(p);
        ck_abort_msg("CHECK_SEED=%lu CHECK_COUNT=1; %s", seed, directory);
    }
    findings_deinit(&t->found);
    world_deinit(&t->world);
    free(t);
    checked_remove_directory();
    return found;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value ? strtoull(value, NULL, 10) : otherwise;
}

START_TEST(findings_are_those_of_the_reference)
{
    uint64_t seed = number_from("CHECK_SEED", 1);
    uint64_t n = number_from("CHECK_COUNT", choose_effort(300, 20000));
    size_t racy = 0;

    for (uint64_t done = 0; done < n; seed++) {
        struct program p;

        program_make(&p, seed, seed % 2);
        if (!adapt(&p))
            continue;
        racy += judge(&p, seed) > 0;
        done++;
    }
    /* Left out steps make races of programs that had none, too. */
    ck_assert(n < 100 || (racy > n / 4 && racy < n));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checked random");
    TCase *tc = suite_case(suite, "random", choose_effort(120, 3000), npud_setup, npud_teardown);

    tcase_add_test(tc, findings_are_those_of_the_reference);
    return run_suite(suite);
}
