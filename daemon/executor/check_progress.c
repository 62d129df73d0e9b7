/* Rows of lanes: how their progress is seen, waits, failures, aborts and calls. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "daemon/executor/check_part.h"
#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

#define MIB     (UINT64_C(1) << 20)
#define TIMES   200
#define POLL_NS (2 * NSEC_PER_SEC)

/* --- progress --- */

/* What the device and the host both see. */
struct pages {
    _Atomic uint64_t word, again;
    uint64_t reserved[6];
    unsigned char bytes[4096];
};

struct progress {
    struct check *c;
    struct pages *pages;
    uint64_t word;              /* the address for word_write() */
    struct vendor_memory strip; /* n, n, n + 1, n + 1, ... and then two patterns of 4096 bytes */
    unsigned torn, early;       /* numbers never written; numbers seen before the bytes */
    double times[TIMES];
};

/* Microseconds until the word has the number; negative: it did not come. */
static double poll_word(struct progress *p, uint64_t n, uint64_t from, bool twice)
{
    const uint64_t end = from + POLL_NS;

    for (;;) {
        const uint64_t seen = atomic_load(&p->pages->word);

        if (seen == n && (!twice || atomic_load(&p->pages->again) == n))
            return check_us(from);
        p->torn += seen != n && seen != n - 1;
        if (clock_ns() > end)
            return -1;
        sched_yield();
    }
}

/* A copy to the host, and the number behind it. */
static int32_t give_out(struct progress *p, uint64_t n, bool by_word)
{
    struct check *c = p->c;
    const uint64_t bytes = p->strip.address + (TIMES + 1) * 16 + n % 2 * 4096;
    int32_t code =
        c->vendor->copy(c->lane, (uintptr_t)p->pages->bytes, bytes, 4096, VENDOR_TO_HOST);

    if (code != 0)
        return code;
    return by_word ? c->vendor->word_write(c->lane, p->word, n)
                   : c->vendor->copy(c->lane, (uintptr_t)&p->pages->word, p->strip.address + n * 16,
                                     16, VENDOR_TO_HOST);
}

/* The median of how long a number takes; negative: it does not come. */
static double measure(struct progress *p, bool by_word)
{
    p->torn = p->early = 0;
    atomic_store(&p->pages->word, 0);
    for (uint64_t n = 1; n <= TIMES; n++) {
        const uint64_t from = clock_ns();

        if (give_out(p, n, by_word) != 0)
            return -1;
        p->times[n - 1] = poll_word(p, n, from, !by_word);
        if (p->times[n - 1] < 0)
            return -1;
        p->early += !check_matches(p->pages->bytes, 4096, 7 + n % 2);
    }
    return check_sync(p->c) == 0 ? check_median(p->times, TIMES) : -1;
}

static int32_t fill_strip(struct progress *p)
{
    static unsigned char bytes[(TIMES + 1) * 16 + 2 * 4096];
    uint64_t *words = (uint64_t *)(void *)bytes;

    for (uint64_t n = 0; n <= TIMES; n++)
        words[2 * n] = words[2 * n + 1] = n;
    check_fill(bytes + sizeof(bytes) - 8192, 4096, 7);
    check_fill(bytes + sizeof(bytes) - 4096, 4096, 8);
    return check_copy(p->c, p->strip.address, (uintptr_t)bytes, sizeof(bytes), VENDOR_TO_DEVICE);
}

static void say_progress(struct progress *p, double word, unsigned faults, double strip)
{
    struct check *c = p->c;

    check_say(c, word < 0 ? CHECK_NO : faults > 0 ? CHECK_DIFFERS : CHECK_YES, "word ");
    if (word < 0)
        check_add(c, "does not come");
    else
        check_add(c, "%.1f us", word);
    check_value(c, "word", "us", word);
    if (strip < 0)
        check_add(c, ", strip does not come");
    else
        check_add(c, ", strip %.1f us", strip);
    check_value(c, "strip", "us", strip);
    check_add(c, " (behind a copy of 4 KiB); torn or before the bytes: %u words, %u of the strip",
              faults, p->torn + p->early);
    check_value(c, "faults of words", "", faults);
    check_value(c, "faults of the strip", "", p->torn + p->early);
}

void check_progress(struct check *c)
{
    struct progress p = {.c = c};
    double word = -1, strip;
    unsigned faults;
    void *pages;
    int fd;

    CHECK_NEED(c, host_attach);
    if (memfd_map_new("npud check", MIB, &fd, &pages) != 0) {
        check_say(c, CHECK_NOT_KNOWN, "no memory on the host");
        return;
    }
    p.pages = pages;
    CHECK_DO(c, "register", c->vendor->host_attach(c->library, pages, MIB));
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &p.strip));
    CHECK_DO(c, "copy", fill_strip(&p));
    if (c->vendor->word_write && c->vendor->host_address &&
        c->vendor->host_address(c->library, pages, &p.word) == 0)
        word = measure(&p, true);
    faults = p.torn + p.early;
    strip = measure(&p, false);
    say_progress(&p, word, faults, strip);
}

