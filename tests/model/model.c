#include "tests/model/model.h"

#include <string.h>

#include "acl/acl.h"

#define TIME ACL_EVENT_TIME_LINE
#define SYNC ACL_EVENT_SYNC
#define MARK ACL_EVENT_CAPTURE_STREAM_PROGRESS

const struct kind_info kind_info[KINDS] = {
    [KIND_A] = {"default", MAKE_DEFAULT, 0x0e, 0},
    [KIND_B_SYNC] = {"sync", MAKE_WITH_FLAG, SYNC, 1},
    [KIND_B_SYNC_TIME] = {"sync+time", MAKE_WITH_FLAG, SYNC | TIME, 1},
    [KIND_B_MARK] = {"mark", MAKE_WITH_FLAG, MARK, 2},
    [KIND_B_MARK_TIME] = {"mark+time", MAKE_WITH_FLAG, MARK | TIME, 2},
    [KIND_B_EXT] = {"external", MAKE_WITH_FLAG, ACL_EVENT_EXTERNAL, 3},
    [KIND_B_DEV] = {"device use only", MAKE_WITH_FLAG, ACL_EVENT_DEVICE_USE_ONLY, 4},
    [KIND_C_SYNC] = {"ex sync", MAKE_EX_WITH_FLAG, SYNC, 5},
    [KIND_C_SYNC_TIME] = {"ex sync+time", MAKE_EX_WITH_FLAG, SYNC | TIME, 5},
    [KIND_C_MARK] = {"ex mark", MAKE_EX_WITH_FLAG, MARK, 6},
    [KIND_C_MARK_TIME] = {"ex mark+time", MAKE_EX_WITH_FLAG, MARK | TIME, 6},
    [KIND_IPC] = {"IPC", MAKE_EX_WITH_FLAG, ACL_EVENT_IPC, 7},
};

/* --- which function accepts which kind --- */

enum use {
    USE_RECORD,
    USE_RESET,
    USE_QUERY,
    USE_STATUS,
    USE_WAIT_STATUS,
    USE_SYNC,
    USE_WAIT,
    USE_TIME,
    USE_ID,
    USE_EXPORT,
    USES
};

#define NO    ACL_ERROR_RT_FEATURE_NOT_SUPPORT
#define PARAM ACL_ERROR_RT_PARAM_INVALID
#define STALE ACL_ERROR_RT_INVALID_HANDLE
#define NEVER ACL_ERROR_RT_INTERNAL_ERROR
#define EARLY ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID

static const int refused[USES][8] = {
    /*                    a      b-sync b-mark b-ext  b-dev  c-sync c-mark d */
    [USE_RECORD] = {0, 0, 0, 0, PARAM, 0, 0, 0},
    [USE_RESET] = {0, 0, NO, 0, PARAM, NO, NO, NO},
    [USE_QUERY] = {0, 0, 0, NO, 0, NO, NO, NO},
    [USE_STATUS] = {0, 0, 0, NO, 0, 0, 0, 0},
    [USE_WAIT_STATUS] = {0, 0, 0, NO, 0, NO, NO, NO},
    [USE_SYNC] = {0, 0, 0, NO, 0, 0, 0, 0},
    [USE_WAIT] = {0, 0, NO, 0, PARAM, 0, NO, 0},
    [USE_TIME] = {0, 0, 0, NO, 0, 0, 0, NO},
    [USE_ID] = {0, 0, NEVER, 0, 0, 0, NEVER, NO},
    [USE_EXPORT] = {PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, PARAM, 0},
};

#define COUNT(m, name) ((m)->counters.name++)

/* --- small questions --- */

static bool has_level(const struct model_object *o)
{
    return o->kind == KIND_B_SYNC || o->kind == KIND_B_SYNC_TIME || o->kind == KIND_B_EXT;
}

static bool has_time(const struct model_object *o)
{
    return kind_info[o->kind].flags & TIME;
}

static unsigned get_column(const struct model_object *o)
{
    return kind_info[o->kind].column;
}

/* Nothing recorded counts as done. */
static bool latest_done(const struct model *m, const struct model_object *o)
{
    return o->latest < 0 || m->record[o->latest].done;
}

static const struct model_task *get_head(const struct model_stream *s)
{
    return s->executed == s->submitted ? NULL : &s->task[s->executed % QUEUE];
}

static bool is_drained(const struct model_stream *s)
{
    return s->executed == s->submitted;
}

static void add_answer(struct expect *x, int code)
{
    x->answer[x->n++] = (struct expected){.code = code, .alt = code};
}

