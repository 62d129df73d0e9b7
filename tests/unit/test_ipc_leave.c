/*
 * Openers of an IPC event that leave, while their process lives on and still writes: no record
 * stays pending that no process will execute, and no failed record reads as done.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/survivor.h"
#include "tests/common/child.h"
#include "npud.h"

#define FAILED ACL_ERROR_RT_SUSPECT_REMOTE_ERROR

static const char *const settings[] = {"engine.spin_us=0", "stream.depth=256", NULL};

static struct session *session, *leaver;
static struct ipc_open *ours, *theirs;
static struct ipc_page *page;
static pid_t child; /* the leaver's process */

/* As the kernel says when pages were swapped out: none is resident. */
static bool swapped_out;
int mincore(void *addr, size_t length, unsigned char *vec)
{
    if (!swapped_out)
        return (int)syscall(SYS_mincore, addr, length, vec);
    memset(vec, 0, (length + 4095) / 4096);
    return 0;
}

static struct ipc_open *open_in(struct session *s)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_open(s, &ours->event->handle, &open), 0);
    return open;
}

static void start_leaver(void)
{
    child = child_start_idle();
    npud_start(settings);
    session = npud_session(1);
    leaver = npud_session(child);
    leaver->pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    ck_assert_int_ge(leaver->pidfd, 0);
    ck_assert_int_eq(ipc_event_new(session, 0, &ours), 0);
    ck_assert_int_eq(ipc_event_export(ours), 0);
    theirs = open_in(leaver);
    page = ours->event->page;
}

static void end_child(void)
{
    if (child > 0)
        child_kill(child);
    child = 0;
}

static void stop_leaver(void)
{
    end_child();
    npud_stop();
}

static uint64_t take_record(uint32_t opener, enum ipc_state state)
{
    uint64_t blocker, number = ipc_take(page, opener, state, &blocker);

    ck_assert_uint_ne(number, 0);
    return number;
}

static int32_t read_outcome(uint64_t number, int32_t *pid)
{
    int32_t error;

    ck_assert(ipc_record_outcome(ours->event, number, &error, pid));
    return error;
}

static struct task wait_task(uint64_t number)
{
    return (struct task){.op = TASK_IPC_WAIT,
                         .object = ours->slot.number,
                         .generation = slot_generation(ours),
                         .ipc.number = number};
}

/*
 * Guards against a hang: npud failed the records of an ended session once, and a thread of its
 * process that was about to record then recorded after that. Each waiter was left for ever.
 */
START_TEST(recorded_after_the_end_of_the_session)
{
    uint32_t opener = theirs->opener->slot.number;
    struct stream *s = npud_stream(session, 0);
    uint64_t early = take_record(opener, IPC_PENDING), late;
    int32_t pid;

    session_free(leaver);
    ck_assert_int_eq(ipc_state_of(page, early), IPC_FAILED);
    late = take_record(opener, IPC_PENDING);
    ck_assert(ipc_orphaned(page, late)); /* what clients go by */
    ck_assert_int_eq(ipc_state_of(page, late), IPC_PENDING);
    client_wait(s, client_submit(s, wait_task(late)));
    ck_assert(client_error(s) == stream_error_make(FAILED, child));
    ck_assert_int_eq(ipc_state_of(page, late), IPC_FAILED);
    ck_assert_int_eq(read_outcome(early, &pid), FAILED);
    ck_assert_int_eq(pid, child);
    late = take_record(opener, IPC_PENDING);
    ck_assert_int_eq(read_outcome(late, &pid), FAILED);
    ck_assert_int_eq(pid, child);
    ck_assert_int_eq(ipc_state_of(page, late), IPC_FAILED);
    /* What others record stays theirs. */
    late = take_record(ours->opener->slot.number, IPC_PENDING);
    ck_assert(!ipc_orphaned(page, late));
    ck_assert(!ipc_record_over(ours->event, late));
}
END_TEST

