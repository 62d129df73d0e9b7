/*
 * What a segment of the arena costs its user: a mapping and its size, refused by the exact limit.
 * A refused object leaves nothing charged.
 */
#include "npud.h"

static struct session *session;

static void begin(void)
{
    npud_start((const char *const[]){"sim.devices=1", NULL});
    session = npud_session(1);
}

static uint64_t used_of(enum resource resource)
{
    return user_used(session->user, resource);
}

static enum cause make_event(int *fd)
{
    struct event_obj *event;

    return event_obj_new(session, 0, 0, &event, fd);
}

static enum cause make_stream(int *fd)
{
    struct stream *stream;

    return stream_new(session, session_attach(session, 0), 0, 0, 0, &stream, fd);
}

/* A kind of objects whose first segment is not there yet. */
struct kind {
    struct slots *table;
    struct segments *segments;
    size_t size;
    enum resource resource;
    enum cause (*make)(int *fd);
};

static void expect_refused(const struct kind *kind, enum cause cause)
{
    uint64_t maps = used_of(RESOURCE_MAPPINGS), bytes = used_of(RESOURCE_TABLE_MEMORY);
    int fd;

    ck_assert_int_eq(kind->make(&fd), cause);
    ck_assert_int_eq(fd, -1);
    ck_assert(kind->segments->n == 0 || !kind->segments->map[0]);
    ck_assert_uint_eq(used_of(RESOURCE_MAPPINGS), maps);
    ck_assert_uint_eq(used_of(RESOURCE_TABLE_MEMORY), bytes);
    ck_assert_uint_eq(used_of(kind->resource), 0);
}

/* The table grows before, so that what an object is charged is the segment alone. */
static void grow_table(const struct kind *kind)
{
    enum cause cause;
    void *object = session_take_slot(session, kind->table, CAUSE_MEMORY, &cause);

    ck_assert_ptr_nonnull(object);
    session_put_slot(session, kind->table, object);
}

static void charge_segment(const struct kind *kind)
{
    uint64_t maps, bytes;
    int fd;

    grow_table(kind);
    maps = used_of(RESOURCE_MAPPINGS);
    bytes = used_of(RESOURCE_TABLE_MEMORY);
    config.limit[RESOURCE_MAPPINGS] = maps;
    expect_refused(kind, CAUSE_USER_MAPPINGS);
    config.limit[RESOURCE_MAPPINGS] = maps + 1;
    config.limit[RESOURCE_TABLE_MEMORY] = bytes + kind->size - 1;
    expect_refused(kind, CAUSE_USER_TABLE_MEMORY);
    config.limit[RESOURCE_TABLE_MEMORY] = bytes + kind->size;
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_uint_eq(used_of(RESOURCE_MAPPINGS), maps + 1);
    ck_assert_uint_eq(used_of(RESOURCE_TABLE_MEMORY), bytes + kind->size);
    /* The next object stands in the same segment. */
    ck_assert_int_eq(kind->make(&fd), CAUSE_NONE);
    ck_assert_int_eq(fd, -1);
    ck_assert_uint_eq(used_of(kind->resource), 2);
}

START_TEST(a_segment_of_events_is_charged)
{
    const struct kind events = {&session->events, &session->event_segments,
                                arena_event_segment_size(), RESOURCE_EVENTS, make_event};

    charge_segment(&events);
}
END_TEST

START_TEST(a_segment_of_streams_is_charged)
{
    const struct kind streams = {&session->streams, &session->stream_segments,
                                 arena_stream_segment_size(session->ring_depth), RESOURCE_STREAMS,
                                 make_stream};

    charge_segment(&streams);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arena");
    TCase *c = suite_case(s, "segments", 30, begin, npud_stop);

    tcase_add_test(c, a_segment_of_events_is_charged);
    tcase_add_test(c, a_segment_of_streams_is_charged);
    return run_suite(s);
}
