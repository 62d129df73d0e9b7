/* Random programs, and the order of their steps. */
#include <string.h>

#include "tests/common/chance.h"
#include "tests/unit/check_program.h"

#define OBJECTS  3u /* of each kind */
#define MEMORIES 3u

/* What a kind of step means to others of its object and round. */
static const struct {
    const char *name;
    bool is_host;
    uint8_t wait_for; /* steps of that kind, of the same round; 0: it is no wait */
    uint8_t or_for;   /* or of that */
    uint8_t needs;    /* how many */
} kinds[STEP_KINDS] = {
    [STEP_ACCESS] = {"access"},
    [STEP_RECORD] = {"record"},
    [STEP_WAIT] = {"wait", .wait_for = STEP_RECORD, .needs = 1},
    [STEP_LEVEL_RECORD] = {"level record"},
    [STEP_LEVEL_WAIT] = {"level wait", .wait_for = STEP_LEVEL_RECORD, .needs = 1},
    [STEP_NOTIFY_RECORD] = {"notify record"},
    [STEP_NOTIFY_WAIT] = {"notify wait", .wait_for = STEP_NOTIFY_RECORD, .needs = 1},
    [STEP_COUNT_RECORD] = {"count record"},
    [STEP_COUNT_WAIT] = {"count wait", .wait_for = STEP_COUNT_RECORD, .needs = 2},
    [STEP_VALUE_WRITE] = {"value write"},
    [STEP_VALUE_SET] = {"set of a word"},
    [STEP_VALUE_WAIT] = {"value wait", .wait_for = STEP_VALUE_WRITE, .or_for = STEP_VALUE_SET,
                         .needs = 1},
    [STEP_CALLBACK] = {"callback"},
    [STEP_SYNC] = {"synchronise", .is_host = true},
    [STEP_SYNC_EVENT] = {"synchronise event", .is_host = true, .wait_for = STEP_RECORD},
    [STEP_BEGIN] = {"callback begins", .is_host = true},
    [STEP_END] = {"callback ends", .is_host = true},
    [STEP_DESTROY] = {"destroy stream", .is_host = true},
    [STEP_FREE] = {"free", .is_host = true},
};

const char *step_name(const struct step *s)
{
    return kinds[s->kind].name;
}

static bool is_host_step(const struct step *s)
{
    return kinds[s->kind].is_host || s->stream < 0;
}

/* A record of the wait's round. */
static bool is_cause(const struct step *wait, const struct step *s)
{
    return kinds[wait->kind].wait_for != 0 && s->object == wait->object &&
           s->round == wait->round && !s->gone &&
           (s->kind == kinds[wait->kind].wait_for ||
            (kinds[wait->kind].or_for && s->kind == kinds[wait->kind].or_for));
}

/* ----------------------------------------------------------------------------- the reference */

struct closing {
    const struct program *p;
    struct bits *before;
};

/* The latest operation of the stream before step i, up to step `since`. */
static int find_given(const struct program *p, uint32_t i, int8_t stream, uint32_t since)
{
    for (uint32_t j = i; j-- > 0;)
        if (j <= since && !p->step[j].gone && p->step[j].stream == stream &&
            !is_host_step(&p->step[j]))
            return (int)j;
    return -1;
}

static int find_host(const struct program *p, uint32_t i)
{
    for (uint32_t j = i; j-- > 0;)
        if (!p->step[j].gone && is_host_step(&p->step[j]))
            return (int)j;
    return -1;
}

static void add_edge(struct closing *c, int from, uint32_t to)
{
    if (from >= 0)
        bit_set(&c->before[to], (uint32_t)from);
}

/* A blocking callback lets the stream go on when it ends. */
static void add_end(struct closing *c, uint32_t i, int previous)
{
    if (previous < 0 || c->p->step[previous].kind != STEP_CALLBACK || !c->p->step[previous].block)
        return;
    for (uint32_t j = 0; j < c->p->n; j++)
        if (c->p->step[j].kind == STEP_END && c->p->step[j].since == (uint32_t)previous)
            add_edge(c, (int)j, i);
}

static void add_causes(struct closing *c, uint32_t i)
{
    for (uint32_t j = 0; j < c->p->n; j++)
        if (is_cause(&c->p->step[i], &c->p->step[j]))
            add_edge(c, (int)j, i);
}