/*
 * The number of an opener is not given out again while its process lives, because that process
 * could still write a late record in the name of the new opener.
 */
START_TEST(numbers_stay_with_the_process)
{
    uint32_t opener = theirs->opener->slot.number;
    struct session *next[3];
    uint64_t late;

    session_free(leaver);
    for (int i = 0; i < 3; i++) {
        next[i] = npud_session(100 + i);
        ck_assert_uint_ne(open_in(next[i])->opener->slot.number, opener);
        ck_assert(atomic_load(&page->gone[opener / 64]) >> opener % 64 & 1);
    }
    late = take_record(opener, IPC_PENDING);
    end_child();
    AWAIT((npud_turn(), ours->event->n_left == 0));
    ck_assert_int_eq(ipc_state_of(page, late), IPC_FAILED);
    next[0] = npud_session(200);
    ck_assert_uint_eq(open_in(next[0])->opener->slot.number, opener);
    ck_assert(!ipc_orphaned(page, take_record(opener, IPC_PENDING)));
}
END_TEST

/*
 * A process that has closed the event: the number is free, and what it recorded late fails before
 * the next one has it.
 */
START_TEST(late_record_of_a_number_that_is_used_again)
{
    uint32_t opener = theirs->opener->slot.number;
    uint64_t late;

    ipc_open_free(theirs);
    late = take_record(opener, IPC_PENDING);
    ck_assert(ipc_orphaned(page, late));
    theirs = open_in(leaver);
    ck_assert_uint_eq(theirs->opener->slot.number, opener);
    ck_assert_int_eq(ipc_state_of(page, late), IPC_FAILED);
}
END_TEST

/* The event goes before the process does, and the other way round. */
START_TEST(the_event_goes_first)
{
    session_free(leaver);
    ck_assert_uint_eq(ours->event->n_left, 1);
    session_free(session);
    ck_assert_uint_eq(HASH_COUNT(server.ipc->by_id), 0);
    end_child();
    AWAIT((npud_turn(), server.survivors == NULL));
}
END_TEST

/*
 * A process can leave a number behind in each of thousands of events, session after session. What
 * npud keeps for that is charged until the process exits, and is refused when a handle is opened.
 */
START_TEST(what_is_left_is_charged)
{
    struct user *user = session->user;
    uint64_t opened = user_used(user, RESOURCE_TABLE_MEMORY), used;
    uint64_t limit = config.limit[RESOURCE_TABLE_MEMORY];
    struct ipc_open *open;

    config.limit[RESOURCE_TABLE_MEMORY] = opened + ipc_left_bytes() - 1;
    ck_assert_int_eq(ipc_event_open(leaver, &ours->event->handle, &open), CAUSE_USER_TABLE_MEMORY);
    ck_assert_int_eq(ipc_event_new(leaver, 0, &open), CAUSE_USER_TABLE_MEMORY);
    ck_assert_uint_eq(user_used(user, RESOURCE_TABLE_MEMORY), opened);
    config.limit[RESOURCE_TABLE_MEMORY] = limit;
    open = open_in(leaver);
    ck_assert_uint_eq(user_used(user, RESOURCE_TABLE_MEMORY), opened + ipc_left_bytes());
    ipc_open_free(open);
    ck_assert_uint_eq(user_used(user, RESOURCE_TABLE_MEMORY), opened);
    session_free(leaver);
    ck_assert_uint_eq(ours->event->n_left, 1);
    used = user_used(user, RESOURCE_TABLE_MEMORY);
    end_child();
    AWAIT((npud_turn(), ours->event->n_left == 0));
    ck_assert_uint_eq(user_used(user, RESOURCE_TABLE_MEMORY), used - ipc_left_bytes());
}
END_TEST

/*
 * Guards against success that was none: in a damaged page npud failed all that was pending, and did
 * not remember it. After the slots were taken over, the records read as done.
 */
