#include "tests/order/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define LOCATIONS   64
#define MESSAGES    128  /* of one location */
#define STEPS_MAX   2000 /* of one run: more are a loop without end */
#define CHOICES_MAX 4096
#define STACK       (64u << 10)

/* What a thread must know, or what a message tells it. */
struct view {
    uint8_t message[LOCATIONS]; /* newest one of each location */
    uint16_t clock[ORDER_THREADS];
};

struct message {
    uint64_t value;
    uint8_t position; /* in modification order */
    bool adjacent; /* a read-modify-write: nothing comes between the message before and this one */
    struct view view;
};

struct location {
    volatile void *address;
    size_t size;
    unsigned n;
    uint8_t order[MESSAGES]; /* messages in modification order */
    struct message message[MESSAGES];
};

/* Plain data, locks and posts: by address as well. */
struct object {
    const void *address;
    unsigned held_by; /* a lock: 1 + thread */
    unsigned posts;
    struct view view; /* of the thread that unlocked or posted last */
    uint16_t written[ORDER_THREADS], read[ORDER_THREADS];
};

enum thread_state { READY, ASLEEP, LOCKED_OUT, WAITS_POST, ENDED };

struct thread {
    jmp_buf context;
    bool started;
    enum thread_state state;
    const void *on; /* what it waits for */
    struct view now, acquired, released;
};

struct choice {
    uint16_t value, count;
};

static struct {
    const struct order_scenario *scenario;
    struct thread thread[ORDER_THREADS];
    unsigned n_threads, current, steps;
    bool running, ending, tracing;
    struct location location[LOCATIONS];
    unsigned n_locations;
    struct object object[LOCATIONS];
    unsigned n_objects;
    struct view sc;
    /* the choices of this run */
    struct choice choice[CHOICES_MAX];
    unsigned n_choices, at_choice;
    unsigned deviations; /* left */
    bool random;
    uint64_t seed;
    unsigned rarely; /* random: one choice in so many deviates */
    unsigned long runs;
    char failure[512];
} x;

static ucontext_t starter[ORDER_THREADS], scheduler_start;
static jmp_buf scheduler;
static unsigned char stacks[ORDER_THREADS][STACK] __attribute__((aligned(64)));

/* --- choices --- */

static unsigned draw_below(unsigned n)
{
    x.seed = x.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((x.seed >> 33) % n);
}

/* One of n; a deviation when it is not 0, unless it is `free`. */
static unsigned choose_one(unsigned n, bool is_free)
{
    struct choice *c;

    if (n <= 1 || (!is_free && x.deviations == 0))
        return 0;
    if (x.at_choice == CHOICES_MAX)
        order_fail("too many choices", "");
    c = &x.choice[x.at_choice++];
    if (x.random && x.at_choice > x.n_choices) {
        x.n_choices = x.at_choice;
        c->value = 0;
        if (is_free || draw_below(x.rarely) == 0)
            c->value = (uint16_t)draw_below(n);
    } else if (x.at_choice > x.n_choices) {
        x.n_choices = x.at_choice;
        *c = (struct choice){0, (uint16_t)n};
    }
    if (c->value != 0 && !is_free)
        x.deviations--;
    return c->value;
}

/* The next run in depth-first order. False: there is none. */
static bool next_choices(void)
{
    while (x.n_choices > 0) {
        struct choice *c = &x.choice[x.n_choices - 1];

        if (++c->value < c->count)
            return true;
        x.n_choices--;
    }
    return false;
}

/* --- coroutines --- */

static struct thread *current_thread(void)
{
    return &x.thread[x.current];
}

unsigned order_self(void)
{
    return x.current;
}

static void start_thread(unsigned i)
{
    x.scenario->thread[i]();
    x.thread[i].state = ENDED;
    _longjmp(scheduler, 1);
}

static void go_on(unsigned to)
{
    struct thread *t = &x.thread[to];

    x.current = to;
    if (t->started)
        _longjmp(t->context, 1);
    t->started = true;
    setcontext(&starter[to]);
}

/* Which thread goes on when the current one cannot. Does not return unless there is none. */
static void run_ready_thread(void)
{
    unsigned ready[ORDER_THREADS], n = 0;

    for (unsigned i = 0; i < x.n_threads; i++)
        if (x.thread[i].state == READY)
            ready[n++] = i;
    if (n > 0)
        go_on(ready[choose_one(n, true)]);
}