static void add_host_edges(struct closing *c, uint32_t i)
{
    const struct step *s = &c->p->step[i];

    if (s->kind == STEP_SYNC || s->kind == STEP_DESTROY)
        add_edge(c, find_given(c->p, i, s->stream, s->kind == STEP_SYNC ? s->since : i), i);
    else if (s->kind == STEP_BEGIN)
        add_edge(c, (int)s->since, i);
}

static void add_edges(struct closing *c, uint32_t i)
{
    const struct step *s = &c->p->step[i];
    int previous;

    add_edge(c, find_host(c->p, i), i);
    add_causes(c, i);
    if (is_host_step(s)) {
        add_host_edges(c, i);
        return;
    }
    previous = find_given(c->p, i, s->stream, i);
    add_edge(c, previous, i);
    add_end(c, i, previous);
}

static void join_bits(struct bits *to, const struct bits *from)
{
    for (unsigned w = 0; w < PROGRAM_STEPS / 64; w++)
        to->word[w] |= from->word[w];
}

bool program_close(const struct program *p, struct bits before[PROGRAM_STEPS])
{
    struct closing c = {p, before};

    memset(before, 0, PROGRAM_STEPS * sizeof(*before));
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->step[i].gone)
            add_edges(&c, i);
    for (uint32_t k = 0; k < p->n; k++)
        for (uint32_t i = 0; i < p->n; i++)
            if (bit_is_set(&before[i], k))
                join_bits(&before[i], &before[k]);
    for (uint32_t i = 0; i < p->n; i++)
        if (bit_is_set(&before[i], i))
            return false;
    return true;
}

static bool uses_block(const struct step *s, unsigned memory, unsigned block)
{
    if (s->gone || s->memory != memory)
        return false;
    return s->kind == STEP_FREE ||
           (s->kind == STEP_ACCESS && s->first <= block && block <= s->last);
}

bool steps_conflict(const struct program *p, uint32_t a, uint32_t b, unsigned memory,
                    unsigned block)
{
    const struct step *x = &p->step[a], *y = &p->step[b];

    return a != b && uses_block(x, memory, block) && uses_block(y, memory, block) &&
           (x->writes || y->writes);
}

bool program_take_out(struct program *p, uint32_t i)
{
    struct step *s = &p->step[i];

    if (s->gone || kinds[s->kind].needs == 0)
        return false;
    for (uint32_t j = 0; j < p->n; j++)
        if ((s->kind == STEP_NOTIFY_WAIT || s->kind == STEP_COUNT_WAIT) && is_cause(s, &p->step[j]))
            p->step[j].gone = true;
    s->gone = true;
    return true;
}

/* -------------------------------------------------------------------------------- the device */

struct round {
    uint32_t number;
    uint32_t records, waits;
};

struct maker {
    struct program *p;
    uint64_t chance;
    bool clean;
    bool over[PROGRAM_STEPS];  /* was executed */
    bool known[PROGRAM_STEPS]; /* ... and the host has learned it from its stream */
    bool begun[PROGRAM_STEPS], ended[PROGRAM_STEPS];
    bool destroyed[PROGRAM_STREAMS];
    bool freed[MEMORIES];
    uint32_t recorded[2 * OBJECTS];          /* newest record */
    struct round round[STEP_KINDS][OBJECTS]; /* by the kind of the wait */
    struct bits before[PROGRAM_STEPS];       /* clean: what is known already */
};

static bool can_execute(const struct maker *k, uint32_t i)
{
    const struct step *s = &k->p->step[i];
    unsigned n = 0;

    if (s->kind == STEP_CALLBACK)
        return !s->block || k->ended[i];
    for (uint32_t j = 0; j < k->p->n; j++)
        n += is_cause(s, &k->p->step[j]) && k->over[j];
    return n >= kinds[s->kind].needs;
}

/* The operation that its stream has got to; -1: none. */
static int find_head(const struct maker *k, int8_t stream)
{
    for (uint32_t i = 0; i < k->p->n; i++)
        if (k->p->step[i].stream == stream && !is_host_step(&k->p->step[i]) && !k->over[i])
            return (int)i;
    return -1;
}

static bool execute_one(struct maker *k, int8_t stream)
{
    int head = find_head(k, stream);

    if (head < 0 || !can_execute(k, (uint32_t)head))
        return false;
    k->over[head] = true;
    return true;
}

