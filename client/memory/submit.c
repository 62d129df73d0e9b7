#include "client/memory/submit.h"

#include "client/core/error.h"

struct fill {
    struct stream *stream;
    const char *function;
    uint8_t value;
};

static int copy_piece(struct stream *s, const char *function, const struct place *to,
                      const struct place *from, uint64_t count)
{
    struct task task = {
        .op = TASK_COPY,
        .object = to->memory.remote,
        .generation = to->memory.remote_generation,
        .copy = {.dst_offset = place_remote_offset(to),
                 .src = from->memory.remote,
                 .src_generation = from->memory.remote_generation,
                 .src_offset = place_remote_offset(from),
                 .size = count},
    };

    place_populate(s->session, to, count);
    place_populate(s->session, from, count);
    return stream_submit(s, function, &task);
}

static int copy_walked(void *context, const struct place *to, const struct place *from,
                       uint64_t count)
{
    const struct fill *f = context;

    return copy_piece(f->stream, f->function, to, from, count);
}

int submit_copy(struct stream *s, const char *function, const struct place *to,
                const struct place *from, uint64_t count)
{
    struct fill f = {.stream = s, .function = function};

    if (__builtin_expect(!(to->goes_on | from->goes_on), 1))
        return copy_piece(s, function, to, from, count);
    return place_walk(s->session, function, to, from, count, copy_walked, &f);
}

static int set_piece(struct stream *s, const char *function, const struct place *at, uint8_t value,
                     uint64_t count)
{
    struct task task = {
        .op = TASK_SET,
        .object = at->memory.remote,
        .generation = at->memory.remote_generation,
        .set = {.offset = place_remote_offset(at), .size = count, .value = value},
    };

    place_populate(s->session, at, count);
    return stream_submit(s, function, &task);
}

static int set_walked(void *context, const struct place *at, const struct place *from,
                      uint64_t count)
{
    const struct fill *f = context;

    (void)from;
    return set_piece(f->stream, f->function, at, f->value, count);
}

int submit_set(struct stream *s, const char *function, const struct place *at, uint8_t value,
               uint64_t count)
{
    struct fill f = {.stream = s, .function = function, .value = value};

    if (__builtin_expect(!at->goes_on, 1))
        return set_piece(s, function, at, value, count);
    return place_walk(s->session, function, at, NULL, count, set_walked, &f);
}