static void add_value(struct expect *x, int value)
{
    x->answer[x->n++] = (struct expected){.check = true, .value = value};
}

/* --- execution --- */

static int16_t note_move(struct model *m, unsigned p, unsigned s, uint64_t cause)
{
    int16_t at;

    if (m->n_moved == 64)
        return -1;
    at = (int16_t)m->n_moved++;
    m->past[p][s] |= cause;
    return at;
}

static uint64_t and_before(const struct model *m, int at)
{
    return at < 0 ? 0 : m->past_of[at] | UINT64_C(1) << at;
}

/* Let waits for this level go on that have reached it. */
static void raise_level(struct model *m, int16_t object, int at)
{
    struct model_object *o = &m->object[object];

    if (!o->level)
        o->raiser = (int8_t)at;
    o->level = true;
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            struct model_stream *s = &m->stream[p][i];
            struct model_task *t = &s->task[s->executed % QUEUE];

            if (is_drained(s) || t->type != T_WAIT_LEVEL || t->object != object || t->passed)
                continue;
            t->passed = true;
            t->raiser = (int8_t)at;
        }
}

static void count_other_order(struct model *m, int16_t record)
{
    const struct model_record *r = &m->record[record];

    if (m->object[r->object].kind != KIND_IPC)
        return;
    for (int16_t i = 0; i < record; i++)
        if (m->record[i].object == r->object && !m->record[i].done &&
            m->record[i].process != r->process) {
            COUNT(m, other_order);
            return;
        }
}

static void execute_record(struct model *m, unsigned p, unsigned i, const struct model_task *t,
                           int at)
{
    struct model_record *r = &m->record[t->record];

    r->done = true;
    r->at = (int8_t)at;
    r->work = m->stream[p][i].work;
    r->place = m->stream[p][i].executed;
    count_other_order(m, t->record);
    if (has_level(&m->object[t->object]))
        raise_level(m, t->object, at);
}

static void undo_record(struct model *m, const struct model_task *t)
{
    struct model_object *o = &m->object[t->object];

    if (t->record < 0 || o->latest != t->record)
        return;
    o->latest = -1;
    o->undone_now = true;
    COUNT(m, undone);
    for (unsigned p = 0; p < PROCESSES; p++)
        if (m->sleeper[p].active && m->var[p][m->sleeper[p].var].object == t->object)
            m->sleeper[p].may_return = true;
}

static bool is_runnable(const struct model *m, const struct model_stream *s,
                        const struct model_task *t)
{
    switch (t->type) {
    case T_GATE:
        return s->gates_open > s->gates_passed;
    case T_WAIT_RECORD:
        return m->record[t->record].done;
    case T_WAIT_LEVEL:
        return t->passed || m->object[t->object].level;
    default:
        return true;
    }
}

/* The task, executed in this closure, without which t could not run; -1: none. */
static int cause_of(const struct model *m, const struct model_task *t)
{
    if (t->type == T_WAIT_RECORD)
        return m->record[t->record].at;
    if (t->type == T_WAIT_LEVEL)
        return t->passed ? t->raiser : m->object[t->object].raiser;
    return -1;
}

static bool note_use(struct model *m, const struct model_task *t, int at, uint64_t past)
{
    if (m->n_uses == sizeof(m->use) / sizeof(m->use[0]))
        return false;
    m->use[m->n_uses++] =
        (struct level_use){.object = t->object, .what = t->type, .at = (int8_t)at, .past = past};
    return true;
}

static void take_effect(struct model *m, unsigned p, unsigned i, const struct model_task *t, int at)
{
    struct model_stream *s = &m->stream[p][i];

    switch (t->type) {
    case T_GATE:
        s->gates_passed++;
        break;
    case T_RECORD:
        execute_record(m, p, i, t, at);
        break;
    case T_LOWER:
        if (m->object[t->object].level)
            COUNT(m, level_resets);
        m->object[t->object].level = false;
        m->object[t->object].raiser = -1;
        break;
    case T_UNRECORD:
        undo_record(m, t);
        break;
    case T_DELAY:
        s->work += (uint64_t)t->arg;
        if (t->result != 0)
            s->error = t->result;
        break;
    default:
        break;
    }
}

/*
 * Execute the task at the head of a stream. False: more has moved than this model keeps track of.
 */
