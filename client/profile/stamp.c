/* Stamps: messages of the program, as moments and ranges. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_prof.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/npud_clock.h"
#include "client/core/process.h"
#include "client/core/thread.h"
#include "client/profile/profile.h"
#include "client/runtime/trace_range.h"

#define STAMPS        100
#define MESSAGE_MAX   127
#define MARK_EX_MAX   155
#define PUSHES_MAX    64 /* of a thread */
#define RANGES_MAX    65536
#define NAMES_MAX     65536
#define FAILED        (-1)
#define NO_NAME       UINT64_MAX
#define MESSAGE_BYTES (MARK_EX_MAX + 1)

struct stamp {
    bool taken;
    char message[MESSAGE_BYTES];
};

/* That was begun, and by which start of collection it is collected. */
struct range {
    uint32_t start;
    uint32_t thread;
    uint64_t begin_ns;
    char message[MESSAGE_BYTES];
};

struct open_range {
    uint32_t id;
    struct range range;
    UT_hash_handle hh;
};

/* A text that aclprofStr2Id has seen. */
struct name {
    uint64_t id;
    UT_hash_handle hh;
    char text[];
};

struct profile_pushes {
    unsigned n;
    struct range range[PUSHES_MAX];
};

static struct {
    pthread_mutex_t lock;
    struct stamp stamp[STAMPS];
    struct open_range *ranges;
    uint32_t last_range;
    struct name *names;
    /* aclprofRangePushEx: one of the process */
    bool pushed;
    struct range push;
} stamps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __attribute__((constructor)) void know_lock(void)
{
    lock_order_know(&stamps.lock, LOCK_STAMPS);
}

/* --- what is told --- */

static void tell_mark(const char *text)
{
    char quoted[PROFILE_QUOTED(MESSAGE_BYTES)];

    trace_say_mark(text);
    profile_file_put(&profile_files.host,
                     "\"tid\":%u,\"ph\":\"i\",\"s\":\"t\",\"cat\":\"mark\",\"name\":%s,"
                     "\"ts\":" PROFILE_TIME,
                     thread_self()->tid, profile_quote(quoted, text), PROFILE_US(npud_clock_ns()));
}

/* It ends here. more: further members of "args", or "". */
static void tell_range(const struct range *r, const char *more)
{
    char quoted[PROFILE_QUOTED(MESSAGE_BYTES)];
    uint64_t now = npud_clock_ns();

    trace_say_range(r->begin_ns, r->message);
    profile_file_put(&profile_files.host,
                     "\"tid\":%u,\"ph\":\"X\",\"cat\":\"range\",\"name\":%s,\"ts\":" PROFILE_TIME
                     ",\"dur\":" PROFILE_TIME ",\"args\":{\"ended by\":%u%s}",
                     r->thread, profile_quote(quoted, r->message), PROFILE_US(r->begin_ns),
                     PROFILE_US(now - r->begin_ns), thread_self()->tid, more);
}

static void begin_range(struct range *r, uint32_t start, const char *message)
{
    *r = (struct range){.start = start, .thread = thread_self()->tid, .begin_ns = npud_clock_ns()};
    strncpy(r->message, message, sizeof(r->message) - 1);
}

/* The number of the start that collects stamps; 0, with the sentence: none does. */
static uint32_t collected(const char *function)
{
    uint32_t start = process_enter() == 0 ? profile_stamps() : 0;

    if (start == 0 && process_enter() == 0)
        error_set(FAILED,
                  "%s: no stamps are collected: aclprofStart with ACL_PROF_MSPROFTX begins that",
                  function);
    return start;
}

/* --- stamps --- */

/* Locked. NULL: it is none, or was destroyed. */
static struct stamp *find_stamp(void *handle)
{
    for (unsigned i = 0; i < STAMPS; i++)
        if (handle == &stamps.stamp[i])
            return stamps.stamp[i].taken ? &stamps.stamp[i] : NULL;
    return NULL;
}

static int error_stamp(const char *function)
{
    return error_set(FAILED, "%s: this is no stamp, or it was destroyed", function);
}

