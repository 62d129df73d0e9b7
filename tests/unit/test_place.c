/*
 * Ranges of addresses that go on from one mapping into the next (client/memory/place.h): what they
 * may hold, and the tasks that they become (client/memory/submit.h).
 */
#include "client/memory/place.h"
#include "client/memory/recent.h"
#include "client/memory/registration.h"
#include "client/memory/submit.h"
#include "client/memory/virtual.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/core/upcall.h"
#include "proto/wire/npud.pb-c.h"

#include "unit.h"

#define KIB   ((uint64_t)1024)
#define BASE  ((uintptr_t)0x700000000000)
#define PARAM ACL_ERROR_RT_PARAM_INVALID

/* --- what the two modules need of the rest of the library --- */

/*
 * Space 1: three mappings, the second of which begins at 64 KiB of its allocation, the third is of
 * device 1. Behind it a mapping of another space, then one that is no part of any, then space 3:
 * device memory, host memory.
 */
static const struct memory table[] = {
    {.mapped = {BASE, 16 * KIB}, .size = 16 * KIB, .reservation = 1, .remote = 10},
    {.mapped = {BASE + 16 * KIB, 8 * KIB},
     .size = 8 * KIB,
     .reservation = 1,
     .remote = 11,
     .remote_offset = 64 * KIB},
    {.mapped = {BASE + 24 * KIB, 8 * KIB},
     .size = 8 * KIB,
     .reservation = 1,
     .remote = 12,
     .device = 1},
    {.mapped = {BASE + 32 * KIB, 8 * KIB}, .size = 8 * KIB, .reservation = 2, .remote = 13},
    {.mapped = {BASE + 40 * KIB, 8 * KIB}, .size = 8 * KIB, .remote = 14},
    {.mapped = {BASE + 64 * KIB, 8 * KIB}, .size = 8 * KIB, .reservation = 3, .remote = 15},
    {.mapped = {BASE + 72 * KIB, 8 * KIB},
     .size = 8 * KIB,
     .reservation = 3,
     .remote = 16,
     .host = true},
};
static uint32_t gone; /* npud's slot of the mapping that is not there any more */

__thread struct thread *thread_current;

/* A thread that remembers nothing. */
struct thread *thread_new(void)
{
    static __thread struct thread self;

    return thread_current = &self;
}

union process_page process_page; /* no process is checked */

void checked_refused(enum check_refusal why, const void *address, uint64_t size, uint64_t start,
                     uint64_t whole)
{
    (void)why;
    (void)address;
    (void)size;
    (void)start;
    (void)whole;
}

static bool registered, reserved, in_buffer; /* every address */

bool registration_holds(struct session *s, const void *address, size_t count)
{
    (void)s;
    (void)address;
    (void)count;
    return registered;
}

static void stream_work_written(struct session *s, const void *address, uint64_t size)
{
    (void)s;
    (void)address;
    (void)size;
}

const struct upcalls *upcalls = &(const struct upcalls){.stream_work_written = stream_work_written};

bool virtual_is_reserved(struct session *s, const void *address)
{
    (void)s;
    (void)address;
    return reserved;
}

bool memory_look_up(struct session *s, const void *address, struct memory *copy)
{
    (void)s;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if ((uintptr_t)address - table[i].mapped.start < table[i].mapped.size) {
            *copy = table[i];
            copy->freed = copy->remote == gone;
            return true;
        }
    return false;
}

bool memory_search(struct session *s, const void *address, struct memory *copy, uint64_t *changes)
{
    *changes = 0;
    return memory_look_up(s, address, copy);
}

void recent_note(const struct session *s, const struct memory *m, uint64_t changes)
{
    (void)s;
    (void)m;
    (void)changes;
}

static uint64_t populated;

void memory_populate_parts(struct session *s, const struct memory *copy, uint64_t offset,
                           uint64_t size)
{
    (void)s;
    ck_assert_uint_le(offset + size, copy->mapped.size);
    populated += size;
}

bool segment_locate(struct session *s, const void *address, struct segment_place *place)
{
    static struct segment_view view;
    static struct mbuf mbuf; /* freed */

    (void)s;
    (void)address;
    view.mbufs = &mbuf;
    *place = (struct segment_place){.view = &view};
    return in_buffer;
}

