#include "daemon/engine/inject.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl_base.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/task_row.h"
#include "daemon/engine/trace_note.h"
#include "daemon/base/log.h"
#include "daemon/base/mix.h"
#include "daemon/base/message_id.h"
#include "daemon/kept/record.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/wire/error_name.h"
#include "proto/wire/npud.pb-c.h"

#define LOST_CODE ACL_ERROR_RT_LOST_HEARTBEAT
#define CODE_MIN  100000
#define CODE_MAX  599999

const char *const inject_action_names[] = {
    [INJECT_FAIL] = "fail",
    [INJECT_STALL] = "stall",
    [INJECT_LOSE_DEVICE] = "lose-device",
};

/* --- engines --- */

/* Has it hit as often as it may? Under inject->lock. */
static bool is_used_up(const struct inject_rule *r)
{
    return r->spec.count != 0 && r->live->hits >= r->spec.count;
}

/* True with the rule's probability, and always the same for the same task of a program. */
static bool is_drawn(const struct inject_rule *r, const struct stream *s)
{
    uint64_t x = mix_task(r->spec.seed, s->live->ordinal, s->live->position - s->live->first);

    return r->spec.probability == 0 || (double)(x >> 11) * 0x1p-53 < r->spec.probability;
}

static bool is_for(const struct inject_rule *r, const struct stream *s)
{
    return (r->spec.ops >> s->live->task.op & 1) &&
           (r->spec.session == 0 || r->spec.session == s->session->id) &&
           (r->spec.device < 0 || r->spec.device == (int32_t)s->attach->device->index) &&
           (r->spec.stream < 0 || r->spec.stream == stream_id(s));
}

static void add_one(struct kept_words *words, _Atomic uint64_t *count)
{
    kept_words_set(words, count, atomic_load_explicit(count, memory_order_relaxed) + 1);
}

static void set_verdict(struct kept_words *words, struct stream *s, const struct inject_rule *r)
{
    struct stream_kept *k = s->live;
    uint64_t verdict = 0;

    if (r)
        verdict = r->spec.action == INJECT_STALL ? VERDICT_HELD | r->id : (uint32_t)r->spec.code;
    kept_words_set(words, &k->verdict, verdict);
    kept_words_set(words, &k->rules_at, head_mark(k));
}

/*
 * All rules count the task; the first that would hit it does. That is noted at once: no task is
 * counted twice, and none hit twice.
 */
static struct inject_rule *match_rules(struct inject *in, struct stream *s)
{
    struct inject_rule *hit = NULL;
    struct kept_words words;

    kept_words_begin(&words, s->attach->device->index);
    pthread_mutex_lock(&in->lock);
    for (uint32_t i = 0; i < in->n; i++) {
        struct inject_rule *r = in->order[i];
        uint64_t matched;

        if (is_used_up(r) || !is_for(r, s))
            continue;
        matched = r->live->matched + 1;
        add_one(&words, &r->live->matched);
        if (matched < r->spec.nth || hit || !is_drawn(r, s))
            continue;
        hit = r;
        add_one(&words, &r->live->hits);
        if (r->spec.action == INJECT_LOSE_DEVICE)
            kept_words_set(&words, &r->live->lost, s->attach->device->index + 1);
    }
    set_verdict(&words, s, hit);
    kept_words_commit(&words);
    pthread_mutex_unlock(&in->lock);
    return hit;
}

static void set_lost(struct device *d, const struct inject_rule *r)
{
    atomic_store(&d->loss, r->id);
    atomic_store(&d->lost, LOST_CODE);
    engine_set_mode(d->engine, LOST_CODE);
}

/*
 * Streams that are parked go on, to find that their task fails. Engine thread, or another under the
 * engine's lock.
 */
static void lose_device(struct device *d, const struct inject_rule *r)
{
    set_lost(d, r);
    log_event(MESSAGE_DEVICE_LOST, LOG_WARNING, NULL,
              "device %u is lost: its streams fail with %d until the rule is cleared", d->index,
              LOST_CODE);
    engine_each_attach(d->engine, failure_device_lost);
    engine_unpark_all(d->engine, LOST_CODE);
}