void *aclprofCreateStamp(void)
{
    CALL_SCOPE;
    struct stamp *found = NULL;

    if (collected(__func__) == 0)
        return NULL;
    pthread_mutex_lock(&stamps.lock);
    for (unsigned i = 0; i < STAMPS && !found; i++)
        if (!stamps.stamp[i].taken)
            found = &stamps.stamp[i];
    if (found)
        *found = (struct stamp){.taken = true};
    pthread_mutex_unlock(&stamps.lock);
    if (!found)
        error_set(FAILED, "%s: a process can have %d stamps: destroy some", __func__, STAMPS);
    return found;
}

void aclprofDestroyStamp(void *stamp)
{
    CALL_SCOPE;
    struct stamp *s;

    pthread_mutex_lock(&stamps.lock);
    s = find_stamp(stamp);
    if (s)
        s->taken = false;
    pthread_mutex_unlock(&stamps.lock);
}

aclError aclprofSetStampTraceMessage(void *stamp, const char *msg, uint32_t msgLen)
{
    CALL_SCOPE;
    struct stamp *s;

    if (!stamp || !msg)
        return error_set(FAILED, "%s: %s is NULL", __func__, stamp ? "msg" : "stamp");
    if (msgLen > MESSAGE_MAX)
        return error_set(FAILED, "%s: msgLen is %u, and must be at most %d", __func__, msgLen,
                         MESSAGE_MAX);
    pthread_mutex_lock(&stamps.lock);
    s = find_stamp(stamp);
    if (s) {
        memset(s->message, 0, sizeof(s->message));
        memcpy(s->message, msg, strnlen(msg, msgLen));
    }
    pthread_mutex_unlock(&stamps.lock);
    return s ? 0 : error_stamp(__func__);
}

/*
 * What calls with a stamp begin with: the number of the start that collects, and its message. Not
 * 0: an error with its sentence.
 */
static int take_message(const char *function, void *stamp, uint32_t *start,
                        char message[MESSAGE_BYTES])
{
    struct stamp *s;

    if (!stamp)
        return error_null(function, "stamp");
    *start = collected(function);
    if (*start == 0)
        return FAILED;
    pthread_mutex_lock(&stamps.lock);
    s = find_stamp(stamp);
    if (s)
        memcpy(message, s->message, MESSAGE_BYTES);
    pthread_mutex_unlock(&stamps.lock);
    return s ? 0 : error_stamp(function);
}

aclError aclprofMark(void *stamp)
{
    CALL_SCOPE;
    char message[MESSAGE_BYTES];
    uint32_t start;

    RETURN_IF_ERROR(take_message(__func__, stamp, &start, message));
    tell_mark(message);
    return 0;
}

/* --- ranges of a thread --- */

/* Of the calling thread: those of an earlier start are forgotten. NULL: no memory. */
static struct profile_pushes *pushes_of(struct thread *t, uint32_t start)
{
    /* The dummy is several threads', pushes are one's. */
    if (!t->pushes && t == thread_current)
        t->pushes = calloc(1, sizeof(*t->pushes));
    if (t->pushes && t->pushes->n > 0 && t->pushes->range[0].start != start)
        t->pushes->n = 0;
    return t->pushes;
}

aclError aclprofPush(void *stamp)
{
    CALL_SCOPE;
    char message[MESSAGE_BYTES];
    struct profile_pushes *p;
    uint32_t start = 0;

    RETURN_IF_ERROR(take_message(__func__, stamp, &start, message));
    p = pushes_of(thread_self(), start);
    if (!p || p->n == PUSHES_MAX)
        return error_set(FAILED, "%s: the thread is in %u ranges already: aclprofPop ends one",
                         __func__, p ? p->n : 0);
    begin_range(&p->range[p->n++], start, message);
    return 0;
}

aclError aclprofPop(void)
{
    CALL_SCOPE;
    uint32_t start = collected(__func__);
    struct profile_pushes *p = start != 0 ? pushes_of(thread_self(), start) : NULL;

    if (start == 0)
        return FAILED;
    if (!p || p->n == 0)
        return error_set(FAILED, "%s: the thread is in no range: aclprofPush begins one", __func__);
    tell_range(&p->range[--p->n], "");
    return 0;
}

static void forget_pushes(struct thread *t)
{
    free(t->pushes);
    t->pushes = NULL;
}

const struct part profile_stamp_part = {.thread_exit = forget_pushes};

/* --- ranges of the process --- */