/* The current thread waits; it comes back when another one has made it READY. */
static void block_thread(enum thread_state state, const void *on)
{
    struct thread *t = current_thread();

    t->state = state;
    t->on = on;
    if (_setjmp(t->context) == 0)
        _longjmp(scheduler, 1);
}

static void wake_threads(enum thread_state state, const void *on, unsigned n)
{
    for (unsigned i = 0; i < x.n_threads && n > 0; i++)
        if (x.thread[i].state == state && x.thread[i].on == on) {
            x.thread[i].state = READY;
            n--;
        }
}

/* Before each operation that others can see: another thread may go on instead. */
static void take_step(void)
{
    unsigned other[ORDER_THREADS], n = 1, to;

    if (++x.steps > STEPS_MAX)
        order_fail("no thread gets anywhere", "");
    for (unsigned i = 0; i < x.n_threads; i++)
        if (i != x.current && x.thread[i].state == READY)
            other[n++] = i;
    to = choose_one(n, false);
    if (to != 0 && _setjmp(current_thread()->context) == 0)
        go_on(other[to]);
}

__attribute__((format(printf, 2, 3))) static void trace(const char *at, const char *format, ...)
{
    va_list list;

    if (!x.tracing)
        return;
    fprintf(stderr, "  thread %u: ", x.current);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "   %s\n", at);
}

void order_fail(const char *what, const char *at)
{
    snprintf(x.failure, sizeof(x.failure), "%s: thread %u: %s (%s)", x.scenario->name, x.current,
             what, at);
    trace(at, "FAILS: %s", what);
    if (x.running || x.ending)
        _longjmp(scheduler, 1);
    abort();
}

/* --- views --- */

static unsigned get_position(unsigned l, unsigned message)
{
    return x.location[l].message[message].position;
}

static void raise_view(struct view *v, unsigned l, unsigned message)
{
    if (get_position(l, message) > get_position(l, v->message[l]))
        v->message[l] = (uint8_t)message;
}

static void join_messages(struct view *v, const struct view *more)
{
    for (unsigned l = 0; l < x.n_locations; l++)
        if (more->message[l] != v->message[l])
            raise_view(v, l, more->message[l]);
}

static void join_views(struct view *v, const struct view *more)
{
    join_messages(v, more);
    for (unsigned i = 0; i < x.n_threads; i++)
        if (more->clock[i] > v->clock[i])
            v->clock[i] = more->clock[i];
}

/* What a thread does from here on is not part of a view that was given away before. */
static void tick_clock(struct thread *t)
{
    t->now.clock[x.current]++;
}

/* --- locations --- */

static uint64_t memory_get(const volatile void *p, size_t size)
{
    switch (size) {
    case 1:
        return *(const volatile uint8_t *)p;
    case 2:
        return *(const volatile uint16_t *)p;
    case 4:
        return *(const volatile uint32_t *)p;
    default:
        return *(const volatile uint64_t *)p;
    }
}

static void memory_set(volatile void *p, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)p = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)p = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)p = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)p = value;
    }
}

static uint64_t cut_value(uint64_t value, size_t size)
{
    return size == 8 ? value : value & ((UINT64_C(1) << 8 * size) - 1);
}

static unsigned find_location(const volatile void *p, size_t size)
{
    struct location *l;

    for (unsigned i = 0; i < x.n_locations; i++)
        if (x.location[i].address == p)
            return i;
    if (x.n_locations == LOCATIONS)
        order_fail("too many locations", "");
    l = &x.location[x.n_locations];
    l->address = (volatile void *)p;
    l->size = size;
    l->n = 1;
    l->order[0] = 0;
    /* The initial value tells nothing. */
    memset(&l->message[0], 0, sizeof(l->message[0]));
    l->message[0].value = memory_get(p, size);
    return x.n_locations++;
}

/* The oldest position of location l that the current thread may read, or place a store after. */
static unsigned find_oldest(unsigned l, int order)
{
    unsigned p = get_position(l, current_thread()->now.message[l]);

    if (order == memory_order_seq_cst && get_position(l, x.sc.message[l]) > p)
        p = get_position(l, x.sc.message[l]);
    return p;
}