static bool execute_head(struct model *m, unsigned p, unsigned i)
{
    struct model_stream *s = &m->stream[p][i];
    struct model_task *t = &s->task[s->executed % QUEUE];
    int cause = cause_of(m, t);
    int at = note_move(m, p, i, and_before(m, cause));
    bool level = t->object >= 0 && has_level(&m->object[t->object]) && t->type != T_WAIT_RECORD;

    if (at < 0)
        return false;
    m->past_of[at] = m->past[p][i];
    if (level && !note_use(m, t, at, m->past[p][i]))
        return false;
    take_effect(m, p, i, t, at);
    m->past[p][i] |= UINT64_C(1) << at;
    m->parked[p][i] = false;
    s->executed++;
    return true;
}

static bool are_ordered(const struct level_use *a, const struct level_use *b)
{
    return (a->at >= 0 && (b->past & UINT64_C(1) << a->at)) ||
           (b->at >= 0 && (a->past & UINT64_C(1) << b->at));
}

static bool can_commute(const struct level_use *a, const struct level_use *b)
{
    if (a->what == b->what)
        return a->what != T_RECORD;
    /* A record and a wait: without a reset it is the same in either order. */
    return a->what != T_LOWER && b->what != T_LOWER;
}

/*
 * Would the outcome depend on which stream was faster? Only around a reset: it must be ordered by
 * cause and effect against every record and every wait of that level, and these records against
 * each other. That a stream has come to a wait cannot be seen from outside, so a record that is
 * undone at once may be lost on a wait that was submitted long before.
 */
static bool is_ambiguous(const struct level_use *use, unsigned n)
{
    for (unsigned r = 0; r < n; r++) {
        if (use[r].what != T_LOWER)
            continue;
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = 0; b < a; b++)
                if (use[a].object == use[r].object && use[b].object == use[r].object &&
                    !can_commute(&use[a], &use[b]) && !are_ordered(&use[a], &use[b]))
                    return true;
    }
    return false;
}

/*
 * Waits that have not passed matter for that as well, if they are new: with an older one the level
 * was down, and nothing has raised it.
 */
static bool any_ambiguity(const struct model *m)
{
    struct level_use use[sizeof(m->use) / sizeof(m->use[0]) + PROCESSES * STREAMS];
    unsigned n = m->n_uses;

    memcpy(use, m->use, n * sizeof(use[0]));
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            const struct model_task *t = get_head(&m->stream[p][i]);

            if (t && t->type == T_WAIT_LEVEL && !m->parked[p][i])
                use[n++] = (struct level_use){
                    .object = t->object, .what = t->type, .at = -1, .past = m->past[p][i]};
        }
    return is_ambiguous(use, n);
}

/* Let everything move that can. */
static bool run_tasks(struct model *m)
{
    bool moved;

    do {
        moved = false;
        for (unsigned p = 0; p < PROCESSES; p++)
            for (unsigned i = 0; i < STREAMS; i++) {
                struct model_stream *s = &m->stream[p][i];

                while (!is_drained(s) && is_runnable(m, s, &s->task[s->executed % QUEUE])) {
                    if (!execute_head(m, p, i))
                        return false;
                    moved = true;
                }
            }
    } while (moved);
    return !any_ambiguity(m);
}

void model_settle(struct model *m)
{
    m->open = false;
    m->n_moved = m->n_uses = 0;
    memset(m->past, 0, sizeof(m->past));
    for (unsigned p = 0; p < PROCESSES; p++) {
        struct model_sleeper *z = &m->sleeper[p];
        bool pending = false;

        for (unsigned i = 0; i < STREAMS; i++)
            m->parked[p][i] = !is_drained(&m->stream[p][i]);
        for (unsigned i = 0; i < z->n; i++)
            pending |= !m->record[z->record[i]].done;
        if (!pending)
            z->active = false;
    }
    for (unsigned i = 0; i < m->n_records; i++)
        m->record[i].at = -1;
    for (unsigned i = 0; i < m->n_objects; i++) {
        m->object[i].raiser = -1;
        m->object[i].undone_now = false;
    }
}

/* --- submitting --- */

static struct model_task *submit_task(struct model *m, const struct step *s, enum task_type type)
{
    struct model_stream *st = &m->stream[s->process][s->stream];
    struct model_task *t = &st->task[st->submitted % QUEUE];

    if (st->submitted - st->executed == QUEUE)
        return NULL;
    *t = (struct model_task){.type = (uint8_t)type, .raiser = -1, .object = -1, .record = -1};
    st->submitted++;
    return t;
}

static struct model_var *var_of(struct model *m, const struct step *s)
{
    return &m->var[s->process][s->var];
}

static struct model_object *object_of(struct model *m, const struct step *s)
{
    return &m->object[var_of(m, s)->object];
}