/* Streams that wait for this very task learn how it ended, before it is passed like all others. */
static enum run_result fail_lost(struct stream *s)
{
    waitlist_fire(&s->passed, s->live->position + 1, s->live->position + 1, LOST_CODE, 0);
    return execute_fail(s, LOST_CODE);
}

static bool has_verdict(const struct stream *s)
{
    return head_has(s->live, s->live->rules_at);
}

/*
 * Work that the program runs may have begun, as the client can tell its thread by itself: it is not
 * taken back. What is behind it waits for its end, and only then it fails (execute_task()). But for
 * a wait, which may never end, and changes nothing: the client drops what the stream has passed.
 */
static enum run_result fail_by_rule(struct stream *s, int32_t code, uint64_t now)
{
    bool ends = execute_work(s) != 0 && s->live->task.callback.work != STREAM_WORK_VALUE_WAIT;

    return ends ? execute_task(s, now) : execute_fail(s, code);
}

/* Held tasks have been let go: inject_restore(). */
static enum run_result carry_out_verdict(struct stream *s, uint64_t now)
{
    return s->live->verdict & VERDICT_HELD ? execute_task(s, now)
                                           : fail_by_rule(s, (int32_t)s->live->verdict, now);
}

bool inject_restore(struct inject *in, struct stream *s)
{
    uint64_t verdict = s->live->verdict;

    if (!has_verdict(s) || verdict == 0 || stream_has_begun(s) || stream_has_waited(s))
        return false;
    if (!(verdict & VERDICT_HELD)) {
        /* For inject_execute() to carry it out, also if the rule is used up by now. */
        s->attach->device->inject = in;
        s->attach->device->detour = true;
        return false;
    }
    if (stream_is_let_go(s))
        return false;
    for (uint32_t i = 0; i < in->n; i++)
        if (in->order[i]->id == (verdict & ~VERDICT_HELD)) {
            s->run = RUN_PARKED;
            execute_hold(s, &in->order[i]->held);
            return true;
        }
    return false;
}

enum run_result inject_execute(struct stream *s, uint64_t now)
{
    struct device *d = s->attach->device;
    struct inject_rule *r = NULL;

    if (atomic_load_explicit(&d->lost, memory_order_relaxed) != 0)
        return fail_lost(s);
    if (!stream_has_begun(s) && !has_verdict(s) && s->live->task.op < TASK_OPS) {
        r = match_rules(d->inject, s);
        KILL_HERE(RULE_ASKED);
    } else if (!stream_has_begun(s) && s->live->verdict != 0) {
        /* The npud before has asked, and then ended. */
        return carry_out_verdict(s, now);
    }
    if (!r)
        return execute_task(s, now);
    if (d->trace)
        trace_note_fault(s, r->id, r->spec.code);
    switch (r->spec.action) {
    case INJECT_STALL:
        return execute_hold(s, &r->held);
    case INJECT_LOSE_DEVICE:
        lose_device(d, r);
        return fail_lost(s);
    case INJECT_FAIL:
        break;
    }
    return fail_by_rule(s, r->spec.code, now);
}

/* --- setting and clearing; control thread --- */

static bool may_be_for_device(struct inject *in, uint32_t device)
{
    for (uint32_t i = 0; i < in->n; i++) {
        const struct inject_rule *r = in->order[i];

        if (inject_lost(r) == (int32_t)device)
            return true;
        if (!is_used_up(r) && (r->spec.device < 0 || r->spec.device == (int32_t)device))
            return true;
    }
    return false;
}

/* The engines' locks are held, so that no rule changes. */
static void tell_engines(struct server *server)
{
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct device *d = &server->devices->device[i];

        d->inject = may_be_for_device(server->inject, i) ? server->inject : NULL;
        device_renew_mode(d);
    }
}

/* --- what is kept --- */