static void execute_some(struct maker *k, unsigned n)
{
    while (n-- > 0)
        execute_one(k, (int8_t)draw_below(&k->chance, k->p->streams));
}

/* --------------------------------------------------------------------------------- the maker */

static bool is_full(const struct maker *k)
{
    return k->p->n + 16 >= PROGRAM_STEPS;
}

static uint32_t add_step(struct maker *k, struct step s)
{
    struct closing c = {k->p, k->before};
    uint32_t i = k->p->n++;

    k->p->step[i] = s;
    if (k->clean) {
        struct bits direct;

        add_edges(&c, i);
        direct = k->before[i];
        for (uint32_t j = 0; j < i; j++)
            if (bit_is_set(&direct, j))
                join_bits(&k->before[i], &k->before[j]);
    }
    return i;
}

static int8_t draw_stream(struct maker *k)
{
    int8_t stream;

    do
        stream = (int8_t)draw_below(&k->chance, k->p->streams);
    while (k->destroyed[stream]);
    return stream;
}

/* Events 0 .. OBJECTS - 1 are those of process 0 .. 2, the rest is for all. */
static uint8_t draw_event(struct maker *k, int8_t from, int8_t to)
{
    if (k->p->process[from] == k->p->process[to] && draw_chance(&k->chance, 50))
        return k->p->process[from];
    return (uint8_t)(OBJECTS + draw_below(&k->chance, OBJECTS));
}

static void add_record(struct maker *k, int8_t stream, uint8_t event)
{
    add_step(k, (struct step){.kind = STEP_RECORD,
                              .stream = stream,
                              .object = event,
                              .round = ++k->recorded[event]});
}

static void add_event(struct maker *k)
{
    int8_t stream = draw_stream(k);
    uint8_t event = draw_event(k, stream, stream);

    if (draw_chance(&k->chance, 50))
        add_record(k, stream, event);
    else if (k->recorded[event] > 0)
        add_step(k, (struct step){.kind = STEP_WAIT,
                                  .stream = stream,
                                  .object = event,
                                  .round = k->recorded[event]});
}

/* All waits of the round are known to be over: another round cannot disturb them. */
static bool is_round_over(const struct maker *k, uint8_t wait, uint8_t object)
{
    const struct round *r = &k->round[wait][object];

    for (uint32_t i = 0; i < k->p->n; i++) {
        const struct step *s = &k->p->step[i];

        if (s->object == object && s->round == r->number &&
            (s->kind == wait ||
             is_cause(&(struct step){.kind = wait, .object = object, .round = r->number}, s)) &&
            !k->known[i])
            return false;
    }
    return r->waits > 0 && r->records >= kinds[wait].needs;
}

static struct round *open_round(struct maker *k, uint8_t wait, uint8_t object)
{
    struct round *r = &k->round[wait][object];

    if (r->number == 0 || is_round_over(k, wait, object))
        *r = (struct round){.number = r->number + 1};
    return r;
}

/* A level stays up: there is one round only. */
static bool may_wait(uint8_t wait, const struct round *r)
{
    return wait == STEP_VALUE_WAIT || wait == STEP_LEVEL_WAIT ? r->waits < 3 : r->waits == 0;
}

static void add_of_round(struct maker *k, uint8_t wait, uint8_t object, int8_t stream, bool waits)
{
    struct round *r = &k->round[wait][object];
    uint8_t record = kinds[wait].wait_for;

    if (kinds[wait].or_for && draw_chance(&k->chance, 30))
        record = kinds[wait].or_for;
    if (waits)
        r->waits++;
    else
        r->records++;
    add_step(k, (struct step){.kind = waits ? wait : record,
                              .stream = stream,
                              .object = object,
                              .round = r->number});
}

static const uint8_t round_waits[] = {STEP_LEVEL_WAIT, STEP_NOTIFY_WAIT, STEP_COUNT_WAIT,
                                      STEP_VALUE_WAIT};