static char sentence[ERROR_SENTENCE_MAX];

int error_store(int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    return code;
}

/* What npud was told, in words: tasks and requests. */
static char told[1024];
static uint32_t lost_with; /* npud's slot: when a task for it is submitted, the next is unmapped */

static void __attribute__((format(printf, 1, 2))) tell(const char *fmt, ...)
{
    size_t used = strlen(told);
    va_list args;

    va_start(args, fmt);
    vsnprintf(told + used, sizeof(told) - used, fmt, args);
    va_end(args);
}

int session_command(struct session *s, const char *function, Npud__Request *request)
{
    (void)s;
    (void)function;
    ck_assert_int_eq(request->body_case, NPUD__REQUEST__BODY_MEMORY_WRITTEN);
    tell("written %u at %llu: %llu\n", request->memory_written->slot,
         (unsigned long long)request->memory_written->offset,
         (unsigned long long)request->memory_written->size);
    return 0;
}

int stream_submit(struct stream *s, const char *function, struct task *task)
{
    (void)s;
    (void)function;
    if (task->op == TASK_COPY)
        tell("copy %u at %llu from %u at %llu: %llu\n", task->object,
             (unsigned long long)task->copy.dst_offset, task->copy.src,
             (unsigned long long)task->copy.src_offset, (unsigned long long)task->copy.size);
    else
        tell("set %u at %llu: %llu of %u\n", task->object, (unsigned long long)task->set.offset,
             (unsigned long long)task->set.size, task->set.value);
    if (task->object == lost_with)
        gone = lost_with + 1;
    return 0;
}

/* --- */

static struct session *session;
static struct stream *stream;

static void set_up_session(void)
{
    session = calloc(1, sizeof(*session));
    stream = calloc(1, sizeof(*stream));
    ck_assert(session && stream);
    session->page = calloc(1, sizeof(*session->page));
    ck_assert_ptr_nonnull(session->page);
    stream->session = session;
    told[0] = '\0';
}

static void tear_down_session(void)
{
    free(session->page);
    free(session);
    free(stream);
}

static int find_range(uint64_t offset, uint64_t count, struct place *at)
{
    return place_find(session, "call", (const void *)(BASE + offset), count, "p", at);
}

static struct place found_range(uint64_t offset, uint64_t count)
{
    struct place at;

    ck_assert_int_eq(find_range(offset, count, &at), 0);
    return at;
}

/* --- what a range may hold --- */

#define BEYOND "go beyond what is mapped there"
#define LEAVES "leave the allocation"
#define INSIDE NULL

static const struct {
    uint64_t offset, count;
    bool goes_on;
    const char *says; /* NULL: it is good */
} ranges[] = {
    {0, 16 * KIB, false, INSIDE},
    {0, 16 * KIB + 1, true, INSIDE},
    {16 * KIB - 1, 1, false, INSIDE},
    {16 * KIB - 1, 2, true, INSIDE},
    {16 * KIB, 8 * KIB, false, INSIDE},
    {0, 32 * KIB, true, INSIDE},
    {0, 32 * KIB + 1, true, BEYOND}, /* into another space */
    {24 * KIB, 8 * KIB + 1, true, BEYOND},
    {32 * KIB, 8 * KIB + 1, true, BEYOND}, /* into what is in no space */
    {40 * KIB, 8 * KIB, false, INSIDE},
    {40 * KIB, 8 * KIB + 1, false, LEAVES},
    {64 * KIB, 8 * KIB + 1, true, BEYOND}, /* from device memory into host memory */
    {72 * KIB, 8 * KIB + 1, true, BEYOND}, /* nothing is there */
    {0, UINT64_MAX, true, BEYOND},
};

START_TEST(a_range_goes_on_within_its_space)
{
    struct place at;
    int error = find_range(ranges[_i].offset, ranges[_i].count, &at);

    ck_assert_int_eq(error, ranges[_i].says ? PARAM : 0);
    if (ranges[_i].says)
        ck_assert_msg(strstr(sentence, ranges[_i].says) != NULL, "%s", sentence);
    else
        ck_assert_int_eq(at.goes_on, ranges[_i].goes_on);
}
END_TEST