#define RULE_MEMBERS(DO)                                                                           \
    DO##SAME(id, id);                                                                              \
    DO##SAME(ops, spec.ops);                                                                       \
    DO##SAME(session, spec.session);                                                               \
    DO##SAME(nth, spec.nth);                                                                       \
    DO##SAME(count, spec.count);                                                                   \
    DO##SAME(seed, spec.seed);                                                                     \
    DO##SAME(probability, spec.probability);                                                       \
    DO##SAME(device, spec.device);                                                                 \
    DO##SAME(stream, spec.stream);                                                                 \
    DO##SAME(code, spec.code);                                                                     \
    DO##SAME(action, spec.action);                                                                 \
    DO##DERIVED(has_kind, o->spec.kind != NULL);                                                   \
    DO##SAME(at_once, spec.at_once);

RECORD_LIVE(static, rule, RULE, struct inject_rule, kept, struct rule_record, RULE_MEMBERS, live)

static void forget_rule(struct inject_rule *r)
{
    kept_drop(&r->kept);
    r->live = NULL;
    r->id = 0;
}

bool inject_restore_rule(struct server *server, struct kept_cell *cell)
{
    struct inject *in = server->inject;
    struct inject_rule *r = &in->rule[in->n];
    struct rule_record record;

    kept_read(cell, &record, sizeof(record));
    if (in->n == INJECT_RULES_MAX || record.live.lost > server->devices->n ||
        !rule_back(server, r, cell, &record))
        return false;
    if (record.has_kind && record.ops != 0)
        r->spec.kind = task_name((unsigned)__builtin_ctzll(record.ops));
    in->order[in->n++] = r;
    engines_lock(server);
    if (inject_lost(r) >= 0)
        set_lost(&server->devices->device[inject_lost(r)], r);
    tell_engines(server);
    engines_unlock(server);
    return true;
}

/* --- setting and clearing --- */

static void rule_remove(struct server *server, uint32_t index)
{
    struct inject *in = server->inject;
    struct inject_rule *r = in->order[index];

    if (inject_lost(r) >= 0)
        atomic_store(&server->devices->device[inject_lost(r)].lost, 0);
    for (in->n--; index < in->n; index++)
        in->order[index] = in->order[index + 1];
    waitlist_fire(&r->held, 0, UINT64_MAX, 0, 0);
    forget_rule(r);
}

/* Before it goes, and before engines are kept waiting. */
static void log_cleared(struct inject *in, const struct inject_rule *r)
{
    uint64_t hits;

    pthread_mutex_lock(&in->lock);
    hits = r->live->hits;
    pthread_mutex_unlock(&in->lock);
    if (inject_lost(r) >= 0)
        log_event(MESSAGE_DEVICE_BACK, LOG_NOTICE, NULL, "device %d is back", inject_lost(r));
    log_event(MESSAGE_INJECTION, LOG_NOTICE, NULL,
              "fault injection: rule %llu cleared, after %llu hit(s)", (unsigned long long)r->id,
              (unsigned long long)hits);
}

enum cause inject_clear(struct server *server, uint64_t id)
{
    struct inject *in = server->inject;
    bool found = id == 0;

    for (uint32_t i = 0; i < in->n; i++)
        if (id == 0 || in->order[i]->id == id) {
            log_cleared(in, in->order[i]);
            found = true;
        }
    if (!found)
        return CAUSE_RULE_NONE;
    engines_lock(server);
    for (uint32_t i = in->n; i-- > 0;)
        if (id == 0 || in->order[i]->id == id)
            rule_remove(server, i);
    tell_engines(server);
    engines_unlock(server);
    KILL_HERE(RULE_CLEARED);
    return CAUSE_NONE;
}