/* What every call with an event begins with. 0: go on. */
static int check_call(struct model *m, const struct step *s, enum use use)
{
    int code = !var_of(m, s)->live ? STALE : refused[use][get_column(object_of(m, s))];

    if (!var_of(m, s)->live)
        COUNT(m, stale);
    else if (code != 0)
        COUNT(m, refusals);
    return code;
}

/* Threads asleep on this event may have looked before or after. */
static bool tell_sleepers(struct model *m, int16_t object, int16_t record)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        struct model_sleeper *z = &m->sleeper[p];

        if (!z->active || m->var[p][z->var].object != object)
            continue;
        if (z->n == sizeof(z->record) / sizeof(z->record[0]))
            return false;
        z->record[z->n++] = record;
    }
    return true;
}

static void count_newer(struct model *m, int16_t old)
{
    for (unsigned p = 0; p < PROCESSES && old >= 0; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            const struct model_task *t = get_head(&m->stream[p][i]);

            if (t && t->type == T_WAIT_RECORD && t->record == old)
                COUNT(m, waits_before_newer_record);
        }
}

static bool do_record(struct model *m, const struct step *s, struct expect *x)
{
    int code = check_call(m, s, USE_RECORD);
    struct model_object *o = object_of(m, s);
    struct model_task *t;

    add_answer(x, code);
    if (code != 0)
        return true;
    /* Recording on another device's stream is unspecified. */
    if (var_of(m, s)->device != device_of(s->stream) || m->n_records == RECORDS)
        return false;
    t = submit_task(m, s, T_RECORD);
    if (!t)
        return false;
    count_newer(m, o->latest);
    t->object = var_of(m, s)->object;
    t->record = o->latest = (int16_t)m->n_records++;
    m->record[t->record] = (struct model_record){
        .at = -1,
        .object = t->object,
        .process = s->process,
        .stream = s->stream,
        .life = m->stream[s->process][s->stream].life,
    };
    return tell_sleepers(m, t->object, t->record);
}

/* (a), (c) and (d): the record that is latest now. */
static bool wait_record(struct model *m, const struct step *s, struct expect *x)
{
    const struct model_object *o = object_of(m, s);
    const struct model_record *r;
    struct model_task *t;

    if (o->kind == KIND_A && o->undone_now)
        return false; /* whether the reset came first is unknown */
    add_answer(x, o->kind == KIND_A && o->latest < 0 ? PARAM : 0);
    if (o->latest < 0)
        return true;
    r = &m->record[o->latest];
    t = submit_task(m, s, T_WAIT_RECORD);
    if (!t)
        return false;
    t->object = var_of(m, s)->object;
    t->record = o->latest;
    /* Satisfied at the call, there is nothing outstanding, wherever the stream stands. */
    t->counts = !r->done && (r->process != s->process || r->stream != s->stream);
    t->maybe = r->done && r->at >= 0;
    if (!r->done && r->process != s->process)
        COUNT(m, waits_for_other_process);
    if (!r->done && device_of(r->stream) != device_of(s->stream))
        COUNT(m, waits_for_other_device);
    return true;
}

static bool do_wait(struct model *m, const struct step *s, struct expect *x)
{
    int code = check_call(m, s, USE_WAIT);
    struct model_task *t;

    if (code != 0) {
        add_answer(x, code);
        return true;
    }
    if (!has_level(object_of(m, s)))
        return wait_record(m, s, x);
    add_answer(x, 0);
    t = submit_task(m, s, T_WAIT_LEVEL);
    if (!t)
        return false;
    t->object = var_of(m, s)->object;
    t->counts = true;
    if (!object_of(m, s)->level)
        COUNT(m, level_waits_parked);
    return true;
}

static bool do_wait_expire(struct model *m, const struct step *s, struct expect *x)
{
    struct model_stream *st = &m->stream[s->process][s->stream];
    const struct model_object *o = object_of(m, s);

    if (!var_of(m, s)->live || refused[USE_WAIT][get_column(o)] != 0 || !is_drained(st) ||
        st->error != 0 || (has_level(o) ? o->level : latest_done(m, o)))
        return false;
    st->submitted++;
    st->executed++;
    add_answer(x, 0);
    add_answer(x, ACL_ERROR_RT_TASK_TIMEOUT);
    COUNT(m, wait_timeouts);
    return true;
}

static bool do_reset(struct model *m, const struct step *s, struct expect *x)
{
    int code = check_call(m, s, USE_RESET);
    struct model_object *o = object_of(m, s);
    struct model_task *t;

    add_answer(x, code);
    if (code != 0)
        return true;
    if (var_of(m, s)->device != device_of(s->stream))
        return false;
    t = submit_task(m, s, has_level(o) ? T_LOWER : T_UNRECORD);
    if (!t)
        return false;
    t->object = var_of(m, s)->object;
    t->record = o->latest;
    return true;
}