static bool followed_by_adjacent(const struct location *l, unsigned p)
{
    return p + 1 < l->n && l->message[l->order[p + 1]].adjacent;
}

static bool is_acquire(int order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst || order == memory_order_consume;
}

static bool is_release(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

/* The current thread reads a message. */
static uint64_t read_message(unsigned l, unsigned message, int order)
{
    struct thread *t = current_thread();
    const struct message *m = &x.location[l].message[message];

    raise_view(&t->now, l, message);
    join_views(is_acquire(order) ? &t->now : &t->acquired, &m->view);
    return m->value;
}

/* The current thread writes, after the message at position p. */
static void write_message(unsigned number, unsigned p, uint64_t value, int order,
                          const struct message *read)
{
    struct location *l = &x.location[number];
    struct thread *t = current_thread();
    unsigned id = l->n;
    struct message *m = &l->message[id];

    if (l->n == MESSAGES)
        order_fail("too many stores", "");
    for (unsigned i = l->n++; i > p + 1; i--) {
        l->order[i] = l->order[i - 1];
        l->message[l->order[i]].position = (uint8_t)i;
    }
    l->order[p + 1] = (uint8_t)id;
    *m = (struct message){cut_value(value, l->size), (uint8_t)(p + 1), read != NULL,
                          is_release(order) ? t->now : t->released};
    if (read)
        join_views(&m->view, &read->view);
    raise_view(&m->view, number, id);
    raise_view(&t->now, number, id);
    if (order == memory_order_seq_cst)
        raise_view(&x.sc, number, id);
    tick_clock(t);
    if (p + 2 == l->n)
        memory_set(l->address, l->size, m->value);
}

/* --- operations --- */

uint64_t order_load(const volatile void *p, size_t size, int order, const char *at)
{
    unsigned l, last, stale;
    uint64_t value;

    if (!x.running)
        return memory_get(p, size);
    take_step();
    l = find_location(p, size);
    last = x.location[l].n - 1;
    stale = choose_one(last - find_oldest(l, order) + 1, false);
    value = read_message(l, x.location[l].order[last - stale], order);
    trace(at, "loads %#llx from location %u%s", (unsigned long long)value, l,
          stale ? ", stale" : "");
    return value;
}

void order_store(volatile void *p, size_t size, uint64_t value, int order, const char *at)
{
    unsigned l, n = 0, from;
    uint8_t place[MESSAGES];

    if (!x.running) {
        memory_set(p, size, value);
        return;
    }
    take_step();
    l = find_location(p, size);
    from = find_oldest(l, order);
    for (unsigned i = x.location[l].n; i-- > from;)
        if (!followed_by_adjacent(&x.location[l], i))
            place[n++] = (uint8_t)i;
    from = choose_one(n, false);
    write_message(l, place[from], value, order, NULL);
    trace(at, "stores %#llx to location %u%s", (unsigned long long)value, l,
          from ? ", before a later one" : "");
}

/* The position of a message that a read-modify-write can read. */
static unsigned choose_adjacent(unsigned l, int order, const uint64_t *expected)
{
    const struct location *o = &x.location[l];
    uint8_t place[MESSAGES];
    unsigned n = 0, from = find_oldest(l, order);

    for (unsigned i = o->n; i-- > from;)
        if (!followed_by_adjacent(o, i) || (expected && o->message[o->order[i]].value != *expected))
            place[n++] = (uint8_t)i;
    return place[choose_one(n, false)];
}

uint64_t order_rmw(volatile void *p, size_t size, enum order_rmw what, uint64_t value, int order,
                   const char *at)
{
    unsigned l, from, id;
    uint64_t old, new[5];

    if (x.running)
        take_step();
    l = x.running ? find_location(p, size) : 0;
    from = x.running ? choose_adjacent(l, order, NULL) : 0;
    id = x.running ? x.location[l].order[from] : 0;
    old = x.running ? read_message(l, id, order) : memory_get(p, size);
    new[ORDER_ADD] = old + value;
    new[ORDER_SUB] = old - value;
    new[ORDER_OR] = old | value;
    new[ORDER_AND] = old &value;
    new[ORDER_SWAP] = value;
    if (!x.running) {
        memory_set(p, size, new[what]);
        return old;
    }
    write_message(l, from, new[what], order, &x.location[l].message[id]);
    trace(at, "changes %#llx of location %u to %#llx", (unsigned long long)old, l,
          (unsigned long long)cut_value(new[what], size));
    return old;
}

bool order_exchange(volatile void *p, size_t size, uint64_t *expected, uint64_t value, int yes,
                    int no, const char *at)
{
    unsigned l, from, id;
    uint64_t old;

    if (!x.running) {
        old = memory_get(p, size);
        if (old == *expected)
            memory_set(p, size, value);
    } else {
        take_step();
        l = find_location(p, size);
        from = choose_adjacent(l, yes, expected);
        id = x.location[l].order[from];
        old = read_message(l, id, x.location[l].message[id].value == *expected ? yes : no);
        if (old == *expected)
            write_message(l, from, value, yes, &x.location[l].message[id]);
        trace(at, "%s %#llx of location %u to %#llx",
              old == *expected ? "exchanges" : "fails to exchange", (unsigned long long)old, l,
              (unsigned long long)value);
    }
    if (old == *expected)
        return true;
    *expected = old;
    return false;
}

static void fence_of(struct thread *t, int order)
{
    if (is_acquire(order))
        join_views(&t->now, &t->acquired);
    if (order == memory_order_seq_cst) {
        /* Not the clocks: what only two such fences order is still a race for plain data. */
        join_messages(&t->now, &x.sc);
        join_messages(&x.sc, &t->now);
    }
    if (is_release(order))
        t->released = t->now;
}

void order_fence(int order, const char *at)
{
    if (!x.running)
        return;
    if (order == memory_order_seq_cst)
        take_step();
    fence_of(current_thread(), order);
    tick_clock(current_thread());
    trace(at, "fence");
}

void order_membarrier(void)
{
    if (!x.running)
        return;
    take_step();
    /* The caller first and last: each of the others stands between two full fences of it. */
    fence_of(current_thread(), memory_order_seq_cst);
    for (unsigned i = 0; i < x.n_threads; i++)
        fence_of(&x.thread[i], memory_order_seq_cst);
    fence_of(current_thread(), memory_order_seq_cst);
    trace("", "membarrier");
}

/* --- sleeping --- */

void order_futex_wait(const _Atomic uint32_t *word, uint32_t expected, const char *at)
{
    unsigned l, last;

    take_step();
    fence_of(current_thread(), memory_order_seq_cst);
    l = find_location(word, sizeof(*word));
    last = x.location[l].n - 1;
    last -= choose_one(last - find_oldest(l, memory_order_relaxed) + 1, false);
    if (read_message(l, x.location[l].order[last], memory_order_relaxed) != expected) {
        trace(at, "does not sleep on location %u", l);
        return;
    }
    trace(at, "sleeps on location %u", l);
    block_thread(ASLEEP, (const void *)word);
    trace(at, "wakes");
}

void order_futex_wake(const _Atomic uint32_t *word, unsigned n, const char *at)
{
    take_step();
    fence_of(current_thread(), memory_order_seq_cst);
    wake_threads(ASLEEP, (const void *)word, n);
    trace(at, "wakes sleepers");
}

static struct object *find_object(const void *address)
{
    struct object *o;

    for (unsigned i = 0; i < x.n_objects; i++)
        if (x.object[i].address == address)
            return &x.object[i];
    if (x.n_objects == LOCATIONS)
        order_fail("too many objects", "");
    o = &x.object[x.n_objects++];
    memset(o, 0, sizeof(*o));
    o->address = address;
    return o;
}

void order_lock(const void *lock)
{
    struct object *o;

    if (!x.running)
        return;
    take_step();
    o = find_object(lock);
    while (o->held_by != 0)
        block_thread(LOCKED_OUT, lock);
    o->held_by = 1 + x.current;
    join_views(&current_thread()->now, &o->view);
    trace("", "locks");
}

void order_unlock(const void *lock)
{
    struct object *o;

    if (!x.running)
        return;
    o = find_object(lock);
    join_views(&o->view, &current_thread()->now);
    tick_clock(current_thread());
    o->held_by = 0;
    wake_threads(LOCKED_OUT, lock, UINT32_MAX);
    trace("", "unlocks");
}

void order_post(const void *object)
{
    struct object *o;

    take_step();
    o = find_object(object);
    o->posts++;
    join_views(&o->view, &current_thread()->now);
    tick_clock(current_thread());
    wake_threads(WAITS_POST, object, UINT32_MAX);
    trace("", "posts");
}

void order_wait_post(const void *object)
{
    struct object *o;

    take_step();
    o = find_object(object);
    trace("", "waits for a post");
    while (o->posts == 0)
        block_thread(WAITS_POST, object);
    o->posts = 0;
    join_views(&current_thread()->now, &o->view);
    trace("", "takes posts");
}

/* --- plain data --- */

void order_plain_read(const void *data, const char *at)
{
    struct object *o;
    const struct view *now = &current_thread()->now;

    if (!x.running)
        return;
    o = find_object(data);
    for (unsigned i = 0; i < x.n_threads; i++)
        if (i != x.current && o->written[i] > now->clock[i])
            order_fail("data race: reads what another thread writes", at);
    o->read[x.current] = now->clock[x.current];
    trace(at, "reads data");
}

void order_plain_write(const void *data, const char *at)
{
    struct object *o;
    const struct view *now = &current_thread()->now;

    if (!x.running)
        return;
    o = find_object(data);
    for (unsigned i = 0; i < x.n_threads; i++)
        if (i != x.current && (o->written[i] > now->clock[i] || o->read[i] > now->clock[i]))
            order_fail("data race: writes what another thread uses", at);
    o->written[x.current] = now->clock[x.current];
    trace(at, "writes data");
}

/* --- runs --- */

static void begin_run(void)
{
    x.n_locations = x.n_objects = 0;
    x.at_choice = x.steps = x.current = 0;
    x.deviations = x.random ? UINT32_MAX : x.scenario->deviations;
    x.failure[0] = 0;
    memset(&x.sc, 0, sizeof(x.sc));
    for (x.n_threads = 0; x.n_threads < ORDER_THREADS && x.scenario->thread[x.n_threads];
         x.n_threads++) {
        struct thread *t = &x.thread[x.n_threads];
        ucontext_t *c = &starter[x.n_threads];

        t->started = false;
        t->state = READY;
        memset(&t->now, 0, sizeof(t->now));
        memset(&t->acquired, 0, sizeof(t->acquired));
        memset(&t->released, 0, sizeof(t->released));
        t->now.clock[x.n_threads] = 1; /* 0: never */
        *c = scheduler_start;
        c->uc_stack.ss_sp = stacks[x.n_threads];
        c->uc_stack.ss_size = STACK;
        c->uc_link = NULL;
        makecontext(c, (void (*)(void))start_thread, 1, x.n_threads);
    }
    x.scenario->begin();
}

/* False: it went wrong, and x.failure says how. */
static bool run_once(void)
{
    begin_run();
    x.runs++;
    x.running = true;
    (void)_setjmp(scheduler);
    if (x.failure[0] == 0)
        run_ready_thread();
    for (unsigned i = 0; i < x.n_threads && x.failure[0] == 0; i++)
        if (x.thread[i].state != ENDED)
            snprintf(x.failure, sizeof(x.failure), "%s: thread %u sleeps for ever",
                     x.scenario->name, i);
    x.running = false;
    if (x.failure[0] == 0 && x.scenario->end && _setjmp(scheduler) == 0) {
        x.ending = true;
        x.scenario->end();
    }
    x.ending = false;
    return x.failure[0] == 0;
}

static const char *tell_failure(void)
{
    if (getenv("ORDER_TRACE")) {
        x.tracing = true;
        run_once();
        x.tracing = false;
        fprintf(stderr, "  %s\n", x.failure);
    }
    return x.failure;
}

const char *order_explore(const struct order_scenario *scenario)
{
    x.scenario = scenario;
    x.runs = 0;
    x.random = false;
    x.n_choices = 0;
    getcontext(&scheduler_start);
    do {
        if (!run_once())
            return tell_failure();
    } while (next_choices());
    x.random = true;
    for (unsigned i = 0; i < scenario->random; i++) {
        x.seed = i * UINT64_C(0x9e3779b97f4a7c15) + 1;
        x.n_choices = 0;
        x.rarely = 2 + i % 15;
        if (!run_once())
            return tell_failure();
    }
    return NULL;
}

unsigned long order_runs(void)
{
    return x.runs;
}
