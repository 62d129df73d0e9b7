#include "daemon/engine/value.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/engine.h"
#include "daemon/memory/allocation.h"
#include "proto/shm/mbuf_shm.h"
#include "daemon/engine/run.h"
#include "daemon/engine/work.h"
#include "daemon/core/backend.h"
#include "daemon/core/device.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"

#define WORD 8u

/* Nothing is to be gone through; a zeroed range is not that. */
static const struct value_range VALUE_NONE = {.next = 1, .last = 0};
static const struct value_range VALUE_ANY = {.next = 0, .last = UINT64_MAX};

/*
 * Waiters that are looked at before others have their turn. A client may have thousands of streams
 * wait for the same word.
 */
#define CHECKS_PER_STEP 64

static const struct backend *backend_of(const struct stream *s)
{
    return s->attach->device->backend;
}

static bool condition_holds(unsigned condition, uint64_t p, uint64_t v)
{
    switch (condition) {
    case WORD_GEQ:
        return (int64_t)(p - v) >= 0;
    case WORD_EQ:
        return p == v;
    case WORD_AND:
        return (p & v) != 0;
    default:
        return ~(p | v) != 0;
    }
}

/*
 * A word that npud cannot read takes work of the device to look at (look_far()). Only tasks of npud
 * change it, and each has all its waiters look once more (value_changed()): until then it is as
 * they have seen it. A kernel may have changed any word: when one is over, all waiters for memory
 * of its session look (value_launched()).
 */
enum look {
    NOT_COME,
    COME,
    FAR,
};

static enum look look_at_word(const struct stream *s)
{
    const struct task *t = &s->live->task;
    uint64_t word;

    if (!backend_of(s)->word_read((struct work_place){s->word, t->value.offset}, &word))
        return FAR;
    return condition_holds(t->flags, word, t->value.value) ? COME : NOT_COME;
}

/*
 * By word, and by stream: no two waiters for the same pages are alike. Several sessions may have
 * them: peer is the session's number.
 */
#define STREAM_BITS 12
#define PEER_BITS   16
static_assert(SESSION_STREAMS_MAX <= 1 << STREAM_BITS, "a stream's slot fits");
static_assert(PEER_MAX < 1 << PEER_BITS, "a session's number fits");
static_assert(PAGES_BITS - 3 + STREAM_BITS + PEER_BITS <= 64, "and the number of a word");

static uint64_t target_of(uint64_t offset, uint32_t peer, uint32_t stream)
{
    return (offset / WORD) << (STREAM_BITS + PEER_BITS) | (uint64_t)peer << STREAM_BITS | stream;
}

static struct value_range range_of(uint64_t offset, uint64_t size)
{
    if (size == 0)
        return VALUE_NONE;
    return (struct value_range){
        target_of(offset, 0, 0),
        target_of(offset + size - 1, (1u << PEER_BITS) - 1, (1u << STREAM_BITS) - 1)};
}

/* Kernels that are over, and streams that wait for a word: see value_launched(). */
static _Atomic uint64_t launches, waits;

/* What else than the word itself tells that it may have changed. */
static uint64_t count_changes(const struct pages *p)
{
    return atomic_load(&p->writes) + atomic_load(&launches);
}

/* The word was changed, or may have been. */
static bool waiter_test(const struct waiter *w)
{
    return look_at_word(stream_of_waiter(w)) != NOT_COME;
}

/* --- changes of memory --- */

static bool check_some(struct mem *m, struct value_range *r)
{
    bool all =
        waitlist_fire_some(&m->pages->values, &r->next, r->last, CHECKS_PER_STEP, waiter_test);

    allocation_filled(m); /* a page that a waiter was parked on may have been taken away */
    if (all)
        *r = VALUE_NONE;
    return all;
}

static bool go_through(struct stream *s, struct mem *m)
{
    if (check_some(m, &s->changed))
        s->changing = false;
    return !s->changing;
}

bool value_changed(struct stream *s, struct mem *m, uint64_t offset, uint64_t size)
{
    s->changing = size > 0;
    if (!s->changing)
        return true;
    s->launched = false;
    s->changed = range_of(offset, size);
    /* Before the list is gone through: see join_waiters(). */
    if (backend_of(s)->give)
        atomic_fetch_add(&m->pages->writes, 1);
    return go_through(s, m);
}