static bool do_delay(struct model *m, const struct step *s, struct expect *x)
{
    struct model_task *t = submit_task(m, s, T_DELAY);

    if (!t)
        return false;
    t->arg = s->arg;
    t->result = s->result;
    add_answer(x, 0);
    return true;
}

static bool do_gate(struct model *m, const struct step *s, struct expect *x)
{
    struct model_stream *st = &m->stream[s->process][s->stream];

    (void)x;
    if (st->gates - st->gates_passed == GATES || !submit_task(m, s, T_GATE))
        return false;
    st->gates++;
    return true;
}

static bool do_ungate(struct model *m, const struct step *s, struct expect *x)
{
    struct model_stream *st = &m->stream[s->process][s->stream];

    (void)x;
    if (st->gates_open == st->gates)
        return false;
    st->gates_open++;
    return true;
}

/* --- life --- */

static bool do_create(struct model *m, const struct step *s, struct expect *x)
{
    struct model_var *v = var_of(m, s);

    if (v->live || m->n_objects == OBJECTS)
        return false;
    *v = (struct model_var){.live = true,
                            .used = true,
                            .device = (uint8_t)device_of(s->stream),
                            .object = (int16_t)m->n_objects};
    m->object[m->n_objects++] = (struct model_object){
        .kind = s->kind, .opens = 1, .maker = s->process, .latest = -1, .raiser = -1};
    add_answer(x, 0);
    return true;
}

static bool do_export(struct model *m, const struct step *s, struct expect *x)
{
    int code = check_call(m, s, USE_EXPORT);

    add_answer(x, code);
    if (code == 0)
        object_of(m, s)->exported = true;
    return true;
}

static bool do_open(struct model *m, const struct step *s, struct expect *x)
{
    const struct model_var *from = &m->var[s->other_process][s->other_var];
    struct model_var *v = var_of(m, s);
    struct model_object *o = from->object < 0 ? NULL : &m->object[from->object];

    if (v->live || !o || !o->exported)
        return false;
    for (unsigned i = 0; i < VARS; i++)
        if (m->var[s->process][i].live && m->var[s->process][i].object == from->object) {
            COUNT(m, opened_own);
            break;
        }
    if (o->opens == 0)
        COUNT(m, opened_gone);
    o->opens++;
    *v = (struct model_var){.live = true,
                            .used = true,
                            .device = (uint8_t)device_of(s->stream),
                            .object = from->object};
    add_answer(x, 0);
    return true;
}

/* Would all streams come to their end if all gates were open and no process did anything more? */
static bool would_drain(const struct model *m)
{
    static struct model copy;

    copy = *m;
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++)
            copy.stream[p][i].gates_open = copy.stream[p][i].gates;
    if (!run_tasks(&copy))
        return false;
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++)
            if (!is_drained(&copy.stream[p][i]))
                return false;
    return true;
}

static unsigned unfinished_uses(const struct model *m, int16_t object, bool of_others,
                                unsigned process)
{
    unsigned n = 0;

    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            const struct model_stream *s = &m->stream[p][i];

            for (unsigned k = s->executed; k != s->submitted; k++)
                n += s->task[k % QUEUE].object == object && (!of_others || p != process);
        }
    return n;
}

static bool do_destroy(struct model *m, const struct step *s, struct expect *x)
{
    struct model_var *v = var_of(m, s);
    struct model_object *o = object_of(m, s);

    if (!v->live) {
        COUNT(m, stale);
        add_answer(x, STALE);
        return true;
    }
    if (m->sleeper[s->process].active && m->sleeper[s->process].var == s->var)
        return false; /* no other thread may be inside a call with the event */
    /* No process could record it any more for the streams that wait for its level. */
    if (has_level(o) && unfinished_uses(m, v->object, false, 0) && !would_drain(m))
        return false;
    if (unfinished_uses(m, v->object, false, 0))
        COUNT(m, destroyed_pending);
    if (o->kind == KIND_IPC && o->maker == s->process &&
        unfinished_uses(m, v->object, true, s->process))
        COUNT(m, closed_exporter_pending);
    v->live = false;
    o->opens--;
    add_answer(x, 0);
    return true;
}

