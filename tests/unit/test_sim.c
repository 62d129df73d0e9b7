/* daemon/backend/sim: work that takes time (sim.latency_us), and large copies. */

#include <sys/mman.h>

#include "daemon/base/config.h"
#include "daemon/core/backend.h"
#include "daemon/core/server.h"
#include "tests/unit/unit.h"

#define SIZE    4096u
#define LATENCY UINT64_C(100000) /* ns */
#define LEAST   (LATENCY / 2)
#define MOST    (LATENCY + LATENCY / 2)
#define BEGIN   UINT64_C(1000000)

static struct config config;
static struct server server = {.config = &config};
static void *state;
static struct backend_memory *memory;

/* The descriptor by which clients map it. */
static int make_memory(uint64_t size, struct backend_memory **m)
{
    int fd;

    ck_assert_int_eq(backend_sim.memory_new(state, NULL, 0, size, m, &fd), 0);
    ck_assert(backend_sim.memory_usable(*m));
    return fd;
}

static void set_up_test(void)
{
    config_init(&config);
    ck_assert_int_eq(config_set(&config, "sim.latency_us=100"), 0);
    ck_assert_int_gt(backend_sim.open(&server, &state), 0);
    make_memory(SIZE, &memory);
}

static void tear_down_test(void)
{
    backend_sim.memory_free(state, memory, NULL);
    backend_sim.close(state);
    config_deinit(&config);
}

static struct work fill_with(uint8_t value)
{
    return (struct work){.kind = WORK_SET, .dst = {memory, 0}, .size = SIZE, .value = value};
}

static uint64_t word_of(struct backend_memory *m)
{
    uint64_t word;

    ck_assert(backend_sim.word_read((struct work_place){m, 0}, &word));
    return word;
}

static enum work_state step(struct work *w, uint64_t now, uint64_t *deadline)
{
    int32_t result = 77;
    enum work_state s = backend_sim.step(state, 0, w, now, deadline, &result);

    ck_assert_int_eq(result, w->result);
    return s;
}

/* Pending until it is ready, and not a byte is moved before. */
START_TEST(work_is_pending_until_it_is_ready)
{
    for (unsigned i = 1; i <= 100; i++) {
        struct work w = fill_with((uint8_t)i);
        uint64_t before = word_of(memory), ready, deadline = 0;

        ck_assert_int_eq(step(&w, BEGIN, &ready), WORK_PENDING);
        ck_assert_uint_ge(ready, BEGIN + LEAST);
        ck_assert_uint_le(ready, BEGIN + MOST);
        ck_assert_int_eq(step(&w, ready - 1, &deadline), WORK_PENDING);
        ck_assert_uint_eq(deadline, ready);
        ck_assert_uint_eq(w.progress, 0);
        ck_assert_uint_eq(word_of(memory), before);
        ck_assert_int_eq(step(&w, ready, &deadline), WORK_DONE);
        ck_assert_uint_eq(w.progress, SIZE);
        ck_assert_uint_eq(word_of(memory), i * UINT64_C(0x0101010101010101));
    }
}
END_TEST

/* Of two that begin at once, the later one is sometimes ready first. */
START_TEST(work_gets_out_of_step)
{
    unsigned first = 0, second = 0;

    for (int i = 0; i < 200; i++) {
        struct work a = fill_with(1), b = fill_with(2);
        uint64_t ready_a, ready_b;

        step(&a, BEGIN, &ready_a);
        step(&b, BEGIN, &ready_b);
        first += ready_a < ready_b;
        second += ready_b < ready_a;
    }
    ck_assert_uint_gt(first, 20);
    ck_assert_uint_gt(second, 20);
}
END_TEST