/* A letter of a name in the spelling that needs no quotes in a shell. */
static char as_typed(char c)
{
    return c == ' ' ? '-' : (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* A name as it is typed: "IPC record" is "ipc-record" as well. */
static bool same_kind(const char *name, const char *typed)
{
    for (; *name && as_typed(*name) == as_typed(*typed); name++, typed++)
        ;
    return *name == *typed;
}

void inject_append_kinds(char *text, size_t size)
{
    size_t used;

    for (unsigned op = 0; op < TASK_OPS && (used = strlen(text)) < size - 1; op++) {
        bool again = op > 0 && strcmp(task_name(op), task_name(op - 1)) == 0;

        if (!again) {
            snprintf(text + used, size - used, "%s %s", op ? "," : "", task_name(op));
            for (char *c = text + used + (op ? 2 : 1); *c; c++)
                *c = as_typed(*c);
        }
    }
}

static enum cause find_kind(struct inject_spec *r, const char *kind)
{
    static_assert(TASK_OPS <= 64, "a bit each");

    r->ops = UINT64_MAX;
    r->kind = NULL;
    if (!kind[0])
        return CAUSE_NONE;
    r->ops = 0;
    for (unsigned op = 0; op < TASK_OPS; op++)
        if (same_kind(task_name(op), kind)) {
            r->ops |= UINT64_C(1) << op;
            r->kind = task_name(op);
        }
    return r->kind ? CAUSE_NONE : CAUSE_RULE_KIND;
}

static enum cause check_rule(struct server *server, const struct inject_spec *r)
{
    if (r->device >= (int32_t)server->devices->n)
        return CAUSE_DEVICE_NONE;
    if (r->action == INJECT_FAIL && (r->code < CODE_MIN || r->code > CODE_MAX))
        return CAUSE_RULE_CODE;
    /* So written that it catches what is no number, too. */
    if (!(r->probability >= 0 && r->probability <= 1))
        return CAUSE_RULE_PROBABILITY;
    if (!r->at_once)
        return CAUSE_NONE;
    if (r->device < 0)
        return CAUSE_RULE_NO_TASKS;
    return atomic_load(&server->devices->device[r->device].lost) == 0 ? CAUSE_NONE
                                                                      : CAUSE_RULE_LOST;
}

static enum cause read_rule(struct server *server, const Npud__Inject *in, struct inject_spec *r)
{
    enum cause cause;

    if ((unsigned)in->action > INJECT_LOSE_DEVICE)
        return CAUSE_RULE_ACTION;
    r->action = (enum inject_action)in->action;
    cause = find_kind(r, in->kind);
    if (cause != CAUSE_NONE)
        return cause;
    r->session = in->session;
    r->device = in->device < 0 ? -1 : in->device;
    r->stream = in->stream < 0 ? -1 : in->stream;
    r->nth = in->nth ? in->nth : 1;
    r->count = in->count;
    /* A rule remembers one device to give back. */
    if (r->action == INJECT_LOSE_DEVICE || (r->count == 0 && in->nth != 0))
        r->count = 1;
    r->code = r->action == INJECT_FAIL ? in->code : r->action == INJECT_LOSE_DEVICE ? LOST_CODE : 0;
    r->probability = in->probability;
    r->seed = in->seed;
    r->at_once = r->action == INJECT_LOSE_DEVICE && !r->kind && r->session == 0 && r->stream < 0 &&
                 in->nth == 0 && r->probability == 0;
    return check_rule(server, r);
}

static bool holds_nothing(struct inject_rule *r)
{
    return is_used_up(r) && inject_lost(r) < 0 && atomic_load(&r->held.n) == 0;
}

/* A place for a rule, or NULL. The engines' locks are held. */
static struct inject_rule *make_room(struct server *server)
{
    struct inject *in = server->inject;

    for (uint32_t i = 0; i < in->n && in->n == INJECT_RULES_MAX; i++)
        if (holds_nothing(in->order[i]))
            rule_remove(server, i);
    for (uint32_t i = 0; i < INJECT_RULES_MAX; i++)
        if (in->rule[i].id == 0)
            return &in->rule[i];
    return NULL;
}

static void log_rule(const struct inject_rule *r)
{
    char tasks[96], which[96], effect[96];

    inject_describe_tasks(r, tasks, sizeof(tasks));
    inject_describe_which(r, which, sizeof(which));
    inject_describe_effect(r, effect, sizeof(effect));
    log_event(MESSAGE_INJECTION, LOG_NOTICE, NULL, "fault injection: rule %llu set: %s: %s, %s: %s",
              (unsigned long long)r->id, inject_action_names[r->spec.action], tasks, which, effect);
}

enum cause inject_set(struct server *server, const struct Npud__Inject *request, uint64_t *id)
{
    struct inject *in = server->inject;
    struct inject_spec spec = {0};
    struct inject_rule *r;
    enum cause cause = read_rule(server, request, &spec);

    if (cause != CAUSE_NONE)
        return cause;
    engines_lock(server);
    r = make_room(server);
    cause = !r ? CAUSE_RULES : rule_keep(r) ? CAUSE_NONE : CAUSE_MEMORY;
    if (cause == CAUSE_NONE) {
        r->id = *id = ++server->last->rule;
        r->spec = spec;
        in->order[in->n++] = r;
        if (r->spec.at_once) {
            r->live->hits = 1;
            r->live->lost = (uint64_t)r->spec.device + 1;
        }
        tell_engines(server);
        /* Clients hear of it: that there is the rule is certain by then. */
        if (inject_lost(r) >= 0) {
            kept_commit();
            lose_device(&server->devices->device[inject_lost(r)], r);
        }
    }
    engines_unlock(server);
    if (cause == CAUSE_NONE)
        log_rule(r);
    return cause;
}

void inject_init(struct inject *in)
{
    *in = (struct inject){0};
    pthread_mutex_init(&in->lock, NULL);
    for (uint32_t i = 0; i < INJECT_RULES_MAX; i++)
        waitlist_init(&in->rule[i].held);
}

void inject_deinit(struct inject *in)
{
    for (uint32_t i = 0; i < INJECT_RULES_MAX; i++) {
        kept_drop(&in->rule[i].kept);
        waitlist_deinit(&in->rule[i].held);
    }
    pthread_mutex_destroy(&in->lock);
}

const struct inject_rule *inject_holder(const struct inject *in, const struct waitlist *list)
{
    for (uint32_t i = 0; list && i < INJECT_RULES_MAX; i++)
        if (list == &in->rule[i].held)
            return &in->rule[i];
    return NULL;
}

/* --- in words --- */

void inject_describe_tasks(const struct inject_rule *r, char *buf, size_t size)
{
    int n;

    if (r->spec.at_once) {
        snprintf(buf, size, "device %d", r->spec.device);
        return;
    }
    n = snprintf(buf, size, "%s tasks", r->spec.kind ? r->spec.kind : "all");
    if (r->spec.session != 0)
        n += snprintf(buf + n, size - (size_t)n, " of session %llu",
                      (unsigned long long)r->spec.session);
    if (r->spec.stream >= 0)
        n += snprintf(buf + n, size - (size_t)n, " in stream %d", r->spec.stream);
    if (r->spec.device >= 0)
        snprintf(buf + n, size - (size_t)n, " on device %d", r->spec.device);
}

void inject_describe_which(const struct inject_rule *r, char *buf, size_t size)
{
    const struct inject_spec *spec = &r->spec;
    int n = 0;

    if (spec->at_once)
        n = snprintf(buf, size, "at once");
    else if (spec->count == 1 && spec->probability == 0)
        n = snprintf(buf, size, "number %llu", (unsigned long long)spec->nth);
    else if (spec->count != 0)
        n = snprintf(buf, size, "%llu", (unsigned long long)spec->count);
    else
        n = snprintf(buf, size, "all");
    if (spec->nth > 1 && (spec->count != 1 || spec->probability != 0))
        n += snprintf(buf + n, size - (size_t)n, " from number %llu on",
                      (unsigned long long)spec->nth);
    if (spec->probability != 0)
        snprintf(buf + n, size - (size_t)n, " with probability %g, seed %llu", spec->probability,
                 (unsigned long long)spec->seed);
}

void inject_describe_effect(const struct inject_rule *r, char *buf, size_t size)
{
    const char *name = error_name(r->spec.code);

    if (r->spec.code == 0)
        snprintf(buf, size, "held");
    else
        snprintf(buf, size, "%d%s%s", r->spec.code, name ? " " : "", name ? name : "");
}

void inject_describe_state(const struct inject_rule *r, char *buf, size_t size)
{
    if (inject_lost(r) >= 0)
        snprintf(buf, size, "device %d lost", inject_lost(r));
    else
        snprintf(buf, size, "%s", is_used_up(r) ? "used up" : "active");
}