void value_note(struct stream *s, uint64_t offset, uint64_t size)
{
    struct value_range r = range_of(offset, size);

    if (size == 0)
        return;
    if (s->changing)
        r.next = s->changed.next;
    s->launched = false;
    s->changing = true;
    s->changed = r;
}

/* The next allocation from *at on of which the session's page says that streams may wait. */
static struct mem *find_waited(struct session *session, uint64_t *at)
{
    for (; *at < SESSION_MEMS_MAX; ++*at) {
        uint64_t bits =
            atomic_load_explicit(&session->page->waited[*at / 64], memory_order_relaxed) >>
            (*at % 64);
        struct mem *m;

        if (bits == 0) {
            *at |= 63;
            continue;
        }
        *at += (uint32_t)__builtin_ctzll(bits);
        m = slots_get(&session->mems, (uint32_t)*at);
        if (m)
            return m;
    }
    return NULL;
}

static bool tell_after_launch(struct stream *s)
{
    struct mem *m;

    while (s->changing && (m = find_waited(s->session, &s->count_change))) {
        if (!check_some(m, &s->changed))
            return false;
        s->changed = VALUE_ANY;
        s->count_change++;
        if (s->count_change % CHECKS_PER_STEP == 0)
            return false;
    }
    s->changing = false;
    return true;
}

/*
 * Either this sees a stream that has begun to wait, or that sees that a kernel is over
 * (join_waiters()), and looks once more.
 */
bool value_launched(struct stream *s)
{
    s->launched = true;
    atomic_fetch_add(&launches, 1);
    s->changing = atomic_load(&waits) != 0 && s->session->tells_waited;
    if (!s->changing)
        return true;
    atomic_thread_fence(memory_order_seq_cst);
    s->count_change = 0;
    s->changed = VALUE_ANY;
    return tell_after_launch(s);
}

bool value_tell(struct stream *s)
{
    struct mem *m;

    if (s->launched)
        return tell_after_launch(s);

    if (!s->changing)
        return true;
    m = allocation_get_begun(s->session, s->live->task.object, s->live->task.generation);
    if (m)
        return go_through(s, m);
    s->changing = false; /* it has gone: allocation_free() has all waiters looked at */
    return true;
}

/*
 * If npud has ended between the note and the end of the task, and another value than the old one is
 * there, then the task has written; a value that was changed and changed back is written again.
 */
static void write_once(struct stream *s, struct work_place at, uint64_t is, uint64_t value)
{
    struct stream_kept *k = s->live;

    if (head_has(k, k->effect_at) && is != k->effect)
        return;
    head_note_no_ticket(k);
    k->effect = is;
    head_note(k, &k->effect_at);
    KILL_HERE(VALUE_NOTED);
    backend_of(s)->word_write(at, value);
}

enum run_result value_run_write(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct work_place word;
    struct mem *m;
    uint64_t is;

    if (s->away || s->uses[0])
        return work_write_word(s, now, s->uses[0]);
    if (stream_has_begun(s) && !backend_of(s)->give)
        return RUN_RETIRED;
    if (t->value.offset % WORD != 0)
        return run_bad_entry(s, "not aligned");
    m = allocation_get(s->session, t->object, t->generation);
    word = allocation_place(m, t->value.offset, WORD);
    if (!word.memory) {
        work_end(s); /* it may have been given to the device while there was memory */
        return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
    }
    if (!allocation_filled(m))
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    stream_publish_before(s);
    /* It may have begun to wait for what was dropped before it, with an npud that has ended. */
    if (!backend_of(s)->word_read(word, &is))
        return work_write_word(s, now, m);
    if (stream_has_begun(s))
        return RUN_RETIRED;
    write_once(s, word, is, t->value.value);
    KILL_HERE(VALUE_WRITTEN);
    allocation_filled(m);
    return value_changed(s, m, t->value.offset, WORD) ? RUN_RETIRED : RUN_AGAIN;
}

/* --- waits that nobody is left to end: pages.h --- */

/*
 * The control thread decides: it goes through all waits first, and lets those go on whose word has
 * come. What such a stream does next may be what the others wait for.
 */