static bool do_renew(struct model *m, const struct step *s, struct expect *x)
{
    struct model_stream *st = &m->stream[s->process][s->stream];

    /* A default stream cannot be destroyed; destroying waits; what becomes of an error is open. */
    if (s->stream % 2 == 0 || !is_drained(st) || st->error != 0)
        return false;
    st->life++;
    st->work = 0;
    add_answer(x, 0);
    add_answer(x, 0);
    return true;
}

/* --- asking --- */

static struct expected status_of(const struct model *m, const struct model_object *o)
{
    /* Before the first record the kinds differ: (a) and (b) are not ready. */
    bool ready = o->latest >= 0 ? m->record[o->latest].done : get_column(o) >= 5;
    int code = refused[USE_STATUS][get_column(o)];

    return (struct expected){
        .code = code,
        .alt = code,
        .check = true,
        .value = ready ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY,
    };
}

/* Of one event: is a wait outstanding, certainly, or possibly? */
static void waits_of(const struct model *m, int16_t object, bool *some, bool *maybe)
{
    *some = *maybe = false;
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            const struct model_stream *s = &m->stream[p][i];

            for (unsigned k = s->executed; k != s->submitted; k++) {
                const struct model_task *t = &s->task[k % QUEUE];

                *some |= t->object == object && t->counts;
                *maybe |= t->object == object && t->maybe;
            }
        }
}

static void ask_id(const struct model *m, const struct model_object *o, struct expect *x)
{
    int code = refused[USE_ID][get_column(o)];

    add_answer(x, code);
    if (code == 0 && get_column(o) == 0 && o->latest < 0)
        x->answer[x->n - 1].code = NEVER;
    /* Held while a record is outstanding; how soon afterwards it is given back is open. */
    if (code == 0 && get_column(o) == 5) {
        x->answer[x->n - 1].code = latest_done(m, o) ? NEVER : 0;
        x->answer[x->n - 1].alt = o->latest >= 0 ? 0 : NEVER;
    }
}

static int time_error(const struct model *m, const struct model_object *o)
{
    if (o->latest < 0)
        return NEVER;
    return !has_time(o) || !m->record[o->latest].done ? EARLY : 0;
}

static bool do_query(struct model *m, const struct step *s, struct expect *x)
{
    const struct model_object *o = object_of(m, s);
    bool some, maybe;

    if (check_call(m, s, USE_STATUS) == STALE) {
        for (unsigned i = 0; i < ANSWERS; i++)
            add_answer(x, STALE);
        return true;
    }
    add_value(x, latest_done(m, o) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY);
    x->answer[0].code = x->answer[0].alt = refused[USE_QUERY][get_column(o)];
    x->answer[x->n++] = status_of(m, o);
    waits_of(m, var_of(m, s)->object, &some, &maybe);
    add_value(x, some ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE);
    x->answer[2].code = x->answer[2].alt = refused[USE_WAIT_STATUS][get_column(o)];
    x->answer[2].check = some || !maybe;
    ask_id(m, o, x);
    add_answer(x, refused[USE_TIME][get_column(o)] != 0 ? refused[USE_TIME][get_column(o)]
                                                        : time_error(m, o));
    return true;
}

static bool do_query_stream(struct model *m, const struct step *s, struct expect *x)
{
    add_value(x, is_drained(&m->stream[s->process][s->stream]) ? ACL_STREAM_STATUS_COMPLETE
                                                               : ACL_STREAM_STATUS_NOT_READY);
    return true;
}

/* At least the delays between two records of one stream lie between their times. */
static void bound_elapsed(const struct model_record *from, const struct model_record *to,
                          struct expected *e)
{
    if (from->process != to->process || from->stream != to->stream || from->life != to->life)
        return;
    e->check = true;
    e->min = -1e9f;
    e->max = 1e9f;
    if (from->place <= to->place)
        e->min = (float)(to->work - from->work) / 1000 - 0.001f;
    if (from->place >= to->place)
        e->max = -(float)(from->work - to->work) / 1000 + 0.001f;
}

static bool do_elapsed(struct model *m, const struct step *s, struct expect *x)
{
    const struct model_var *other = &m->var[s->process][s->other_var];
    const struct model_object *from = object_of(m, s), *to;
    int code = check_call(m, s, USE_TIME), other_code, first, second;

    if (other->object < 0)
        return false;
    to = &m->object[other->object];
    other_code = other->live ? refused[USE_TIME][get_column(to)] : STALE;
    if (code != 0 && other_code != 0 && code != other_code)
        return false; /* both are wrong, and which is said first is open */
    if (code == 0)
        code = other_code;
    first = code ? code : time_error(m, from);
    second = code ? code : time_error(m, to);
    add_answer(x, first ? first : second);
    if (first && second)
        x->answer[0].alt = second;
    if (!first && !second)
        bound_elapsed(&m->record[from->latest], &m->record[to->latest], &x->answer[0]);
    return true;
}