START_TEST(what_is_gone_ends_a_range)
{
    struct place at;

    gone = 11;
    ck_assert_int_eq(find_range(0, 16 * KIB, &at), 0);
    ck_assert_int_eq(find_range(0, 16 * KIB + 1, &at), PARAM);
    ck_assert_ptr_nonnull(strstr(sentence, BEYOND));
}
END_TEST

START_TEST(a_word_of_a_device_stays_in_one_mapping)
{
    struct place at;

    ck_assert_int_eq(
        place_find_device(session, "call", 0, "p", (void *)(BASE + 16 * KIB - 8), 8, &at), 0);
    ck_assert_int_eq(
        place_find_device(session, "call", 0, "p", (void *)(BASE + 16 * KIB - 8), 16, &at), PARAM);
    ck_assert_ptr_nonnull(strstr(sentence, "cross from one mapping into the next"));
}
END_TEST

/* --- what it becomes --- */

START_TEST(a_fill_becomes_a_task_for_each_mapping)
{
    struct place at = found_range(4 * KIB, 24 * KIB);

    ck_assert_int_eq(submit_set(stream, "call", &at, 7, 24 * KIB), 0);
    ck_assert_str_eq(told, "set 10 at 4096: 12288 of 7\n"
                           "set 11 at 65536: 8192 of 7\n"
                           "set 12 at 0: 4096 of 7\n");
    ck_assert_uint_eq(populated, 24 * KIB);
}
END_TEST

START_TEST(a_range_in_one_mapping_is_one_task)
{
    struct place to = found_range(17 * KIB, KIB), from = found_range(0, KIB);

    ck_assert_int_eq(submit_copy(stream, "call", &to, &from, KIB), 0);
    ck_assert_int_eq(submit_set(stream, "call", &to, 1, KIB), 0);
    ck_assert_str_eq(told, "copy 11 at 66560 from 10 at 0: 1024\n"
                           "set 11 at 66560: 1024 of 1\n");
}
END_TEST

/* The borders of both sides: at 12 and 20 KiB of the one, at 8 KiB of the other. */
START_TEST(a_copy_is_cut_at_the_borders_of_both)
{
    struct place to = found_range(4 * KIB, 24 * KIB), from = found_range(40 * KIB, 8 * KIB);

    ck_assert_int_eq(submit_copy(stream, "call", &to, &from, 8 * KIB), 0);
    ck_assert_str_eq(told, "copy 10 at 4096 from 14 at 0: 8192\n");
    told[0] = '\0';
    from = found_range(8 * KIB, 24 * KIB);
    ck_assert_int_eq(submit_copy(stream, "call", &to, &from, 24 * KIB), 0);
    ck_assert_str_eq(told, "copy 10 at 4096 from 10 at 8192: 8192\n"
                           "copy 10 at 12288 from 11 at 65536: 4096\n"
                           "copy 11 at 65536 from 11 at 69632: 4096\n"
                           "copy 11 at 69632 from 12 at 0: 4096\n"
                           "copy 12 at 0 from 12 at 4096: 4096\n");
}
END_TEST

START_TEST(what_is_unmapped_during_a_copy_ends_it)
{
    struct place at = found_range(0, 32 * KIB);

    lost_with = 10;
    ck_assert_int_eq(submit_set(stream, "call", &at, 7, 32 * KIB), PARAM);
    ck_assert_ptr_nonnull(strstr(sentence, "was unmapped during the call"));
    ck_assert_str_eq(told, "set 10 at 0: 16384 of 7\n");
}
END_TEST

START_TEST(a_place_moves_over_borders)
{
    struct place at = found_range(4 * KIB, 28 * KIB);

    ck_assert_int_eq(place_move(session, "call", &at, 11 * KIB), 0);
    ck_assert_uint_eq(at.memory.remote, 10);
    ck_assert_uint_eq(at.offset, 15 * KIB);
    ck_assert_int_eq(place_move(session, "call", &at, 13 * KIB), 0); /* over all of the second */
    ck_assert_uint_eq(at.memory.remote, 12);
    ck_assert_uint_eq(at.offset, 4 * KIB);
    ck_assert_ptr_eq(at.address, (void *)(BASE + 28 * KIB));
    at = found_range(4 * KIB, 28 * KIB);
    gone = 12;
    ck_assert_int_eq(place_move(session, "call", &at, 24 * KIB), PARAM);
}
END_TEST

