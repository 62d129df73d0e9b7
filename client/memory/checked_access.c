#include "client/memory/checked_access.h"

#include "client/buffers/segment.h"
#include "client/memory/place.h"
#include "client/capture/capture.h"
#include "client/core/trace_writer.h"
#include "client/runtime/stream.h"

struct access {
    struct check_access head;
    struct check_range_use use[2];
};

/* False: the memory is pageable, or gone. */
static bool name_place(struct session *session, const struct place *at, uint64_t count,
                       uint32_t how, struct check_range_use *use)
{
    struct segment_place in;

    *use = (struct check_range_use){.offset = (uintptr_t)at->address, .size = count, .how = how};
    switch (at->kind) {
    case PLACE_PAGEABLE:
    case PLACE_KINDS:
        return false;
    case PLACE_REGISTERED:
        use->name.slot = CHECK_SLOT_HOST;
        return true;
    case PLACE_BUFFER:
        if (!segment_locate(session, at->address, &in))
            return false;
        use->name = (struct check_memory_name){CHECK_SLOT_BUFFER, in.view->id};
        use->offset = in.block * in.view->stride + in.offset;
        return true;
    case PLACE_PINNED:
    case PLACE_DEVICE:
    case PLACE_MANAGED:
        break;
    }
    use->name = (struct check_memory_name){at->memory.remote, at->memory.remote_generation};
    use->offset = place_remote_offset(at);
    return true;
}

static size_t size_of(const struct access *a)
{
    return sizeof(a->head) + a->head.n * sizeof(a->use[0]);
}

/* Of a stream that is captured, each execution writes it down. */
static void give_access(const struct stream *s, struct access *a)
{
    if (a->head.n > 0 && !(s && capture_keep_record(s, &a->head, size_of(a))))
        checked_write(&a->head.r, size_of(a));
}

static void write_access(struct session *session, const struct stream *s, struct access *a,
                         const struct place *to, const struct place *from, uint64_t count,
                         uint32_t how)
{
    a->head.r.kind = CHECK_ACCESS;
    a->head.stream = s ? stream_checked_name(s) : CHECK_NO_STREAM;
    if (from && name_place(session, from, count, CHECK_READ, &a->use[a->head.n]))
        a->head.n++;
    if (to && name_place(session, to, count, how, &a->use[a->head.n]))
        a->head.n++;
    give_access(s, a);
}

struct walk {
    struct session *session;
    const struct stream *stream;
    bool reads, writes;
};

static int write_piece(void *context, const struct place *to, const struct place *from,
                       uint64_t count)
{
    const struct walk *w = context;
    struct access a = {.head.op = w->reads ? TASK_COPY : TASK_SET};

    write_access(w->session, w->stream, &a, w->writes ? to : NULL, w->reads ? from : NULL, count,
                 CHECK_WRITE);
    return 0;
}

/* A place that is both counts as the host's. */
static void tell_trace(const struct place *to, const struct place *from, uint64_t count)
{
    bool to_host = place_row(to)->host;

    if (!(atomic_load_explicit(&process->accesses_told, memory_order_relaxed) & ACCESS_TRACED))
        return;
    trace_moved(from      ? trace_way_of(place_row(from)->host, to_host)
                : to_host ? TRACE_TO_HOST
                          : TRACE_TO_DEVICE,
                count);
}

void checked_access(struct session *session, const struct stream *s, const struct place *to,
                    const struct place *from, uint64_t count)
{
    struct walk w = {session, s, from != NULL, to != NULL};

    if (to && !s)
        tell_trace(to, from, count);
    if (!checked_runs())
        return;
    /* Host memory and buffers never go on in another mapping. */
    if ((to && to->goes_on) || (from && from->goes_on))
        place_walk(session, "", to ? to : from, from ? from : to, count, write_piece, &w);
    else
        write_piece(&w, to, from, count);
}

void checked_reduce(const struct stream *s, const struct place *to, const struct place *from,
                    uint64_t count)
{
    struct access a = {.head.op = TASK_REDUCE};

    write_access(s->session, s, &a, to, from, count, CHECK_READ | CHECK_WRITE);
}

void checked_word(const struct stream *s, enum task_op op, const struct place *at, uint64_t value,
                  uint32_t condition)
{
    struct access a = {.head.op = op, .head.value = value, .head.condition = condition};

    write_access(s->session, s, &a, at, NULL, sizeof(value),
                 CHECK_WORD | (op == TASK_VALUE_WRITE ? CHECK_WRITE : CHECK_READ));
}

/* False: the word is no address of memory that npud knows. */
static bool name_word(struct session *session, uint64_t word, struct access *a)
{
    struct memory m;

    if (word == 0 || !memory_look_up(session, (const void *)(uintptr_t)word, &m))
        return false;
    *a = (struct access){.head.r.kind = CHECK_ACCESS, .head.op = TASK_CALLBACK, .head.n = 1};
    a->use[0] = (struct check_range_use){.name = {m.remote, m.remote_generation},
                                         .offset = m.remote_offset + word - m.mapped.start,
                                         .size = m.mapped.start + m.size - word,
                                         .how = CHECK_WRITE | CHECK_WORD | CHECK_MAYBE};
    return true;
}

void checked_kernel(const struct stream *s, const uint64_t *words, size_t n)
{
    struct access a;

    for (size_t i = 0; i < n; i++) {
        if (!name_word(s->session, words[i], &a))
            continue;
        a.head.stream = stream_checked_name(s);
        give_access(s, &a);
    }
}

struct graph_check *checked_graph_kernel(struct session *session, const uint64_t *words, size_t n)
{
    struct graph_check *list = NULL;
    struct access a;

    for (size_t i = 0; i < n; i++)
        if (name_word(session, words[i], &a))
            graph_check_add(&list, &a.head, size_of(&a));
    return list;
}