static void ask_if_deserted(struct pages *p)
{
    int32_t pid;

    waitlist_lock(&p->values);
    if (!p->asked && sharers_deserted(&p->sharers, &pid)) {
        p->asked = true;
        job_send(&p->ask);
    }
    waitlist_unlock(&p->values);
}

bool engine_answer_asked(struct job *job)
{
    struct pages *p = (struct pages *)((char *)job - offsetof(struct pages, ask));

    waitlist_lock(&p->values);
    p->asked = false;
    waitlist_unlock(&p->values);
    /* One that is under way asks at its end, and would never come there if each wait began it. */
    if (!p->look.listed)
        engine_look_again(p);
    return false;
}

/* --- waits --- */

static _Atomic uint32_t *waiting_count(struct stream *s)
{
    return &s->session->page->value_waiters;
}

static void count_waiter(struct stream *s)
{
    assert(!s->counted);
    s->counted = true;
    atomic_fetch_add(&waits, 1);
    atomic_fetch_add(waiting_count(s), 1);
}

static void uncount_waiter(struct stream *s)
{
    if (s->counted) {
        atomic_fetch_sub(waiting_count(s), 1);
        atomic_fetch_sub(&waits, 1);
    }
    s->counted = false;
}

static uint64_t wait_target(const struct stream *s)
{
    return target_of(s->live->task.value.offset, s->session->peer_id, s->slot.number);
}

/*
 * Those fail that wait when it is decided that nobody is left to write, and none that comes later.
 * The next npud goes on with that: so the age of a wait is in the record of its stream, where
 * others have their deadline. 0: npud has ended before it had one. With AGE_MARK it is no point in
 * time that an npud 0.9.0 will see: to that, which knows no ages, it is a time limit.
 */
#define AGE_MARK (UINT64_C(1) << 62)

static uint32_t age_of_wait(struct stream *s, const struct pages *p, bool again)
{
    uint32_t age = (uint32_t)s->live->deadline;

    if (!again || age == 0 || !pages_are_deserted(p))
        age = p->age;
    s->live->deadline = AGE_MARK | age;
    return age;
}

/*
 * False: the word has come, or is to be looked at once more, and the stream is off the list again.
 * again: it has waited before. changes: count_changes(), before it looked at the word.
 */
static bool join_waiters(struct stream *s, struct mem *m, bool again, uint64_t changes)
{
    struct pages *p = m->pages;

    count_waiter(s);
    run_begin_join(s, &p->values, &m->sharer->waiting);
    waitlist_lock(&p->values);
    waitlist_add_locked(&p->values, &s->waiter, wait_target(s));
    s->waiter.age = age_of_wait(s, p, again);
    waitlist_unlock(&p->values);
    KILL_HERE(WAIT_PARKED);
    pages_tell_waited(p); /* has the fence between the list and the word */
    switch (look_at_word(s)) {
    case FAR:
        if (count_changes(p) == changes)
            return true;
        break;
    case NOT_COME:
        return true;
    case COME:
        break;
    }
    if (!run_unpark(s))
        return true;
    uncount_waiter(s);
    return false;
}

static enum run_result look_far(struct stream *s, struct mem *m, uint64_t now);

static enum run_result wait_for_word(struct stream *s, struct mem *m, uint64_t changes,
                                     uint64_t now)
{
    run_note_wait(s, wait_target(s), 0, now);
    if (!join_waiters(s, m, false, changes))
        return look_at_word(s) == FAR ? look_far(s, m, now) : RUN_RETIRED;
    ask_if_deserted(m->pages);
    return RUN_WAITS;
}

/* Look at the word by work of the device; m: NULL if that is under way. */
static enum run_result look_far(struct stream *s, struct mem *m, uint64_t now)
{
    const struct task *t = &s->live->task;
    enum run_result r;
    uint64_t word;

    if (m)
        s->count_change = count_changes(m->pages);
    r = work_read_word(s, now, m, t->value.offset, &word);
    if (r != RUN_RETIRED || stream_has_failed(s) || condition_holds(t->flags, word, t->value.value))
        return r;
    m = allocation_get(s->session, t->object, t->generation);
    s->word = allocation_place(m, t->value.offset, WORD).memory;
    if (!s->word)
        return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
    return wait_for_word(s, m, s->count_change, now);
}