/* --- synchronising --- */

static bool do_sync_event(struct model *m, const struct step *s, struct expect *x)
{
    int code = check_call(m, s, USE_SYNC);

    if (code == 0 && !latest_done(m, object_of(m, s))) {
        x->blocks = true;
        code = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
        COUNT(m, event_timeouts);
    }
    add_answer(x, code);
    return true;
}

static int take_error(struct model *m, struct model_stream *s)
{
    int error = s->error;

    s->error = 0;
    if (error != 0)
        COUNT(m, task_errors);
    return error;
}

static bool do_sync_stream(struct model *m, const struct step *s, struct expect *x)
{
    struct model_stream *st = &m->stream[s->process][s->stream];

    x->blocks = !is_drained(st);
    if (x->blocks)
        COUNT(m, stream_timeouts);
    add_answer(x, x->blocks ? ACL_ERROR_RT_STREAM_SYNC_TIMEOUT : take_error(m, st));
    return true;
}

/*
 * All streams of the process on the device. With more than one thing to say, which is said is open.
 */
static bool do_sync_device(struct model *m, const struct step *s, struct expect *x)
{
    unsigned first = device_of(s->stream) * 2, errors = 0;
    int error = 0;

    for (unsigned i = first; i < first + 2; i++) {
        x->blocks |= !is_drained(&m->stream[s->process][i]);
        errors += m->stream[s->process][i].error != 0;
    }
    if (errors + x->blocks > 1)
        return false;
    for (unsigned i = first; i < first + 2 && !error; i++)
        error = take_error(m, &m->stream[s->process][i]);
    if (x->blocks)
        COUNT(m, stream_timeouts);
    add_answer(x, x->blocks ? ACL_ERROR_RT_STREAM_SYNC_TIMEOUT : error);
    return true;
}

static bool do_sleep(struct model *m, const struct step *s, struct expect *x)
{
    struct model_sleeper *z = &m->sleeper[s->process];
    const struct model_object *o = object_of(m, s);

    (void)x;
    if (z->active || !var_of(m, s)->live || refused[USE_SYNC][get_column(o)] != 0 ||
        o->latest < 0 || latest_done(m, o))
        return false;
    *z = (struct model_sleeper){.active = true, .var = s->var, .n = 1, .record = {o->latest}};
    COUNT(m, sleepers);
    return true;
}

/* Like a record on an idle stream that no program can name. */
static bool do_rescue(struct model *m, const struct step *s, struct expect *x)
{
    struct model_object *o;

    if (!var_of(m, s)->live || m->n_records == RECORDS)
        return false;
    o = object_of(m, s);
    o->latest = (int16_t)m->n_records++;
    m->record[o->latest] = (struct model_record){
        .done = true, .at = -1, .object = var_of(m, s)->object, .process = PROCESSES};
    raise_level(m, var_of(m, s)->object, -1);
    for (unsigned p = 0; p < PROCESSES; p++)
        m->sleeper[p].may_return = true;
    add_answer(x, 0);
    return true;
}

/* --- steps --- */

static const struct {
    bool (*make)(struct model *m, const struct step *s, struct expect *x);
    bool var;     /* the variable must have been set */
    bool submits; /* may follow a hasty step */
} steps[OPS] = {
    [OP_CREATE] = {do_create, false, false},
    [OP_EXPORT] = {do_export, true, false},
    [OP_OPEN] = {do_open, false, false},
    [OP_DESTROY] = {do_destroy, true, true},
    [OP_RECORD] = {do_record, true, true},
    [OP_WAIT] = {do_wait, true, true},
    [OP_WAIT_EXPIRE] = {do_wait_expire, true, false},
    [OP_RESET] = {do_reset, true, true},
    [OP_DELAY] = {do_delay, false, true},
    [OP_GATE] = {do_gate, false, true},
    [OP_UNGATE] = {do_ungate, false, true},
    [OP_QUERY] = {do_query, true, false},
    [OP_QUERY_STREAM] = {do_query_stream, false, false},
    [OP_ELAPSED] = {do_elapsed, true, false},
    [OP_SYNC_EVENT] = {do_sync_event, true, false},
    [OP_SYNC_STREAM] = {do_sync_stream, false, false},
    [OP_SYNC_DEVICE] = {do_sync_device, false, false},
    [OP_RENEW] = {do_renew, false, false},
    [OP_SLEEP] = {do_sleep, true, false},
    [OP_RESCUE] = {do_rescue, true, false},
};

