/* Files of checked processes: threads in the order of their time, places, and files that lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npu-check/checker.h"
#include "client/tools/npu-check/read.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/suite.h"

#define CHUNKS 4u

/* A file of one process: its head, and chunks. */
static unsigned char file[(1 + CHUNKS) * CHECK_CHUNK];
static size_t at[CHUNKS];
static char directory[64], path[80];
static struct world world;
static struct acts acts;

static void begin_chunk(unsigned chunk, uint32_t writer, uint64_t number)
{
    struct check_chunk c = {.number = number, .thread = 40 + writer, .writer = writer};

    at[chunk] = (1 + chunk) * CHECK_CHUNK;
    memcpy(file + at[chunk], &c, sizeof(c));
    at[chunk] += sizeof(c);
}

static void say(unsigned chunk, void *record, size_t size, uint8_t kind, uint64_t ns,
                uint32_t place)
{
    struct check_record *r = record;

    r->kind = kind;
    r->words = (uint8_t)(size / 8);
    r->ns = ns;
    r->place = place;
    memcpy(file + at[chunk], record, size);
    at[chunk] += size;
}

static void say_place(unsigned chunk, uint64_t frame)
{
    uint64_t room[(sizeof(struct check_place) + 8) / 8] = {0};
    struct check_place *p = (void *)room;

    p->n = 1;
    p->frame[0] = frame;
    say(chunk, p, sizeof(room), CHECK_PLACE, 1, 0);
}

static void say_text(unsigned chunk, uint8_t kind, const char *text)
{
    uint64_t room[8] = {0};
    struct check_text *t = (void *)room;

    t->r.length = (uint16_t)strlen(text);
    memcpy(t->text, text, t->r.length);
    say(chunk, t, sizeof(room), kind, 1, 0);
}

static void say_set(unsigned chunk, uint64_t stream, uint64_t ns, uint32_t place)
{
    struct check_task r = {.stream = stream,
                           .task = {.op = TASK_SET, .object = 1, .generation = 1}};

    r.task.set.size = 64;
    say(chunk, &r, sizeof(r), CHECK_TASK, ns, place);
}

static void write_file(void)
{
    FILE *f = fopen(path, "w");

    ck_assert(f && fwrite(file, 1, sizeof(file), f) == sizeof(file) && fclose(f) == 0);
}

static void set_up(void)
{
    struct check_head head = {
        .magic = CHECK_MAGIC, .version = CHECK_VERSION, .pid = 4711, .program = "prog", .ended = 1};

    memset(file, 0, sizeof(file));
    memcpy(file, &head, sizeof(head));
    snprintf(directory, sizeof(directory), "/tmp/test_check_read.XXXXXX");
    ck_assert(mkdtemp(directory) != NULL);
    snprintf(path, sizeof(path), "%s/4711", directory);
    memset(&world, 0, sizeof(world));
    acts_init(&acts, &world);
}

static void tear_down(void)
{
    unlink(path);
    rmdir(directory);
    acts_deinit(&acts);
    world_deinit(&world);
}

/* Two threads, whose chunks take turns in the file. */
static void make_run(void)
{
    begin_chunk(0, 1, 0);
    begin_chunk(1, 2, 0);
    begin_chunk(2, 1, 1);
    say_place(0, 100);
    say_place(0, 200);
    say_place(1, 200);
    say(0, &(struct check_stream){.stream = 1}, sizeof(struct check_stream), CHECK_STREAM, 2, 1);
    say(0, &(struct check_stream){.stream = 2}, sizeof(struct check_stream), CHECK_STREAM, 3, 1);
    say(0, &(struct check_memory){.name = {1, 1}, .size = 64}, sizeof(struct check_memory),
        CHECK_MEMORY, 4, 1);
    say_text(1, CHECK_RANGE_BEGIN, "step");
    say_set(1, 2, 20, 1);
    say_set(0, 1, 10, 2);
    say(2, &(struct check_sync){.stream = 2, .since_ns = 20}, sizeof(struct check_sync),
        CHECK_SYNC_STREAM, 20, 2);
    say_set(2, 1, 30, 2);
}