/* Locked. 0: there are too many, or no memory. */
static uint32_t open_range(const struct range *range)
{
    struct open_range *r = HASH_COUNT(stamps.ranges) < RANGES_MAX ? calloc(1, sizeof(*r)) : NULL,
                      *other;

    if (!r)
        return 0;
    do {
        r->id = ++stamps.last_range;
        HASH_FIND(hh, stamps.ranges, &r->id, sizeof(r->id), other);
    } while (r->id == 0 || other);
    r->range = *range;
    HASH_ADD(hh, stamps.ranges, id, sizeof(r->id), r);
    return r->id;
}

aclError aclprofRangeStart(void *stamp, uint32_t *rangeId)
{
    CALL_SCOPE;
    char message[MESSAGE_BYTES];
    struct range range;
    uint32_t start = 0, id;

    REQUIRE(stamp);
    REQUIRE(rangeId);
    RETURN_IF_ERROR(take_message(__func__, stamp, &start, message));
    begin_range(&range, start, message);
    pthread_mutex_lock(&stamps.lock);
    id = open_range(&range);
    pthread_mutex_unlock(&stamps.lock);
    if (id == 0)
        return error_set(FAILED,
                         "%s: no memory, or %d ranges were begun: aclprofRangeStop ends one",
                         __func__, RANGES_MAX);
    *rangeId = id;
    return 0;
}

/* It is open no more, and freed by the caller. NULL: there is none with this id. */
static struct open_range *take_range(uint32_t id)
{
    struct open_range *r;

    pthread_mutex_lock(&stamps.lock);
    HASH_FIND(hh, stamps.ranges, &id, sizeof(id), r);
    if (r)
        HASH_DEL(stamps.ranges, r);
    pthread_mutex_unlock(&stamps.lock);
    return r;
}

aclError aclprofRangeStop(uint32_t rangeId)
{
    CALL_SCOPE;
    uint32_t start = collected(__func__);
    struct open_range *r;

    if (start == 0)
        return FAILED;
    r = take_range(rangeId);
    if (!r)
        return error_set(FAILED, "%s: no range has the id %u: aclprofRangeStart gives it", __func__,
                         rangeId);
    if (r->range.start == start)
        tell_range(&r->range, "");
    free(r);
    return 0;
}

/* --- without a stamp --- */

aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream)
{
    CALL_SCOPE;
    char quoted[PROFILE_QUOTED(MESSAGE_BYTES)];

    if (!msg || !stream)
        return error_set(FAILED, "%s: %s is NULL", __func__, msg ? "stream" : "msg");
    if (msgLen > MARK_EX_MAX || strnlen(msg, MESSAGE_BYTES) != msgLen)
        return error_set(FAILED, "%s: msgLen is %zu, and must be that of msg, at most %d", __func__,
                         msgLen, MARK_EX_MAX);
    if (collected(__func__) == 0 ||
        profile_put_point(__func__, stream, POINT_MARK, 0, profile_quote(quoted, msg)) != 0)
        return FAILED;
    tell_mark(msg);
    return 0;
}