/* --- value waits --- */

static const unsigned crowds[] = {8, 32, 64};

/* n lanes wait for the number; another one copies meanwhile, and so lets them go on. */
static int32_t wait_in_crowd(struct check *c, struct vendor_lane **lanes, unsigned n, uint64_t word)
{
    const uint64_t number = n;
    int32_t code = 0;

    for (unsigned i = 0; i < n && code == 0; i++)
        code = c->vendor->word_wait(lanes[i], word, number);
    if (code == 0)
        code = check_copy(c, word, (uintptr_t)&number, sizeof(number), VENDOR_TO_DEVICE);
    for (unsigned i = 0; i < n && code == 0; i++)
        code = c->vendor->lane_sync(&lanes[i]);
    return code;
}

static void wait_in_crowds(struct check *c, uint64_t word, double other_us)
{
    struct vendor_lane *lanes[64];
    unsigned made = 0;

    for (unsigned i = 0; i < 3; i++) {
        for (; made < crowds[i]; made++)
            CHECK_DO(c, "lane", c->vendor->lane_new(c->library, c->device, &lanes[made]));
        check_say(c, CHECK_DIFFERS,
                  "released by another process after %.0f us; while %u lanes wait, others stand "
                  "still",
                  other_us, crowds[i]);
        check_so_far(c);
        CHECK_DO(c, "wait", wait_in_crowd(c, lanes, crowds[i], word));
    }
    check_say(c, CHECK_YES, "released by another process after %.0f us; others go on while 64 wait",
              other_us);
    check_value(c, "released", "us", other_us);
}

/* Microseconds from the message to the other process to the end of the wait; negative: the row is
 * over. */
static double wait_for_other(struct check *c, struct check_child *other, uint64_t word)
{
    struct check_message m = {.value = CHECK_IMPORT_WORD, .token.fd = -1};
    uint64_t from;

    if (check_refused(c, "wait", c->vendor->word_wait(c->lane, word, 1)))
        return -1;
    from = clock_ns();
    if (!check_send(other->socket, &m) || !check_hear(c, other, &m, "the other process"))
        return -1;
    return check_refused(c, "wait", check_sync(c)) ? -1 : check_us(from);
}

void check_waits(struct check *c)
{
    struct vendor_memory shared, own;
    struct check_child other;
    double us;

    CHECK_NEED(c, word_wait);
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &shared));
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &own));
    CHECK_DO(c, "set",
             check_copy(c, shared.address, (uintptr_t) & (uint64_t){0}, 8, VENDOR_TO_DEVICE));
    CHECK_DO(c, "set",
             check_copy(c, own.address, (uintptr_t) & (uint64_t){0}, 8, VENDOR_TO_DEVICE));
    if (!check_share_with(c, &shared, CHECK_IMPORT_WORD, (uid_t)-1, &other))
        return;
    us = wait_for_other(c, &other, shared.address);
    if (us >= 0)
        wait_in_crowds(c, own.address, us);
    check_child_kill(&other);
}

/* --- a failure in a stop lane --- */

/*
 * A lane waits for a word, with a copy behind it and a set behind that; the source of the copy is
 * freed meanwhile.
 */
static int32_t fail_copy(struct check *c, struct vendor_lane **lane, uint64_t word,
                         struct vendor_memory *source, uint64_t target)
{
    const uint64_t one = 1;
    int32_t code = c->vendor->word_wait(*lane, word, one);

    if (code == 0)
        code = c->vendor->copy(*lane, target, source->address, 4096, VENDOR_ON_DEVICE);
    if (code == 0)
        code = c->vendor->set(*lane, target + 4096, 0x77, 4096);
    if (code != 0)
        return code;
    check_say(c, CHECK_DIFFERS, "memory that a task is about to read cannot be freed");
    check_so_far(c);
    c->vendor->memory_free(c->library, source);
    return check_copy(c, word, (uintptr_t)&one, sizeof(one), VENDOR_TO_DEVICE);
}

static void judge_failure(struct check *c, int32_t code, bool lane_left, uint64_t behind)
{
    unsigned char byte = 0;
    const bool other_lives = check_copy(c, (uintptr_t)&byte, behind, 1, VENDOR_TO_HOST) == 0;

    check_value(c, "code", "", code);
    if (code == 0)
        check_say(c, CHECK_DIFFERS, "the copy from freed memory did not fail");
    else
        check_say(c, other_lives && byte != 0x77 ? CHECK_YES : CHECK_DIFFERS,
                  "error %d, no task named; what was behind it %s; the lane is %s", (int)code,
                  !other_lives   ? "is not known"
                  : byte == 0x77 ? "has run"
                                 : "did not run",
                  lane_left ? "still there" : "gone");
    if (!other_lives)
        check_add(c, ", and other lanes fail, too");
}