/* Records and waits of a round, whichever is first. */
static void add_signal(struct maker *k)
{
    uint8_t wait = round_waits[draw_below(&k->chance, sizeof(round_waits))];
    uint8_t object = (uint8_t)draw_below(&k->chance, OBJECTS);
    struct round *r = &k->round[wait][object];
    bool waits = draw_chance(&k->chance, 50);
    int8_t stream = draw_stream(k);

    /* A level is of one process. */
    if (wait == STEP_LEVEL_WAIT && k->p->process[stream] != object % k->p->processes)
        return;
    if (r->number == 0 || wait != STEP_LEVEL_WAIT)
        r = open_round(k, wait, object);
    /* In a program without races the records come first. */
    if (waits && k->clean && r->records < kinds[wait].needs)
        waits = false;
    if (waits ? may_wait(wait, r) : r->records < kinds[wait].needs)
        add_of_round(k, wait, object, stream, waits);
}

static void note_known(struct maker *k, int8_t stream, uint32_t since)
{
    for (uint32_t i = 0; i <= since && i < k->p->n; i++)
        if (k->p->step[i].stream == stream && !is_host_step(&k->p->step[i]))
            k->known[i] = true;
}

static void sync_until(struct maker *k, int8_t stream, uint32_t since)
{
    add_step(k, (struct step){.kind = STEP_SYNC, .stream = stream, .since = since});
    note_known(k, stream, since);
}

/* Of what the stream has executed, or of a part of that. */
static void add_sync(struct maker *k)
{
    int8_t stream = draw_stream(k);
    int head = find_head(k, stream);
    uint32_t since = head < 0 ? k->p->n : (uint32_t)head;

    if (since == 0)
        return;
    since = draw_chance(&k->chance, 70) ? since - 1 : draw_below(&k->chance, since);
    sync_until(k, stream, since);
}

static void add_sync_event(struct maker *k)
{
    uint8_t event = (uint8_t)draw_below(&k->chance, 2 * OBJECTS);
    uint32_t round = k->recorded[event];

    for (uint32_t i = 0; i < k->p->n && round > 0; i++) {
        const struct step *s = &k->p->step[i];

        if (s->kind == STEP_RECORD && s->object == event && s->round == round && k->over[i]) {
            add_step(k,
                     (struct step){
                         .kind = STEP_SYNC_EVENT, .stream = -1, .object = event, .round = round});
            return;
        }
    }
}

/* Of the callbacks that streams have got to: one begins, or one that has begun ends. */
static void run_callbacks(struct maker *k, unsigned percent)
{
    bool busy[PROGRAM_STREAMS] = {false};

    for (uint32_t i = 0, n = k->p->n; i < n && !is_full(k); i++) {
        const struct step *s = &k->p->step[i];

        if (s->kind != STEP_CALLBACK || k->ended[i] || busy[s->stream])
            continue;
        /* A thread runs the callbacks of a stream one after the other. */
        busy[s->stream] = true;
        if (!draw_chance(&k->chance, percent))
            continue;
        if (!k->begun[i] && (k->over[i] || find_head(k, s->stream) == (int)i)) {
            add_step(k, (struct step){.kind = STEP_BEGIN, .stream = s->stream, .since = i});
            k->begun[i] = true;
        } else if (k->begun[i]) {
            add_step(k, (struct step){.kind = STEP_END, .stream = s->stream, .since = i});
            k->ended[i] = true;
        }
    }
}

static void add_callback(struct maker *k)
{
    add_step(k, (struct step){.kind = STEP_CALLBACK,
                              .stream = draw_stream(k),
                              .block = draw_chance(&k->chance, 50)});
}

static void execute_all(struct maker *k)
{
    for (bool more = true; more;) {
        uint32_t n = k->p->n;

        run_callbacks(k, 100);
        more = k->p->n > n;
        for (uint32_t i = 0; i < k->p->streams; i++)
            while (execute_one(k, (int8_t)i))
                more = true;
    }
}

static void destroy_stream(struct maker *k)
{
    int8_t stream = draw_stream(k);

    if (k->p->streams == PROGRAM_STREAMS || find_head(k, stream) >= 0)
        return;
    add_step(k, (struct step){.kind = STEP_DESTROY, .stream = stream});
    note_known(k, stream, k->p->n);
    k->destroyed[stream] = true;
    k->p->process[k->p->streams++] = k->p->process[stream];
}

/* ------------------------------------------------------------------------- without races */

static bool is_ordered(const struct maker *k, uint32_t before, int8_t stream)
{
    int host = find_host(k->p, k->p->n);
    int given = stream < 0 ? -1 : find_given(k->p, k->p->n, stream, k->p->n);

    return (host >= 0 && ((int)before == host || bit_is_set(&k->before[host], before))) ||
           (given >= 0 && ((int)before == given || bit_is_set(&k->before[given], before)));
}