START_TEST(what_failed_by_damage_stays_failed)
{
    uint64_t done = take_record(ours->opener->slot.number, IPC_DONE),
             pending = take_record(ours->opener->slot.number, IPC_PENDING);
    uint64_t last = 0;
    int32_t pid;

    ck_assert_uint_eq(done + 1, pending);
    ((volatile uint8_t *)page->slot)[100 * 8 + 4] = 0x3f;
    session_free(leaver);
    ck_assert_int_eq(ipc_state_of(page, pending), IPC_FAILED);
    ck_assert_int_eq(read_outcome(pending, &pid), FAILED);
    ck_assert_int_eq(pid, child);
    ck_assert_int_eq(read_outcome(done, &pid), 0);
    atomic_store(&page->slot[100], 0);
    for (unsigned i = 0; i < 2 * IPC_SLOTS; i++)
        last = take_record(ours->opener->slot.number, IPC_DONE);
    ck_assert_int_eq(ipc_state_of(page, pending), IPC_NONE);
    ck_assert_uint_ge(atomic_load(&page->failed), pending);
    ck_assert_int_eq(read_outcome(pending, &pid), FAILED);
    ck_assert_int_eq(read_outcome(last, &pid), 0);
}
END_TEST

/* The word "failed" in the page is enough, whatever npud remembers. */
START_TEST(failed_is_no_success)
{
    struct stream *s = npud_stream(session, 0);
    uint64_t number = take_record(ours->opener->slot.number, IPC_PENDING);
    bool waiters;
    int32_t pid;

    ck_assert(ipc_complete(page, number, ours->opener->slot.number, IPC_FAILED, &waiters));
    ck_assert_int_eq(read_outcome(number, &pid), FAILED);
    client_wait(s, client_submit(s, wait_task(number)));
    ck_assert_int_eq(stream_error_code(atomic_load(&s->ctrl->error)), FAILED);
}
END_TEST

/* So many have failed that npud has forgotten the first: it does not read as done. */
START_TEST(forgotten_failures_are_no_success)
{
    uint64_t first = 0, last = 0;
    int32_t pid;

    for (unsigned i = 0; i < 6 * IPC_SLOTS; i++) {
        last = take_record(ours->opener->slot.number, IPC_PENDING);
        if (first == 0)
            first = last;
        ipc_record_fail(ours, last);
    }
    ck_assert_int_eq(ipc_state_of(page, first), IPC_NONE);
    ck_assert_int_eq(read_outcome(first, &pid), FAILED);
    ck_assert_int_eq(read_outcome(last, &pid), FAILED);
    ck_assert_int_eq(pid, 1);
    last = take_record(ours->opener->slot.number, IPC_DONE);
    ck_assert_int_eq(read_outcome(last, &pid), 0);
}
END_TEST

/*
 * Guards against damage that was none: pages that are swapped out are not resident, and were taken
 * for zero.
 */
START_TEST(swapped_out_is_not_damaged)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < (unsigned)_i; i++)
        take_record(ours->opener->slot.number, IPC_DONE);
    number = take_record(ours->opener->slot.number, IPC_PENDING);
    swapped_out = true;
    session_free(leaver);
    swapped_out = false;
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    ipc_record_complete(ours, number);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_DONE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ipc_leave");
    TCase *c = suite_case(s, "ipc_leave", 60, start_leaver, stop_leaver);

    tcase_add_test(c, recorded_after_the_end_of_the_session);
    tcase_add_test(c, numbers_stay_with_the_process);
    tcase_add_test(c, late_record_of_a_number_that_is_used_again);
    tcase_add_test(c, the_event_goes_first);
    tcase_add_test(c, what_is_left_is_charged);
    tcase_add_test(c, what_failed_by_damage_stays_failed);
    tcase_add_test(c, failed_is_no_success);
    tcase_add_test(c, forgotten_failures_are_no_success);
    tcase_add_loop_test(c, swapped_out_is_not_damaged, 0, 3);
    return run_suite(s);
}
