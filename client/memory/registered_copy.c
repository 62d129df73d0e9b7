#include "client/memory/registered_copy.h"

#include <stdlib.h>

#include "client/core/error.h"
#include "client/memory/direct.h"
#include "client/memory/place.h"
#include "client/runtime/stream.h"
#include "client/runtime/upcall.h"

struct registered_copy {
    struct stream_work work;
    struct session *session;
    size_t count;
    struct place to, from;
};

/* Device memory that was freed meanwhile has no pages. */
static bool is_there(struct session *s, const struct place *p)
{
    struct memory m;

    return p->kind != PLACE_DEVICE ||
           (memory_look_up(s, p->address, &m) && !m.freed && m.remote == p->memory.remote &&
            m.remote_generation == p->memory.remote_generation);
}

static int run_copy(struct stream_work *w)
{
    struct registered_copy *c = (struct registered_copy *)(void *)w;

    if (!is_there(c->session, &c->to) || !is_there(c->session, &c->from))
        return ACL_ERROR_RT_SYS_DMA;
    RETURN_IF_ERROR(direct_copy(c->session, "aclrtMemcpyAsync", &c->to, &c->from, c->count));
    return place_tell_written(c->session, "aclrtMemcpyAsync", &c->to, c->count);
}

/* Up to here, a copy takes less time than to hand it to a thread. */
#define COPY_AT_ONCE ((size_t)64 << 10)

int registered_copy_launch(struct stream *s, const char *function, const struct place *to,
                           const struct place *from, size_t count)
{
    struct registered_copy *c;
    int error;

    if (count <= COPY_AT_ONCE && stream_idle(s)) {
        RETURN_IF_ERROR(stream_check(s, function));
        RETURN_IF_ERROR(direct_copy_on(s, function, to, from, count));
        return place_tell_written(s->session, function, to, count);
    }
    c = calloc(1, sizeof(*c));
    if (!c)
        return error_no_memory(function);
    *c = (struct registered_copy){
        .work.run = run_copy, .session = s->session, .count = count, .to = *to, .from = *from};
    error = stream_work_launch(s, function, &c->work);
    if (error != 0)
        free(c);
    return error;
}