/*
 * The wait was let go. For a word that npud cannot read that means no more than that it may have
 * come; if its memory has gone meanwhile, it has not.
 */
static bool is_to_look(struct stream *s)
{
    const struct task *t = &s->live->task;

    if (!backend_of(s)->give || s->waiter.result > 0)
        return false;
    s->word = allocation_place(allocation_get(s->session, t->object, t->generation),
                               t->value.offset, WORD)
                  .memory;
    return !s->word || look_at_word(s) == FAR;
}

enum run_result value_run_wait(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    enum look seen;
    struct mem *m;

    if (s->away)
        return look_far(s, NULL, now);
    uncount_waiter(s);
    if (stream_has_begun(s) && !is_to_look(s))
        return run_finish_wait(s);
    if (t->flags >= WORD_CONDITIONS || t->value.offset % WORD != 0)
        return run_bad_entry(s, "not aligned, or no such condition");
    m = allocation_get(s->session, t->object, t->generation);
    s->word = allocation_place(m, t->value.offset, WORD).memory;
    if (!s->word)
        return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
    if (!allocation_filled(m))
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    seen = look_at_word(s);
    allocation_filled(m);
    if (seen == NOT_COME)
        return wait_for_word(s, m, 0, now);
    return seen == FAR ? look_far(s, m, now) : RUN_RETIRED;
}

/* False: the engine is to look at the task. */
static bool wait_again(struct stream *s, struct mem *m)
{
    if (!allocation_filled(m) || look_at_word(s) != NOT_COME)
        return false;
    if (!join_waiters(s, m, true, 0))
        return false;
    s->run = RUN_PARKED;
    stream_begin_task(s);
    engine_look_again(m->pages);
    return true;
}

bool value_rejoin_wait(struct stream *s)
{
    const struct task *t = &s->live->task;
    struct mem *m;

    if (!run_waits_still(s))
        return false;
    m = allocation_get(s->session, t->object, t->generation);
    s->word = allocation_place(m, t->value.offset, WORD).memory;
    return s->word && wait_again(s, m);
}

bool value_give_up_wait(struct stream *s)
{
    work_end(s);
    uncount_waiter(s);
    return true;
}

/* --- changes whose stream goes on with something else, or goes --- */

/* A part of a change that not all waiters have been told of. */
struct value_rest {
    struct job job;
    struct session *session;
    bool all;                    /* of what is waited in, from `at` on */
    uint64_t at;                 /* find_waited() */
    uint32_t object, generation; /* else the allocation */
    struct value_range range;
    struct value_rest *prev, *next; /* session->value_rests */
};

static void rest_free(struct value_rest *rest)
{
    job_cancel(&rest->job);
    DL_DELETE(rest->session->value_rests, rest);
    free(rest);
}

static struct mem *next_of(struct value_rest *rest)
{
    return rest->all ? find_waited(rest->session, &rest->at)
                     : allocation_get_begun(rest->session, rest->object, rest->generation);
}

/* Some more of it. True: that was all; also if it has gone, as allocation_free() looks at all. */
static bool check_rest(struct value_rest *rest)
{
    struct mem *m = next_of(rest);

    if (!m)
        return true;
    if (!check_some(m, &rest->range))
        return false;
    rest->range = VALUE_ANY;
    rest->at++;
    return !rest->all;
}

static bool run_rest(struct job *job)
{
    struct value_rest *rest = (struct value_rest *)((char *)job - offsetof(struct value_rest, job));
    struct schedule *schedule = &rest->session->server->schedule;

    while (!check_rest(rest))
        if (schedule_step_over(schedule))
            return true;
    rest_free(rest);
    return false;
}

/* what: but for its job and its list. False: no memory. */
static bool leave_rest(const struct value_rest *what)
{
    struct value_rest *rest = malloc(sizeof(*rest));

    if (!rest)
        return false;
    *rest = *what;
    rest->job = (struct job){run_rest, "memory written", &rest->session->owner};
    DL_APPEND(rest->session->value_rests, rest);
    job_list(&rest->job);
    return true;
}

static bool leave_rest_of(struct session *session, uint32_t object, uint32_t generation,
                          struct value_range range)
{
    return leave_rest(&(struct value_rest){
        .session = session, .object = object, .generation = generation, .range = range});
}