START_TEST(test_order)
{
    static const struct {
        uint64_t ns;
        uint8_t kind;
    } expected[] = {{2, CHECK_STREAM}, {3, CHECK_STREAM},       {4, CHECK_MEMORY}, {10, CHECK_TASK},
                    {20, CHECK_TASK},  {20, CHECK_SYNC_STREAM}, {30, CHECK_TASK}};
    struct model_input in;
    struct reader *r;
    uint32_t process;

    make_run();
    write_file();
    r = reader_open(directory, &world);
    ck_assert(r != NULL);
    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        ck_assert(!reader_ended(r, &process));
        ck_assert(reader_next(r, &acts, &in));
        ck_assert_uint_eq(in.r->ns, expected[i].ns);
        ck_assert_uint_eq(in.r->kind, expected[i].kind);
        ck_assert_uint_eq(in.thread, i == 4 ? 42 : 41);
        ck_assert_uint_eq(in.place, i < 3 ? 0 : 1);
        ck_assert(i == 4 ? strcmp(world.texts[in.range], "step") == 0 : in.range == WORLD_NONE);
    }
    ck_assert(!reader_next(r, &acts, &in));
    ck_assert(reader_ended(r, &process) && process == 0 && !reader_ended(r, &process));
    ck_assert_uint_eq(world.n_places, 2);
    ck_assert_int_eq(world.processes[0].pid, 4711);
    ck_assert_uint_eq(reader_malformed(r), 0);
    reader_free(r);
}
END_TEST

START_TEST(test_findings)
{
    struct checker_options options = {.kinds = 1u << FINDING_RACE};
    struct checker_numbers numbers;
    struct findings found = {0};

    make_run();
    write_file();
    ck_assert(checker_run(directory, &options, &world, &found, &numbers));
    ck_assert_uint_eq(found.n, 1);
    ck_assert_uint_eq(world.places[found.list[0].second.place].frames[0], 200);
    ck_assert_str_eq(world.texts[found.list[0].second.range], "step");
    ck_assert_uint_eq(numbers.records, 11);
    findings_deinit(&found);
}
END_TEST

/* The rest of the thread is not read; that of the other is. */
START_TEST(test_malformed)
{
    struct model_input in;
    struct reader *r;
    unsigned n = 0;

    make_run();
    /* The first stream's record is shorter than it must be. */
    file[CHECK_CHUNK + sizeof(struct check_chunk) + 2 * (sizeof(struct check_place) + 8) + 1] = 2;
    write_file();
    r = reader_open(directory, &world);
    while (reader_next(r, &acts, &in))
        n++;
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(reader_malformed(r), 1);
    reader_free(r);
}
END_TEST

/* Whatever is in it. */
START_TEST(test_lies)
{
    uint64_t chance = 1;

    for (unsigned i = 0; i < choose_effort(500, 20000); i++) {
        struct checker_options options = {.host_seen = i % 2};
        struct findings found = {0};

        memset(file + CHECK_CHUNK, 0, CHUNKS * CHECK_CHUNK);
        make_run();
        for (unsigned n = draw_below(&chance, 20); n > 0; n--)
            file[CHECK_CHUNK * (1 + draw_below(&chance, 3)) + draw_below(&chance, 600)] =
                (unsigned char)draw_random(&chance);
        write_file();
        ck_assert(checker_run(directory, &options, &world, &found, NULL));
        findings_deinit(&found);
        world_deinit(&world);
    }
}
END_TEST

/* Sound records of every kind, whose fields are small numbers or large ones. */
START_TEST(test_nonsense)
{
    uint64_t chance = 2;

    for (unsigned i = 0; i < choose_effort(500, 20000); i++) {
        struct checker_options options = {.host_seen = i % 2};
        struct findings found = {0};

        memset(file + CHECK_CHUNK, 0, CHUNKS * CHECK_CHUNK);
        begin_chunk(0, 1, 0);
        for (unsigned n = 0; n < 200; n++) {
            uint32_t room[44] = {0};

            for (unsigned w = 4; w < 44; w++)
                room[w] = draw_chance(&chance, 3) ? (uint32_t)draw_random(&chance)
                                                  : draw_below(&chance, 3);
            if (draw_chance(&chance, 50))
                room[8] = draw_below(&chance, TASK_OPS);
            say(0, room, sizeof(room), (uint8_t)(1 + draw_below(&chance, CHECK_KINDS - 1)), n, 0);
        }
        write_file();
        ck_assert(checker_run(directory, &options, &world, &found, NULL));
        findings_deinit(&found);
        world_deinit(&world);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check read");
    TCase *t = suite_case(suite, "read", choose_effort(60, 600), set_up, tear_down);

    tcase_add_test(t, test_order);
    tcase_add_test(t, test_findings);
    tcase_add_test(t, test_malformed);
    tcase_add_test(t, test_lies);
    tcase_add_test(t, test_nonsense);
    return run_suite(suite);
}