static void order_by_event(struct maker *k, int8_t from, int8_t to)
{
    uint8_t event = draw_event(k, from, to);

    add_record(k, from, event);
    add_step(k, (struct step){
                    .kind = STEP_WAIT, .stream = to, .object = event, .round = k->recorded[event]});
}

static void order_by_round(struct maker *k, int8_t from, int8_t to)
{
    uint8_t wait = draw_chance(&k->chance, 50) ? STEP_NOTIFY_WAIT : STEP_VALUE_WAIT;
    uint8_t object = (uint8_t)draw_below(&k->chance, OBJECTS);
    struct round *r = open_round(k, wait, object);

    if (r->records > 0 || r->waits > 0) {
        order_by_event(k, from, to);
        return;
    }
    add_of_round(k, wait, object, from, false);
    add_of_round(k, wait, object, to, true);
}

static void order_by_host(struct maker *k, int8_t from)
{
    int head;

    execute_all(k);
    head = find_head(k, from);
    sync_until(k, from, head < 0 ? k->p->n - 1 : (uint32_t)head - 1);
}

static void make_order(struct maker *k, uint32_t before, int8_t to)
{
    int8_t from = k->p->step[before].stream;

    if (to < 0 || draw_chance(&k->chance, 20))
        order_by_host(k, from);
    else if (draw_chance(&k->chance, 50))
        order_by_event(k, from, to);
    else
        order_by_round(k, from, to);
}

static void order_access(struct maker *k, const struct step *s)
{
    for (uint32_t i = k->p->n; i-- > 0;) {
        const struct step *other = &k->p->step[i];

        if (is_full(k))
            return;
        if ((other->kind == STEP_ACCESS && other->memory == s->memory &&
             (other->writes || s->writes) && other->first <= s->last && s->first <= other->last) &&
            other->stream != s->stream && !is_ordered(k, i, s->stream))
            make_order(k, i, s->stream);
    }
}

static void add_access(struct maker *k)
{
    struct step s = {.kind = STEP_ACCESS, .stream = draw_stream(k)};

    if (draw_chance(&k->chance, 15))
        s.stream = -1;
    s.writes = draw_chance(&k->chance, 50);
    s.memory = (uint8_t)draw_below(&k->chance, MEMORIES);
    s.first = (uint8_t)draw_below(&k->chance, PROGRAM_BLOCKS);
    s.last = (uint8_t)(s.first + draw_below(&k->chance, PROGRAM_BLOCKS - s.first));
    if (k->freed[s.memory])
        return;
    if (k->clean)
        order_access(k, &s);
    if (!is_full(k))
        add_step(k, s);
}

static void free_memory(struct maker *k)
{
    uint8_t memory = (uint8_t)draw_below(&k->chance, MEMORIES);

    if (k->clean || k->freed[memory] || !draw_chance(&k->chance, 20))
        return;
    add_step(k, (struct step){.kind = STEP_FREE, .stream = -1, .memory = memory, .writes = true});
    k->freed[memory] = true;
}

static void add_callbacks(struct maker *k)
{
    run_callbacks(k, 50);
}

/* The more often, the more lines. */
static void (*const moves[])(struct maker *) = {
    add_access,   add_access,    add_access,    add_access,  add_access,
    add_event,    add_event,     add_event,     add_signal,  add_signal,
    add_signal,   add_signal,    add_sync,      add_sync,    add_sync_event,
    add_callback, add_callbacks, add_callbacks, free_memory, destroy_stream,
};

void program_make(struct program *p, uint64_t seed, bool clean)
{
    struct maker k = {.p = p, .chance = seed, .clean = clean};
    unsigned n;

    memset(p, 0, sizeof(*p));
    p->processes = 1 + draw_below(&k.chance, 3);
    p->streams = 2 + draw_below(&k.chance, 4);
    for (uint32_t i = 0; i < PROGRAM_STREAMS; i++)
        p->process[i] = (uint8_t)(i % p->processes);
    for (n = 10 + draw_below(&k.chance, 60); n > 0 && !is_full(&k); n--) {
        moves[draw_below(&k.chance, sizeof(moves) / sizeof(moves[0]))](&k);
        execute_some(&k, draw_below(&k.chance, 8));
    }
}