static uint64_t hash_text(const char *text)
{
    uint64_t x = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        x = (x ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return x != NO_NAME ? x : 0;
}

uint64_t aclprofStr2Id(const char *message)
{
    CALL_SCOPE;
    struct name *n;
    uint64_t id;

    if (!message) {
        error_null(__func__, "message");
        return NO_NAME;
    }
    id = hash_text(message);
    pthread_mutex_lock(&stamps.lock);
    HASH_FIND(hh, stamps.names, &id, sizeof(id), n);
    if (!n && HASH_COUNT(stamps.names) < NAMES_MAX &&
        (n = calloc(1, sizeof(*n) + strlen(message) + 1))) {
        n->id = id;
        strcpy(n->text, message);
        HASH_ADD(hh, stamps.names, id, sizeof(n->id), n);
    }
    pthread_mutex_unlock(&stamps.lock);
    return id;
}

/* The text of the id, as far as it fits; or the id itself. */
static void name_of(uint64_t id, char *text, size_t size)
{
    struct name *n;

    pthread_mutex_lock(&stamps.lock);
    HASH_FIND(hh, stamps.names, &id, sizeof(id), n);
    if (n)
        snprintf(text, size, "%s", n->text);
    else
        snprintf(text, size, "operator %llu", (unsigned long long)id);
    pthread_mutex_unlock(&stamps.lock);
}

aclError aclprofRangePushEx(aclprofEventAttributes *attr)
{
    CALL_SCOPE;
    const aclprofTensorInfo *info;
    char name[MESSAGE_BYTES];
    struct range range;
    uint32_t start;

    REQUIRE(attr);
    if (attr->messageType != ACL_PROF_MESSAGE_TYPE_TENSOR_INFO || !attr->message)
        return error_set(FAILED,
                         "%s: messageType is not ACL_PROF_MESSAGE_TYPE_TENSOR_INFO, or "
                         "message is NULL",
                         __func__);
    start = collected(__func__);
    if (start == 0)
        return FAILED;
    info = attr->message;
    name_of(info->opNameId, name, sizeof(name));
    begin_range(&range, start, name);
    pthread_mutex_lock(&stamps.lock);
    stamps.push = range;
    stamps.pushed = true;
    pthread_mutex_unlock(&stamps.lock);
    return 0;
}

aclError aclprofRangePop(void)
{
    CALL_SCOPE;
    struct range range;
    bool pushed;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&stamps.lock);
    pushed = stamps.pushed;
    range = stamps.push;
    stamps.pushed = false;
    pthread_mutex_unlock(&stamps.lock);
    if (!pushed)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: aclprofRangePushEx was not called, or its range has ended", __func__);
    if (range.start == profile_stamps())
        tell_range(&range, "");
    return 0;
}

/* --- for tools, with or without a profile --- */

static bool is_heard(uint32_t *start)
{
    *start = profile_stamps();
    return *start != 0 || trace_is_heard();
}

aclError aclnpudTraceMarkInStream(const char *text, aclrtStream stream)
{
    CALL_SCOPE;
    char part[MESSAGE_BYTES], quoted[PROFILE_QUOTED(MESSAGE_BYTES)];
    uint32_t start;
    int error = 0;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(text);
    if (!is_heard(&start))
        return 0;
    snprintf(part, sizeof(part), "%s", text);
    if (start != 0 && stream)
        error = profile_put_point(__func__, stream, POINT_MARK, 0, profile_quote(quoted, part));
    if (start != 0)
        tell_mark(part);
    else
        trace_say_mark(text);
    return error;
}

aclError aclnpudTraceRangeStart(const char *name, uint64_t *id)
{
    CALL_SCOPE;
    struct range range;
    uint32_t start;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(name);
    REQUIRE(id);
    *id = 0;
    if (!is_heard(&start))
        return 0;
    begin_range(&range, start, name);
    pthread_mutex_lock(&stamps.lock);
    *id = open_range(&range);
    pthread_mutex_unlock(&stamps.lock);
    if (*id != 0)
        return 0;
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                     "%s: no memory, or %d ranges were begun: aclnpudTraceRangeStop ends one",
                     __func__, RANGES_MAX);
}

aclError aclnpudTraceRangeStop(uint64_t id)
{
    CALL_SCOPE;
    struct open_range *r;
    uint32_t start;

    RETURN_IF_ERROR(process_enter());
    if (id == 0)
        return 0;
    r = id <= UINT32_MAX ? take_range((uint32_t)id) : NULL;
    if (!r)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: no range has the id %llu: aclnpudTraceRangeStart gives it", __func__,
                         (unsigned long long)id);
    if (is_heard(&start)) {
        if (start != 0 && r->range.start == start)
            tell_range(&r->range, "");
        else
            trace_say_range(r->range.begin_ns, r->range.message);
    }
    free(r);
    return 0;
}

/* --- life --- */

void profile_stamps_forget(void)
{
    struct open_range *r = stamps.ranges, *next_range;
    struct name *n = stamps.names, *next_name;

    HASH_CLEAR(hh, stamps.ranges);
    HASH_CLEAR(hh, stamps.names);
    for (; r; r = next_range) {
        next_range = r->hh.next;
        free(r);
    }
    for (; n; n = next_name) {
        next_name = n->hh.next;
        free(n);
    }
    memset(&stamps, 0, sizeof(stamps));
    lock_init(&stamps.lock, LOCK_STAMPS);
}