/* It takes its time once, and not for each slice. */
START_TEST(slices_do_not_wait_again)
{
    struct backend_memory *large;
    struct work w = {.kind = WORK_SET, .size = 1 << 20, .value = 1};
    uint64_t ready, deadline;
    unsigned slices = 1;

    make_memory(w.size, &large);
    w.dst.memory = large;
    ck_assert_int_eq(step(&w, BEGIN, &ready), WORK_PENDING);
    while (step(&w, ready, &deadline) == WORK_MORE)
        slices++;
    ck_assert_uint_gt(slices, 1);
    ck_assert_uint_eq(w.progress, w.size);
    backend_sim.memory_free(state, large, NULL);
}
END_TEST

/* npud has ended meanwhile: what is kept is the progress, and the rest takes its time once more. */
START_TEST(an_npud_that_comes_back_waits_again)
{
    struct work w = fill_with(1), after;
    uint64_t ready, deadline;

    ck_assert_int_eq(step(&w, BEGIN, &ready), WORK_PENDING);
    after = fill_with(1);
    after.progress = w.progress;
    ck_assert_int_eq(step(&after, ready, &deadline), WORK_PENDING);
    ck_assert_uint_ge(deadline, ready + LEAST);
    ck_assert_int_eq(step(&after, deadline, &deadline), WORK_DONE);
}
END_TEST

/* A delay takes what it is asked to take, and an end that is kept stays. */
START_TEST(delays_are_as_asked)
{
    struct work w = {.kind = WORK_DELAY, .delay_ns = 5000, .result = 507015}, after;
    uint64_t deadline, again;
    int32_t result;

    ck_assert_int_eq(step(&w, BEGIN, &deadline), WORK_PENDING);
    ck_assert_uint_eq(deadline, BEGIN + 5000);
    after = (struct work){
        .kind = WORK_DELAY, .delay_ns = 5000, .result = 507015, .progress = w.progress};
    ck_assert_int_eq(step(&after, deadline - 1, &again), WORK_PENDING);
    ck_assert_uint_eq(again, deadline);
    ck_assert_int_eq(backend_sim.step(state, 0, &after, deadline, &again, &result), WORK_DONE);
    ck_assert_int_eq(result, 507015);
}
END_TEST

static struct work_place new_place(uint64_t size, uint64_t offset, unsigned char **bytes)
{
    struct work_place at = {.offset = offset};
    int fd = make_memory(size, &at.memory);

    *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(*bytes, MAP_FAILED);
    return at;
}

/* Another way of copying; also in slices, and to where it should be. */
START_TEST(large_copies_move_all_bytes)
{
    enum { BYTES = (8 << 20) + 4099, MORE = BYTES + 64 };
    unsigned char *source, *target;
    struct work_place from = new_place(MORE, 5, &source), to = new_place(MORE, 18, &target);
    struct work w = {.kind = WORK_COPY, .dst = to, .src = from, .size = BYTES};
    uint64_t ready, deadline;
    unsigned slices = 1;

    for (unsigned i = 0; i < MORE; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 24);
    ck_assert_int_eq(step(&w, BEGIN, &ready), WORK_PENDING);
    while (step(&w, ready, &deadline) == WORK_MORE)
        slices++;
    ck_assert_uint_ge(slices, BYTES / (64 << 10));
    ck_assert_mem_eq(target + to.offset, source + from.offset, BYTES);
    for (unsigned i = 0; i < to.offset; i++)
        ck_assert_uint_eq(target[i], 0);
    for (uint64_t i = to.offset + BYTES; i < MORE; i++)
        ck_assert_uint_eq(target[i], 0);
    munmap(source, MORE);
    munmap(target, MORE);
    backend_sim.memory_free(state, from.memory, NULL);
    backend_sim.memory_free(state, to.memory, NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("sim");
    TCase *t = suite_case(s, "latency", 10, set_up_test, tear_down_test);

    tcase_add_test(t, work_is_pending_until_it_is_ready);
    tcase_add_test(t, work_gets_out_of_step);
    tcase_add_test(t, slices_do_not_wait_again);
    tcase_add_test(t, an_npud_that_comes_back_waits_again);
    tcase_add_test(t, delays_are_as_asked);
    tcase_add_test(t, large_copies_move_all_bytes);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