START_TEST(each_mapping_must_be_within_reach)
{
    struct place to = found_range(0, 32 * KIB), from = found_range(40 * KIB, 8 * KIB);

    ck_assert_int_eq(place_check_peer_devices(session, "call", &to, &from, 8 * KIB), 0);
    to = found_range(20 * KIB, 8 * KIB); /* the second half is of device 1 */
    ck_assert_int_eq(place_check_peer_devices(session, "call", &to, &from, 8 * KIB),
                     ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    ck_assert_int_eq(place_check_peer_devices(session, "call", &from, &to, 8 * KIB),
                     ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    session->devices[0].peer_devices = 1u << 1;
    ck_assert_int_eq(place_check_peer_devices(session, "call", &to, &from, 8 * KIB), 0);
}
END_TEST

START_TEST(npud_is_told_of_each_mapping_that_was_written)
{
    struct place at = found_range(12 * KIB, 8 * KIB);

    ck_assert_int_eq(place_tell_written(session, "call", &at, 8 * KIB), 0);
    ck_assert_str_eq(told, ""); /* no stream waits for a word */
    session->page->waited[0] = ~(UINT64_C(1) << 10 | UINT64_C(1) << 11); /* for others */
    ck_assert_int_eq(place_tell_written(session, "call", &at, 8 * KIB), 0);
    ck_assert_str_eq(told, "");
    session->page->waited[0] = UINT64_C(1) << 11;
    ck_assert_int_eq(place_tell_written(session, "call", &at, 8 * KIB), 0);
    ck_assert_str_eq(told, "written 11 at 65536: 4096\n");
    told[0] = '\0';
    session->page->waited[0] |= UINT64_C(1) << 10;
    ck_assert_int_eq(place_tell_written(session, "call", &at, 8 * KIB), 0);
    ck_assert_str_eq(told, "written 10 at 12288: 4096\n"
                           "written 11 at 65536: 4096\n");
}
END_TEST

/* --- memory of the program's own --- */

#define PLAIN ((uint64_t)1 << 40) /* from here on, nothing is known */

START_TEST(what_is_at_an_address_is_found_anew_each_time)
{
    struct place at;

    ck_assert_int_eq(found_range(PLAIN, 8).kind, PLACE_PAGEABLE);
    registered = true;
    ck_assert_int_eq(found_range(PLAIN, 8).kind, PLACE_REGISTERED);
    registered = false;
    reserved = true;
    ck_assert_int_eq(find_range(PLAIN, 8, &at), PARAM);
    reserved = false;
    in_buffer = true;
    ck_assert_int_eq(find_range(PLAIN, 8, &at), PARAM); /* a buffer that was freed */
    in_buffer = false;
    ck_assert_int_eq(found_range(PLAIN, 8).kind, PLACE_PAGEABLE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place");
    TCase *t = suite_case(s, "mappings", 0, set_up_session, tear_down_session);

    tcase_add_loop_test(t, a_range_goes_on_within_its_space, 0,
                        (int)(sizeof(ranges) / sizeof(ranges[0])));
    tcase_add_test(t, what_is_gone_ends_a_range);
    tcase_add_test(t, a_word_of_a_device_stays_in_one_mapping);
    tcase_add_test(t, a_fill_becomes_a_task_for_each_mapping);
    tcase_add_test(t, a_range_in_one_mapping_is_one_task);
    tcase_add_test(t, a_copy_is_cut_at_the_borders_of_both);
    tcase_add_test(t, what_is_unmapped_during_a_copy_ends_it);
    tcase_add_test(t, a_place_moves_over_borders);
    tcase_add_test(t, each_mapping_must_be_within_reach);
    tcase_add_test(t, npud_is_told_of_each_mapping_that_was_written);
    tcase_add_test(t, what_is_at_an_address_is_found_anew_each_time);
    return run_suite(s);
}