void check_stop_lane(struct check *c)
{
    const uint64_t zero = 0;
    struct vendor_memory memory, source;
    struct vendor_lane *lane;
    int32_t code;

    CHECK_NEED(c, lane_stop);
    CHECK_NEED(c, word_wait);
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &memory));
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &source));
    CHECK_DO(c, "lane", c->vendor->lane_new(c->library, c->device, &lane));
    CHECK_DO(c, "stop", c->vendor->lane_stop(lane));
    CHECK_DO(c, "set", c->vendor->set(c->lane, memory.address, 0, MIB));
    CHECK_DO(c, "copy", check_copy(c, memory.address, (uintptr_t)&zero, 8, VENDOR_TO_DEVICE));
    CHECK_DO(c, "copy", fail_copy(c, &lane, memory.address, &source, memory.address + 4096));
    code = c->vendor->lane_sync(&lane);
    judge_failure(c, code, lane != NULL, memory.address + 8192);
}

/* --- aborts --- */

struct waiter {
    struct check *c;
    struct vendor_lane *lane;
    int32_t code;
    sem_t begins;
};

static void *wait_for_lane(void *arg)
{
    struct waiter *w = arg;

    w->code = w->c->vendor->thread_begin(w->c->library, w->c->device);
    sem_post(&w->begins);
    if (w->code == 0)
        w->code = w->c->vendor->lane_sync(&w->lane);
    return NULL;
}

/* Milliseconds of an abort while another thread waits for the lane; negative: the row is over. */
static double abort_lane(struct check *c, struct waiter *w, const char *what)
{
    struct vendor_lane *lane = w->lane;
    uint64_t from;
    pthread_t thread;
    int32_t code;

    w->c = c;
    sem_init(&w->begins, 0, 0);
    if (pthread_create(&thread, NULL, wait_for_lane, w) != 0)
        return -1;
    sem_wait(&w->begins);
    check_say(c, CHECK_NO, "%s: the abort does not return", what);
    check_so_far(c);
    from = clock_ns();
    code = c->vendor->lane_abort(lane);
    if (check_refused(c, what, code))
        return -1;
    pthread_join(thread, NULL);
    return check_ms(from);
}

void check_abort(struct check *c)
{
    struct vendor_memory memory;
    struct waiter w = {0}, copies = {0};
    double waiting, copying;

    CHECK_NEED(c, lane_abort);
    CHECK_NEED(c, word_wait);
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, 128 * MIB, &memory));
    CHECK_DO(c, "lane", c->vendor->lane_new(c->library, c->device, &w.lane));
    CHECK_DO(c, "lane", c->vendor->lane_new(c->library, c->device, &copies.lane));
    CHECK_DO(c, "set",
             check_copy(c, memory.address, (uintptr_t) & (uint64_t){0}, 8, VENDOR_TO_DEVICE));
    CHECK_DO(c, "wait", c->vendor->word_wait(w.lane, memory.address, 1));
    waiting = abort_lane(c, &w, "a lane that waits");
    if (waiting < 0)
        return;
    for (int i = 0; i < 200; i++)
        CHECK_DO(c, "copy",
                 c->vendor->copy(copies.lane, memory.address + 64 * MIB, memory.address, 32 * MIB,
                                 VENDOR_ON_DEVICE));
    copying = abort_lane(c, &copies, "a lane that copies");
    if (copying < 0)
        return;
    CHECK_DO(c, "other lanes afterwards", check_fill_device(c, memory.address, 4096, 1));
    check_say(c, CHECK_YES,
              "after %.1f ms, and its wait says %d; copying: after %.1f ms, and its wait says %d",
              waiting, (int)w.code, copying, (int)copies.code);
    check_value(c, "waiting", "ms", waiting);
    check_value(c, "copying", "ms", copying);
}

/* --- calls --- */

struct call {
    sem_t done;
    uint64_t at;
};

static void note_call(void *arg)
{
    struct call *call = arg;

    call->at = clock_ns();
    sem_post(&call->done);
}

static bool await_call(struct call *call)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    return sem_timedwait(&call->done, &until) == 0;
}

void check_call(struct check *c)
{
    struct call call;
    double times[TIMES];

    CHECK_NEED(c, lane_call);
    sem_init(&call.done, 0, 0);
    for (unsigned i = 0; i < TIMES; i++) {
        const uint64_t from = clock_ns();

        CHECK_DO(c, "call", c->vendor->lane_call(c->lane, note_call, &call));
        if (!await_call(&call)) {
            check_say(c, CHECK_NO, "a call did not come within 10 s");
            return;
        }
        times[i] = (double)(call.at - from) / 1e3;
    }
    check_say(c, CHECK_YES, "%.1f us from an idle lane, median", check_median(times, TIMES));
    check_value(c, "called after", "us", times[TIMES / 2]);
}