void model_init(struct model *m)
{
    memset(m, 0, sizeof(*m));
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < VARS; i++)
            m->var[p][i].object = -1;
    model_settle(m);
}

bool model_step(struct model *m, const struct step *s, struct expect *x)
{
    *x = (struct expect){0};
    if (m->open && !steps[s->op].submits)
        return false;
    if (steps[s->op].var && var_of(m, s)->object < 0)
        return false;
    if (m->open)
        COUNT(m, hasty);
    m->open = true;
    return steps[s->op].make(m, s, x) && run_tasks(m);
}

void model_view(const struct model *m, unsigned p, struct view *v)
{
    const struct model_sleeper *z = &m->sleeper[p];
    bool all = true, any = z->may_return;

    *v = (struct view){.sleeper = SLEEPER_ANY};
    for (unsigned i = 0; i < STREAMS; i++) {
        v->submitted[i] = m->stream[p][i].submitted;
        v->executed[i] = m->stream[p][i].executed;
    }
    for (unsigned i = 0; i < VARS; i++)
        if (m->var[p][i].live)
            v->status[i] = status_of(m, &m->object[m->var[p][i].object]);
    if (!z->active)
        return;
    for (unsigned i = 0; i < z->n; i++) {
        all &= m->record[z->record[i]].done;
        any |= m->record[z->record[i]].done;
    }
    v->sleeper = all ? SLEEPER_RETURNS : any ? SLEEPER_ANY : SLEEPER_BLOCKED;
}

/* --- the end --- */

/* A variable of the event whose level a stream waits for. */
static bool find_live(const struct model *m, int16_t object, struct step *s)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < VARS; i++)
            if (m->var[p][i].live && m->var[p][i].object == object) {
                *s = (struct step){.op = OP_RESCUE,
                                   .process = (uint8_t)p,
                                   .var = (uint8_t)i,
                                   .stream = (uint8_t)(m->var[p][i].device * 2)};
                return true;
            }
    return false;
}

static bool finish_stream(const struct model *m, unsigned p, unsigned i, struct step *s)
{
    const struct model_stream *st = &m->stream[p][i];
    const struct model_task *t = get_head(st);

    *s = (struct step){.process = (uint8_t)p, .stream = (uint8_t)i};
    if (t && t->type == T_GATE) {
        s->op = OP_UNGATE;
        return true;
    }
    return t && t->type == T_WAIT_LEVEL && find_live(m, t->object, s);
}

static bool finish_process(const struct model *m, unsigned p, struct step *s)
{
    *s = (struct step){.process = (uint8_t)p};
    for (unsigned i = 0; i < STREAMS; i++)
        if (m->stream[p][i].error != 0) {
            s->op = OP_SYNC_STREAM;
            s->stream = (uint8_t)i;
            return true;
        }
    for (unsigned i = 0; i < VARS; i++)
        if (m->var[p][i].live) {
            s->op = OP_DESTROY;
            s->var = (uint8_t)i;
            return true;
        }
    return false;
}

bool model_finish(const struct model *m, unsigned skip, struct step *s)
{
    bool moving = false;

    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            moving |= !is_drained(&m->stream[p][i]);
            if (finish_stream(m, p, i, s) && skip-- == 0)
                return true;
        }
    for (unsigned p = 0; p < PROCESSES && !moving; p++)
        if (finish_process(m, p, s))
            return skip == 0;
    return false;
}

bool model_finished(const struct model *m)
{
    struct step s;

    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned i = 0; i < STREAMS; i++)
            if (!is_drained(&m->stream[p][i]))
                return false;
        if (finish_process(m, p, &s))
            return false;
    }
    return true;
}

bool model_can_finish(const struct model *m)
{
    static struct model now, next;
    struct expect x;
    struct step s;

    now = *m;
    model_settle(&now);
    for (unsigned skip = 0; model_finish(&now, skip, &s);) {
        next = now;
        if (!model_step(&next, &s, &x)) {
            skip++;
            continue;
        }
        model_settle(&next);
        now = next;
        skip = 0;
    }
    return model_finished(&now);
}

bool model_has_resets(const struct model *m)
{
    for (unsigned p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < STREAMS; i++) {
            const struct model_stream *s = &m->stream[p][i];

            for (unsigned k = s->executed; k != s->submitted; k++)
                if (s->task[k % QUEUE].type == T_LOWER)
                    return true;
        }
    return false;
}
