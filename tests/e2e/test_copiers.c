/*
 * Copiers (daemon/backend/copiers.h): large copies of several streams and processes go on at the
 * same time, in the order of each stream. What the streams do is done once more on bytes of the
 * process, and compared; meanwhile processes and npud are killed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/chance.h"
#include "tests/common/chaos.h"
#include "tests/common/child.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/nested.h"
#include "tests/e2e/device_bytes.h"
#include "tests/e2e/pattern.h"

#define SIZE    (((size_t)10 << 20) + 4099) /* some are larger than COPY_LARGE */
#define LEAST   ((size_t)300 << 10)         /* WORK_LENT, and more */
#define STREAMS 3
#define OPS     12 /* of a stream in a round */
#define ROUND   (STREAMS * OPS)

static const char *const copiers[] = {"--set=sim.copiers=2", NULL};

static void set_up_test(void)
{
    npud_start(copiers);
}

/* One of a pair of buffers on each side: what the device has, and what it should have. */
struct lane {
    aclrtStream stream;
    aclrtEvent done;
    unsigned char *device[2], *host[2];
};

static struct lane lanes[STREAMS];

/* Of two devices: engines share the copiers. */
static void open_lanes(unsigned seed)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice((int32_t)(seed / 10 % 2)));
    for (unsigned i = 0; i < STREAMS; i++) {
        struct lane *l = &lanes[i];

        OK(aclrtCreateStream(&l->stream));
        OK(aclrtCreateEvent(&l->done));
        for (unsigned k = 0; k < 2; k++) {
            void *p;

            OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
            l->device[k] = p;
            l->host[k] = malloc(SIZE);
            ck_assert_ptr_nonnull(l->host[k]);
            fill_pattern(l->host[k], SIZE, seed + i * 2 + k);
            device_put(l->device[k], l->host[k], SIZE);
        }
    }
}

/* Any two ranges of as many bytes; those of the next step overlap them. */
static void submit_op(struct lane *l, const struct lane *from, uint64_t *chance)
{
    size_t n = draw_below(chance, 4) == 0 ? SIZE : LEAST + draw_random(chance) % (SIZE - LEAST);
    size_t to = draw_random(chance) % (SIZE - n + 1), at = draw_random(chance) % (SIZE - n + 1);
    unsigned k = draw_below(chance, 2), value = draw_below(chance, 256);

    if (draw_chance(chance, 20)) {
        OK(aclrtMemsetAsync(l->device[k] + to, n, (int)value, n, l->stream));
        memset(l->host[k] + to, (int)value, n);
        return;
    }
    OK(aclrtMemcpyAsync(l->device[k] + to, n, from->device[!k] + at, n, ACL_MEMCPY_DEVICE_TO_DEVICE,
                        l->stream));
    memcpy(l->host[k] + to, from->host[!k] + at, n);
}

/*
 * Each stream copies within its own buffers; then each waits for the one before it, and takes bytes
 * from there; then that one waits for this.
 */
static void submit_round(uint64_t *chance)
{
    for (unsigned i = 0; i < ROUND; i++)
        submit_op(&lanes[i % STREAMS], &lanes[i % STREAMS], chance);
    for (unsigned i = 1; i < STREAMS; i++) {
        struct lane *l = &lanes[i], *from = &lanes[i - 1];

        OK(aclrtRecordEvent(from->done, from->stream));
        OK(aclrtStreamWaitEvent(l->stream, from->done));
        submit_op(l, from, chance);
        OK(aclrtRecordEvent(l->done, l->stream));
        OK(aclrtStreamWaitEvent(from->stream, l->done));
    }
}

static void expect_bytes(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        for (unsigned k = 0; k < 2; k++) {
            void *now = malloc(SIZE);

            ck_assert_ptr_nonnull(now);
            device_get(now, lanes[i].device[k], SIZE);
            ck_assert_msg(memcmp(now, lanes[i].host[k], SIZE) == 0, "stream %u, buffer %u", i, k);
            free(now);
        }
}

