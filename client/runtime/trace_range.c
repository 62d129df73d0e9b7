/* The ring of the process at npud, and what programs say themselves in a trace. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/check/checked.h"
#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/thread.h"
#include "client/core/trace_writer.h"
#include "client/runtime/session.h"
#include "client/runtime/trace_range.h"

#define RANGES_MAX 64

/* The ranges that a thread is in: with their names if a trace ran when they began. */
struct trace_ranges {
    unsigned n;
    struct {
        uint64_t begin_ns; /* 0: none did */
        char name[TRACE_TEXT_MAX + 1];
    } range[RANGES_MAX];
};

/*
 * Calls are told from now on, or no more. A process that was there before the trace hears of it
 * with its first event.
 */
static void watch_calls(const struct trace_writer *w)
{
    bool watch = atomic_load_explicit(&w->page->trace, memory_order_relaxed) & TRACE_CALLS;

    api_call_watch(API_CALL_TRACE, watch);
    process_tell_accesses(ACCESS_TRACED, watch);
}

void trace_tell_call(const char *function, uint64_t begin_ns)
{
    struct session *s = session_peek();

    if (!s || session_lost(s))
        return;
    if (atomic_load_explicit(&s->trace.page->trace, memory_order_relaxed) & TRACE_CALLS)
        trace_call(&s->trace, function, begin_ns);
    else
        watch_calls(&s->trace);
}

/* As large as its file. */
static void *map_ring(int fd, uint64_t *entries)
{
    struct stat st;
    void *ring;

    if (fstat(fd, &st) < 0)
        return NULL;
    *entries = trace_ring_entries((uint64_t)st.st_size, TRACE_CLIENT_ENTRIES);
    ring = mmap(NULL, trace_ring_bytes(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED)
        return NULL;
    madvise(ring, trace_ring_bytes(*entries), MADV_DONTFORK);
    return ring;
}

static struct trace_ring *fetch_ring(struct trace_writer *w, uint64_t *entries)
{
    struct session *s = (struct session *)((char *)w - offsetof(struct session, trace));
    REQUEST(get_trace_ring, GET_TRACE_RING);
    struct error_saved ignored;
    Npud__Reply *reply = NULL;
    void *ring = NULL;
    int fd = -1;

    watch_calls(w);
    error_save(&ignored);
    if (session_request(s, "", &request, &reply, &fd) == 0) {
        session_reply_free(reply);
        ring = map_ring(fd, entries);
        close(fd);
    }
    error_save_end(&ignored);
    return ring;
}

/* The session's, if a trace runs. */
static struct trace_writer *find_writer(void)
{
    struct session *s = session_peek();

    return s && !session_lost(s) && trace_runs(&s->trace) ? &s->trace : NULL;
}

bool trace_is_heard(void)
{
    return find_writer() || checked_runs();
}

void trace_say_mark(const char *text)
{
    struct trace_writer *w = find_writer();

    if (checked_runs())
        checked_text(CHECK_MARK, text);
    if (w)
        trace_text(w, TRACE_MARK, 0, text);
}

void trace_say_range(uint64_t begin_ns, const char *text)
{
    struct trace_writer *w = find_writer();

    if (w)
        trace_text(w, TRACE_RANGE, begin_ns, text);
}

aclError aclnpudTraceMark(const char *text)
{
    CALL_SCOPE;

    REQUIRE(text);
    trace_say_mark(text);
    return 0;
}

/* --- ranges --- */

static struct trace_ranges *find_ranges(struct thread *t)
{
    /* The dummy is several threads', ranges are one's. */
    if (!t->ranges && t == thread_current)
        t->ranges = calloc(1, sizeof(*t->ranges));
    return t->ranges;
}

aclError aclnpudTraceRangeBegin(const char *name)
{
    CALL_SCOPE;
    struct trace_ranges *ranges;
    struct trace_writer *w;

    REQUIRE(name);
    ranges = find_ranges(thread_self());
    if (!ranges)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no memory", __func__);
    if (ranges->n == RANGES_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the thread is in %u ranges already: aclnpudTraceRangeEnd ends one",
                         __func__, RANGES_MAX);
    if (checked_runs())
        checked_text(CHECK_RANGE_BEGIN, name);
    w = find_writer();
    ranges->range[ranges->n].begin_ns = w ? trace_begin(w) : 0;
    if (w)
        snprintf(ranges->range[ranges->n].name, sizeof(ranges->range[0].name), "%s", name);
    ranges->n++;
    return 0;
}

aclError aclnpudTraceRangeEnd(void)
{
    CALL_SCOPE;
    struct trace_ranges *ranges = thread_self()->ranges;
    struct trace_writer *w = find_writer();

    if (!ranges || ranges->n == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the thread has begun no range: aclnpudTraceRangeBegin does",
                         __func__);
    ranges->n--;
    if (checked_runs())
        checked_text(CHECK_RANGE_END, "");
    if (w && ranges->range[ranges->n].begin_ns != 0)
        trace_text(w, TRACE_RANGE, ranges->range[ranges->n].begin_ns,
                   ranges->range[ranges->n].name);
    return 0;
}

/* --- life --- */

static int begin_session(struct session *s, const char *function)
{
    (void)function;
    s->trace.fetch = fetch_ring;
    s->trace.page = s->page;
    s->waits.trace = &s->trace;
    if (trace_runs(&s->trace))
        watch_calls(&s->trace);
    return 0;
}

static void free_session(struct session *s)
{
    trace_unmap(&s->trace);
}

static void leave_thread(struct thread *t)
{
    CALL_SCOPE_OF(NULL);
    struct session *s = t->run.times > 0 ? session_peek() : NULL;

    if (s && !session_lost(s))
        trace_thread_ends(&s->trace);
    free(t->ranges);
    t->ranges = NULL;
}

const struct part trace_part = {
    .session_begin = begin_session,
    .session_free = free_session,
    .thread_exit = leave_thread,
};