void value_written(struct mem *m, uint64_t offset, uint64_t size)
{
    struct value_range r = range_of(offset, size);

    while (r.next <= r.last && !check_some(m, &r))
        if (schedule_late(&m->session->server->schedule) &&
            leave_rest_of(m->session, m->slot.number, slot_generation(m), r))
            return;
}

void value_landed(struct backend_space **space)
{
    struct session *session = (struct session *)((char *)space - offsetof(struct session, space));
    struct value_rest all = {.session = session, .all = true, .range = VALUE_ANY}, *rest;

    if (!session->tells_waited)
        return;
    atomic_fetch_add(&launches, 1); /* as a kernel */
    atomic_thread_fence(memory_order_seq_cst);
    /* One at most: who drops work again and again has the one begin again. */
    DL_SEARCH_SCALAR(session->value_rests, rest, all, true);
    if (rest) {
        rest->at = 0;
        rest->range = VALUE_ANY;
        return;
    }
    if (leave_rest(&all))
        return;
    while (!check_rest(&all)) {
    }
}

void value_drop(struct stream *s)
{
    const struct task *t = &s->live->task;
    bool over = value_tell(s);

    /* After a launch these are few: a page of bits says which there are. */
    if (!over && !s->launched)
        over = leave_rest_of(s->session, t->object, t->generation, s->changed);
    while (!over)
        over = value_tell(s);
    s->changing = false;
}

void value_drop_wait(struct stream *s)
{
    work_end(s);
    uncount_waiter(s);
}

void value_forget_rests(struct session *session)
{
    while (session->value_rests)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is taken out of the list */
        rest_free(session->value_rests);
}

/* --- pages that a session has let go of, and others have --- */

/* Those that wait now are to fail, whatever happens meanwhile. False: one is left to write. */
static bool desert(struct pages *p)
{
    int32_t pid;
    bool deserted;

    waitlist_lock(&p->values);
    deserted = waitlist_has_any(&p->values) && sharers_deserted(&p->sharers, &pid);
    if (deserted)
        p->age = p->age % INT32_MAX + 1;
    waitlist_unlock(&p->values);
    if (deserted)
        pages_desert(p, pid);
    return deserted;
}

/* Under the lock. */
static void look_at(struct pages *p, struct waiter *w)
{
    if (look_at_word(stream_of_waiter(w)) == COME) {
        waitlist_fire_locked(&p->values, w, 0, 0);
    } else if (pages_are_deserted(p) && w->age != p->age) {
        KILL_HERE(VALUE_DESERTED);
        waitlist_fire_locked(&p->values, w, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, pages_deserter(p));
        KILL_HERE(VALUE_TOLD);
    }
}

/* True: that was all of them. */
static bool look_at_some(struct pages *p)
{
    struct waiter *w = NULL;

    waitlist_lock(&p->values);
    for (unsigned i = 0; i < CHECKS_PER_STEP; i++) {
        w = waitlist_first_locked(&p->values, p->look_next);
        if (!w)
            break;
        p->look_next = w->target + 1;
        look_at(p, w);
    }
    waitlist_unlock(&p->values);
    allocation_filled(p->holders); /* as in check_some() */
    return !w;
}

/*
 * First those are let go whose word has come, then it is asked whether anybody is left, and if not,
 * those that wait then fail. Once more from the beginning: others may have begun to wait, or have
 * left, meanwhile.
 */
static bool run_look(struct job *job)
{
    struct pages *p = (struct pages *)((char *)job - offsetof(struct pages, look));

    while (!look_at_some(p))
        if (schedule_step_over(job->owner->user->schedule))
            return true;
    p->look_next = 0;
    if (!pages_are_deserted(p))
        return desert(p); /* no wait fails before that is in the record */
    pages_end_desertion(p);
    return true;
}

void engine_look_again(struct pages *p)
{
    if (p->look.listed)
        job_cancel(&p->look);
    p->look_next = 0;
    if (!waitlist_has_any(&p->values)) {
        pages_end_desertion(p);
        return;
    }
    p->look = (struct job){run_look, "memory given up", &p->holders->session->owner};
    job_list(&p->look);
}
