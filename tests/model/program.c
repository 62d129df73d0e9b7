#include "tests/model/program.h"

#include <string.h>

#include "acl/acl.h"
#include "tests/common/chance.h"

/* --- traces --- */

/* The latest step lasts until nothing moves any more. */
static void settle_latest(struct trace *t)
{
    if (!t->model.open || t->n == 0)
        return;
    t->at[t->n - 1].settle = true;
    model_settle(&t->model);
}

static bool try_step(struct trace *t, const struct step *s)
{
    struct traced *at = &t->at[t->n];
    static struct model copy;

    if (t->n == TRACE_MAX)
        return false;
    copy = t->model;
    if (!model_step(&copy, s, &at->expect))
        return false;
    t->model = copy;
    t->n++;
    at->step = *s;
    at->object = copy.var[s->process][s->var].object;
    at->settle = false;
    for (unsigned p = 0; p < PROCESSES; p++)
        model_view(&copy, p, &at->view[p]);
    if (!s->hasty)
        settle_latest(t);
    return true;
}

/* False: the step makes no sense here. */
static bool add_step(struct trace *t, const struct step *s)
{
    if (t->model.open && t->at[t->n - 1].step.process != s->process)
        settle_latest(t);
    if (try_step(t, s))
        return true;
    if (!t->model.open)
        return false;
    settle_latest(t);
    return try_step(t, s);
}

static void begin_trace(struct trace *t)
{
    model_init(&t->model);
    t->n = 0;
}

static void finish_trace(struct trace *t)
{
    struct step s;

    settle_latest(t);
    for (unsigned skip = 0; model_finish(&t->model, skip, &s);)
        skip = add_step(t, &s) ? 0 : skip + 1;
}

bool program_trace(const struct program *p, struct trace *t)
{
    begin_trace(t);
    for (unsigned i = 0; i < p->n; i++)
        add_step(t, &p->step[i]);
    finish_trace(t);
    return model_finished(&t->model);
}

/* --- generation --- */

/*
 * Programs differ in what they are made of: some have one process and one kind of event, some
 * everything at once.
 */
struct taste {
    unsigned processes, streams, vars, steps;
    unsigned hasty; /* percent */
    unsigned stay;  /* percent: the next step is of the same process */
    uint8_t kinds[4];
    unsigned weight[OPS], total;
};

struct maker_state {
    uint64_t random;
    struct taste taste;
    struct program *program;
    struct trace *trace;
    unsigned process;
};

static const uint8_t usual_weight[OPS] = {
    [OP_CREATE] = 8,  [OP_EXPORT] = 4,     [OP_OPEN] = 8,        [OP_DESTROY] = 4,
    [OP_RECORD] = 24, [OP_WAIT] = 24,      [OP_RESET] = 7,       [OP_DELAY] = 5,
    [OP_GATE] = 9,    [OP_UNGATE] = 12,    [OP_QUERY] = 10,      [OP_QUERY_STREAM] = 1,
    [OP_ELAPSED] = 3, [OP_SYNC_EVENT] = 3, [OP_SYNC_STREAM] = 1, [OP_SYNC_DEVICE] = 1,
    [OP_RENEW] = 2,   [OP_SLEEP] = 3,
};

static void choose_taste(struct taste *t, uint64_t *random)
{
    static const uint8_t waitable[] = {KIND_A,           KIND_A,      KIND_B_SYNC,
                                       KIND_B_SYNC_TIME, KIND_C_SYNC, KIND_C_SYNC_TIME,
                                       KIND_IPC,         KIND_IPC,    KIND_IPC};

    t->processes = 1 + draw_below(random, PROCESSES + 1);
    if (t->processes > PROCESSES)
        t->processes = PROCESSES;
    t->streams = 2 + draw_below(random, STREAMS - 1);
    t->vars = 2 + draw_below(random, VARS - 1);
    t->steps = 12 + draw_below(random, 53);
    t->hasty = draw_chance(random, 50) ? 0 : 20 + draw_below(random, 60);
    t->stay = 20 + draw_below(random, 60);
    for (unsigned i = 0; i < 4; i++)
        t->kinds[i] = draw_chance(random, 12) ? (uint8_t)draw_below(random, KINDS)
                                              : waitable[draw_below(random, sizeof(waitable))];
    t->total = 0;
    for (unsigned i = 0; i < OPS; i++) {
        t->weight[i] = usual_weight[i] * (1 + draw_below(random, 4));
        t->total += t->weight[i];
    }
}