static void run_rounds(unsigned rounds, uint64_t seed)
{
    for (unsigned r = 0; r < rounds; r++) {
        submit_round(&seed);
        OK(aclrtSynchronizeDevice());
        expect_bytes();
    }
}

static int client(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    open_lanes(seed);
    run_rounds(choose_rounds(3, 40), seed);
    OK(aclrtResetDevice((int32_t)(seed / 10 % 2)));
    OK(aclFinalize());
    return 0;
}

/* It is killed with full streams: it never looks. */
static int victim(void *arg)
{
    open_lanes((unsigned)(uintptr_t)arg);
    turn_tell(&to_parent);
    for (unsigned i = 0;; i++) {
        const struct lane *l = &lanes[i % STREAMS];

        OK(aclrtMemcpyAsync(l->device[0], SIZE, l->device[1], SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            l->stream));
    }
}

/* Nanoseconds on a CPU of all copiers of the server. */
static uint64_t copiers_cpu_ns(void)
{
    uint64_t sum = 0;
    char path[320], name[32];
    struct dirent *entry;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)npud_serving_pid());
    tasks = opendir(path);
    ck_assert_ptr_nonnull(tasks);
    while ((entry = readdir(tasks))) {
        unsigned long long ns = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)npud_serving_pid(),
                 entry->d_name);
        f = fopen(path, "r");
        if (!f)
            continue;
        if (!fgets(name, sizeof(name), f) || strcmp(name, "copier\n") != 0)
            name[0] = '\0';
        fclose(f);
        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)npud_serving_pid(),
                 entry->d_name);
        f = name[0] ? fopen(path, "r") : NULL;
        if (f && fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return sum;
}

/* Else the tests of this file say nothing. */
static void expect_copiers_at_work(uint64_t before)
{
    if (!nested_is_on() && !chaos_is_on())
        ck_assert_uint_gt(copiers_cpu_ns(), before + 1000000);
}

START_TEST(streams_of_several_processes_keep_their_order)
{
    uint64_t before = copiers_cpu_ns();
    pid_t pid[3];

    for (uintptr_t i = 0; i < 3; i++)
        pid[i] = child_start(client, (void *)(100 + i * 10));
    for (unsigned i = 0; i < 3; i++)
        child_expect_ok(pid[i]);
    expect_copiers_at_work(before);
    npud_expect_empty();
}
END_TEST

/* Their memory goes while copiers are at it. */
START_TEST(processes_are_killed)
{
    uint64_t chance = 7, before = copiers_cpu_ns();
    pid_t survivor = child_start(client, (void *)500);

    turns_init();
    for (unsigned i = 0; i < choose_rounds(10, 200); i++) {
        pid_t pid = child_start(victim, (void *)(uintptr_t)i);

        turn_await(&to_parent);
        usleep(draw_below(&chance, 20000)); /* any time is as good */
        child_kill(pid);
    }
    child_expect_ok(survivor);
    expect_copiers_at_work(before);
    before = copiers_cpu_ns();
    child_expect_ok(child_start(client, (void *)600));
    expect_copiers_at_work(before); /* none is left with what has ended */
    npud_expect_empty();
}
END_TEST