static uint8_t choose_op(const struct taste *t, uint64_t *random)
{
    unsigned n = draw_below(random, t->total), op = 0;

    while (n >= t->weight[op])
        n -= t->weight[op++];
    return (uint8_t)op;
}

static bool keep_step(struct maker_state *g, const struct step *s)
{
    static struct model before;
    unsigned n = g->trace->n;
    bool settled = n > 0 && g->trace->at[n - 1].settle;

    before = g->trace->model;
    if (g->program->n == STEPS_MAX || !add_step(g->trace, s))
        return false;
    if (model_has_resets(&g->trace->model) && !model_can_finish(&g->trace->model)) {
        g->trace->model = before;
        g->trace->n = n;
        if (n > 0)
            g->trace->at[n - 1].settle = settled;
        return false;
    }
    g->program->step[g->program->n++] = *s;
    g->process = s->process;
    return true;
}

/* Prefer events that are there; sometimes take whatever it is, a stale handle among others. */
static uint8_t choose_var(struct maker_state *g, unsigned process, bool live)
{
    const struct model_var *v = g->trace->model.var[process];
    unsigned first = draw_below(&g->random, g->taste.vars);

    if (draw_chance(&g->random, 4))
        return (uint8_t)first;
    for (unsigned i = 0; i < g->taste.vars; i++)
        if (v[(first + i) % g->taste.vars].live == live)
            return (uint8_t)((first + i) % g->taste.vars);
    return (uint8_t)first;
}

/* A stream that the event may be recorded on. */
static uint8_t choose_stream(struct maker_state *g, unsigned process, unsigned var,
                             bool same_device)
{
    unsigned s = draw_below(&g->random, g->taste.streams);

    if (same_device && g->trace->model.var[process][var].device != device_of(s))
        s ^= 2;
    return (uint8_t)s;
}

static int choose_result(uint64_t *random)
{
    static const int results[] = {ACL_ERROR_RT_AICORE_EXCEPTION, ACL_ERROR_RT_AICPU_EXCEPTION,
                                  ACL_ERROR_RT_TASK_TIMEOUT};

    return draw_chance(random, 75)
               ? 0
               : results[draw_below(random, sizeof(results) / sizeof(results[0]))];
}

static bool has_live(const struct maker_state *g, unsigned process)
{
    for (unsigned i = 0; i < g->taste.vars; i++)
        if (g->trace->model.var[process][i].live)
            return true;
    return false;
}

static bool var_takes_op(const struct maker_state *g, unsigned process, unsigned var, unsigned op)
{
    const struct model_var *v = &g->trace->model.var[process][var];
    unsigned kind = v->live ? g->trace->model.object[v->object].kind : KIND_C_MARK;

    return op == OP_EXPORT ? kind == KIND_IPC : kind <= KIND_B_SYNC_TIME || kind == KIND_B_EXT;
}

static struct step choose_step(struct maker_state *g)
{
    uint64_t *random = &g->random;
    unsigned process =
        draw_chance(random, g->taste.stay) ? g->process : draw_below(random, g->taste.processes);
    uint8_t op =
        has_live(g, process) || draw_chance(random, 20) ? choose_op(&g->taste, random) : OP_CREATE;
    bool fresh = op == OP_CREATE || op == OP_OPEN;
    bool same = op == OP_RECORD || op == OP_RESET;
    uint8_t var = choose_var(g, process, !fresh);
    uint8_t other =
        op == OP_OPEN ? (uint8_t)draw_below(random, g->taste.processes) : (uint8_t)process;

    /* Refusals are soon known. */
    if ((op == OP_EXPORT || op == OP_RESET) && !var_takes_op(g, process, var, op) &&
        draw_chance(random, 80))
        op = OP_RECORD;
    return (struct step){
        .op = op,
        .process = (uint8_t)process,
        .var = var,
        .stream = choose_stream(g, process, var, same),
        .other_process = other,
        .other_var = choose_var(g, other, op != OP_OPEN || draw_chance(random, 70)),
        .kind = g->taste.kinds[draw_below(random, 4)],
        .variant = (uint8_t)draw_below(random, 4),
        .hasty = draw_chance(random, g->taste.hasty),
        .arg = (int32_t)draw_below(random, 4) == 0 ? (int32_t)draw_below(random, 150)
                                                   : (int32_t)draw_below(random, 10),
        .result = choose_result(random),
    };
}

/* An IPC event is of use when others have it. */
static void share_event(struct maker_state *g, const struct step *made)
{
    struct step s = {.op = OP_EXPORT, .process = made->process, .var = made->var};

    if (!keep_step(g, &s))
        return;
    s.op = OP_OPEN;
    s.other_process = made->process;
    s.other_var = made->var;
    for (unsigned p = 0; p < g->taste.processes; p++) {
        s.process = (uint8_t)p;
        s.var = choose_var(g, p, false);
        s.stream = (uint8_t)draw_below(&g->random, g->taste.streams);
        if (p != made->process && draw_chance(&g->random, 80))
            keep_step(g, &s);
    }
}

/*
 * Two streams of two processes record one event and finish in the other order, with waits between.
 * Chance alone does this too seldom.
 */
static void other_order(struct maker_state *g)
{
    unsigned p = draw_below(&g->random, PROCESSES),
             q = (p + 1 + draw_below(&g->random, PROCESSES - 1)) % PROCESSES;
    unsigned r = draw_below(&g->random, PROCESSES);
    uint8_t a = (uint8_t)p, b = (uint8_t)q, c = (uint8_t)r;
    uint8_t s = (uint8_t)draw_below(&g->random, STREAMS),
            t = (uint8_t)draw_below(&g->random, STREAMS);
    const struct step script[] = {
        {.op = OP_CREATE, .process = a, .var = 0, .stream = s, .kind = KIND_IPC},
        {.op = OP_EXPORT, .process = a, .var = 0},
        {.op = OP_OPEN, .process = b, .var = 1, .stream = t, .other_process = a, .other_var = 0},
        {.op = OP_OPEN, .process = c, .var = 2, .other_process = a, .other_var = 0},
        {.op = OP_GATE, .process = a, .stream = s},
        {.op = OP_RECORD, .process = a, .stream = s, .var = 0},
        {.op = OP_WAIT, .process = c, .stream = (uint8_t)draw_below(&g->random, STREAMS), .var = 2},
        {.op = OP_GATE, .process = b, .stream = t},
        {.op = OP_SLEEP, .process = c, .var = 2},
        {.op = OP_RECORD, .process = b, .stream = t, .var = 1},
        {.op = OP_WAIT, .process = b, .stream = (uint8_t)draw_below(&g->random, STREAMS), .var = 1},
        {.op = OP_UNGATE, .process = b, .stream = t},
        {.op = OP_QUERY, .process = a, .var = 0},
        {.op = OP_WAIT, .process = c, .stream = (uint8_t)draw_below(&g->random, STREAMS), .var = 2},
    };

    for (unsigned i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        keep_step(g, &script[i]);
}

/* A wait that runs out of time, of one of the kinds. */
static void add_expiring_wait(struct maker_state *g)
{
    static const uint8_t kinds[] = {KIND_A, KIND_B_SYNC, KIND_C_SYNC, KIND_IPC};
    uint8_t p = (uint8_t)draw_below(&g->random, PROCESSES),
            s = (uint8_t)draw_below(&g->random, STREAMS);
    const struct step script[] = {
        {.op = OP_CREATE, .process = p, .stream = s, .kind = kinds[draw_below(&g->random, 4)]},
        {.op = OP_GATE, .process = p, .stream = s},
        {.op = OP_RECORD, .process = p, .stream = s},
        {.op = OP_WAIT_EXPIRE,
         .process = p,
         .stream = (uint8_t)((s + 1 + draw_below(&g->random, STREAMS - 1)) % STREAMS)},
        {.op = OP_QUERY, .process = p},
    };

    for (unsigned i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        keep_step(g, &script[i]);
}

void program_generate(struct program *p, uint64_t seed, bool expire)
{
    static struct trace trace;
    struct maker_state g = {
        .random = seed * UINT64_C(0xd1342543de82ef95) + 1, .program = p, .trace = &trace};

    begin_trace(&trace);
    p->seed = seed;
    p->n = 0;
    choose_taste(&g.taste, &g.random);
    if (expire)
        add_expiring_wait(&g);
    else if (draw_chance(&g.random, 8))
        other_order(&g);
    for (unsigned tries = 0; p->n < g.taste.steps && tries < 8 * g.taste.steps; tries++) {
        struct step s = choose_step(&g);

        if (keep_step(&g, &s) && s.op == OP_CREATE && s.kind == KIND_IPC &&
            draw_chance(&g.random, 80))
            share_event(&g, &s);
    }
}

/* --- shrinking --- */

static bool fails_without(struct program *p, unsigned from, unsigned n,
                          bool (*fails)(const struct program *p, void *arg), void *arg)
{
    struct program less = *p;

    memmove(&less.step[from], &less.step[from + n], (less.n - from - n) * sizeof(less.step[0]));
    less.n -= n;
    if (!fails(&less, arg))
        return false;
    *p = less;
    return true;
}

static void calm_steps(struct program *p, bool (*fails)(const struct program *p, void *arg),
                       bool (*enough)(void *arg), void *arg)
{
    for (unsigned i = 0; i < p->n && !enough(arg); i++) {
        struct program calmer = *p;

        if (!p->step[i].hasty)
            continue;
        calmer.step[i].hasty = false;
        if (fails(&calmer, arg))
            *p = calmer;
    }
}

void program_shrink(struct program *p, bool (*fails)(const struct program *p, void *arg),
                    bool (*enough)(void *arg), void *arg)
{
    bool shrunk = true;

    while (shrunk && !enough(arg)) {
        shrunk = false;
        for (unsigned n = p->n / 2; n > 0; n /= 2)
            for (unsigned from = 0; from + n <= p->n && !enough(arg);)
                if (fails_without(p, from, n, fails, arg))
                    shrunk = true;
                else
                    from += n;
    }
    calm_steps(p, fails, enough, arg);
}

/* --- printing --- */

static void print_create(FILE *f, const struct step *s)
{
    fprintf(f, "e%u = create (%s, device %u)", s->var, kind_info[s->kind].name,
            device_of(s->stream));
}

static void print_open(FILE *f, const struct step *s)
{
    fprintf(f, "e%u = open (e%u of p%u, on device %u)", s->var, s->other_var, s->other_process,
            device_of(s->stream));
}

static void print_wait(FILE *f, const struct step *s)
{
    static const char *const how[] = {"", ", without limit", ", limit 1000 s",
                                      ", default flag, limit 500 s"};

    fprintf(f, "s%u waits for e%u%s", s->stream, s->var, how[s->variant & 3]);
}

static void print_delay(FILE *f, const struct step *s)
{
    fprintf(f, "s%u works for %d us", s->stream, s->arg);
    if (s->result != 0)
        fprintf(f, " and fails with %d", s->result);
}

void step_print(FILE *f, const struct step *s)
{
    static const char *const event[OPS] = {
        [OP_EXPORT] = "export",
        [OP_DESTROY] = "destroy",
        [OP_QUERY] = "query",
        [OP_SLEEP] = "a thread synchronises with",
        [OP_SYNC_EVENT] = "synchronise",
        [OP_RESCUE] = "record, on a stream of the harness,",
    };
    static const char *const stream[OPS] = {
        [OP_GATE] = "closes a gate before itself", [OP_UNGATE] = "has its oldest gate opened",
        [OP_QUERY_STREAM] = "is queried",          [OP_SYNC_STREAM] = "is synchronised",
        [OP_RENEW] = "is destroyed and made anew",
    };

    fprintf(f, "p%u: ", s->process);
    if (event[s->op])
        fprintf(f, "%s e%u", event[s->op], s->var);
    else if (stream[s->op])
        fprintf(f, "s%u %s", s->stream, stream[s->op]);
    else if (s->op == OP_CREATE)
        print_create(f, s);
    else if (s->op == OP_OPEN)
        print_open(f, s);
    else if (s->op == OP_WAIT)
        print_wait(f, s);
    else if (s->op == OP_WAIT_EXPIRE)
        fprintf(f, "s%u waits for e%u, limit 1 s, and that passes", s->stream, s->var);
    else if (s->op == OP_DELAY)
        print_delay(f, s);
    else if (s->op == OP_ELAPSED)
        fprintf(f, "time from e%u to e%u", s->var, s->other_var);
    else if (s->op == OP_SYNC_DEVICE)
        fprintf(f, "synchronise device %u", device_of(s->stream));
    else
        fprintf(f, "%s e%u in s%u", s->op == OP_RECORD ? "record" : "reset", s->var, s->stream);
    if (s->hasty)
        fputs(" (and at once)", f);
}