/* What was lent is done again from where it was. */
START_TEST(npud_is_killed)
{
    uint64_t chance = 11;
    pid_t pid[2];

    if (!need_one_server(__func__, "it kills them itself"))
        return;
    npud_start_restartable(copiers);
    for (uintptr_t i = 0; i < 2; i++)
        pid[i] = child_start(client, (void *)(700 + i * 10));
    for (unsigned i = 0; i < choose_rounds(8, 100); i++) {
        usleep(20000 + draw_below(&chance, 80000)); /* between two kills: likewise */
        npud_kill_server();
    }
    for (unsigned i = 0; i < 2; i++)
        child_expect_ok(pid[i]);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- what takes work back --- */

static void end_by_abort(struct lane *l)
{
    OK(aclrtStreamAbort(l->stream));
}

static void end_by_stop(struct lane *l)
{
    OK(aclrtStreamStop(l->stream));
}

static void end_by_destroying(struct lane *l)
{
    OK(aclrtDestroyStreamForce(l->stream));
    OK(aclrtCreateStream(&l->stream));
}

static void (*const endings[])(struct lane *l) = {end_by_abort, end_by_stop, end_by_destroying};

/*
 * What was cut short has changed memory, too: who waits for a word there goes on if that has come.
 */
static void expect_waiter_told(aclrtStream waiting, uint64_t *word)
{
    if (device_word(word) == 0)
        OK(aclrtValueWrite(word, 1, 0, lanes[1].stream));
    OK(aclrtSynchronizeStreamWithTimeout(waiting, 300000));
    OK(aclrtSynchronizeStream(lanes[1].stream));
}

static void expect_all(const void *at, unsigned char value)
{
    void *now = malloc(SIZE);

    ck_assert_ptr_nonnull(now);
    device_get(now, at, SIZE);
    ck_assert(all_are(now, SIZE, value));
    free(now);
}

/* When it has returned, no copier writes there any more: the memory is the program's. */
START_TEST(an_end_takes_work_back)
{
    uint64_t chance = 13, before = copiers_cpu_ns(), *word;
    unsigned char *at;
    aclrtStream waiting;

    /* What a device that is away has begun goes on, but for an abort. */
    if (nested_is_on() && endings[_i] != end_by_abort)
        return;
    open_lanes(900);
    OK(aclrtCreateStream(&waiting));
    at = lanes[0].device[0];
    word = (uint64_t *)(void *)(at + ((size_t)2 << 20));
    for (unsigned r = 0; r < choose_rounds(20, 300); r++) {
        OK(aclrtMemset(word, sizeof(*word), 0, sizeof(*word)));
        OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_AND, waiting));
        for (unsigned i = 0; i < STREAMS; i++)
            OK(aclrtMemsetAsync(lanes[i].device[0], SIZE, 1, SIZE, lanes[i].stream));
        usleep(draw_below(&chance, 2000)); /* any time is as good */
        endings[_i](&lanes[0]);
        expect_waiter_told(waiting, word);
        OK(aclrtMemset(at, SIZE, 2, SIZE));
        (void)aclrtSynchronizeStream(lanes[0].stream); /* it tells of the end */
        OK(aclrtSynchronizeDevice());
        expect_all(at, 2);
    }
    expect_copiers_at_work(before);
    before = copiers_cpu_ns();
    submit_round(&chance);
    OK(aclrtSynchronizeDevice());
    expect_copiers_at_work(before); /* none is left with what was taken back */
    session_close();
    npud_expect_empty();
}
END_TEST

/* Memory that is freed under a copier stays until it is through, and what waits fails. */
START_TEST(memory_is_freed_under_a_copier)
{
    open_lanes(1100);
    for (unsigned r = 0; r < choose_rounds(20, 300); r++) {
        void *p[STREAMS];

        for (unsigned i = 0; i < STREAMS; i++) {
            OK(aclrtMalloc(&p[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
            OK(aclrtMemsetAsync(p[i], SIZE, 1, SIZE, lanes[i].stream));
            OK(aclrtMemcpyAsync(p[i], SIZE, lanes[i].device[0], SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                lanes[i].stream));
        }
        for (unsigned i = 0; i < STREAMS; i++)
            OK(aclrtFree(p[i]));
        for (unsigned i = 0; i < STREAMS; i++)
            (void)aclrtSynchronizeStream(lanes[i].stream);
    }
    session_close();
    npud_expect_empty();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("copiers");
    TCase *t = suite_case(s, "order", 60, set_up_test, npud_teardown);

    tcase_add_test(t, streams_of_several_processes_keep_their_order);
    tcase_add_test(t, processes_are_killed);
    tcase_add_loop_test(t, an_end_takes_work_back, 0, sizeof(endings) / sizeof(endings[0]));
    tcase_add_test(t, memory_is_freed_under_a_copier);
    t = suite_case(s, "restart", 60, NULL, NULL);
    tcase_add_test(t, npud_is_killed);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
