/*
 * A session that lives while the configuration changes: what it has stays, and what it may still
 * have is right for the new one.
 */
#include "npud.h"

static struct session *session;

static void begin(void)
{
    npud_start((const char *const[]){"sim.devices=1", "stream.depth=64", NULL});
    session = npud_session(1);
}

/* As after a file was read again. */
static void reload(void)
{
    server_configure(&server);
}

/* More streams than the new limit allows: none are left, and not 2^64 less some. */
START_TEST(a_lower_limit_leaves_no_streams)
{
    const struct attach *attach = session_attach(session, 0);

    config.limit[RESOURCE_STREAMS] = 5;
    for (int i = 0; i < 3; i++)
        npud_stream(session, 0);
    ck_assert_uint_eq(streams_remaining(session, attach), 2);
    config.limit[RESOURCE_STREAMS] = 1;
    reload();
    ck_assert_uint_eq(streams_remaining(session, attach), 0);
    config.limit[RESOURCE_STREAMS] = 3;
    reload();
    ck_assert_uint_eq(streams_remaining(session, attach), 0);
    config.limit[RESOURCE_STREAMS] = 4;
    reload();
    ck_assert_uint_eq(streams_remaining(session, attach), 1);
}
END_TEST

/* Fills a ring and goes round once more: each entry must be found where the client has put it. */
static void fill_ring(struct stream *stream)
{
    uint64_t last = 0;

    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < stream->depth; i++)
            last = client_submit(stream, (struct task){.op = TASK_NOP});
        client_wait(stream, last);
    }
    ck_assert_int_eq((int)atomic_load(&stream->ctrl->error), 0);
}

/* Streams 0 to 16: the first segment was made with the depth of before, the second comes later. */
START_TEST(a_session_keeps_its_ring_depth)
{
    struct stream *stream[ARENA_STREAMS + 1];
    struct session *newer;

    stream[0] = npud_stream(session, 0);
    ck_assert_uint_eq(stream[0]->depth, 64);
    config.ring_depth = 256;
    reload();
    for (unsigned i = 1; i <= ARENA_STREAMS; i++) {
        stream[i] = npud_stream(session, 0);
        ck_assert_uint_eq(stream[i]->depth, 64);
    }
    ck_assert_uint_eq(session->stream_files.size, arena_stream_file_size(64));
    for (unsigned i = 0; i <= ARENA_STREAMS; i++)
        fill_ring(stream[i]);
    newer = npud_session(2);
    stream[0] = npud_stream(newer, 0);
    ck_assert_uint_eq(stream[0]->depth, 256);
    ck_assert_uint_eq(newer->stream_files.size, arena_stream_file_size(256));
    fill_ring(stream[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reload");
    TCase *c = suite_case(s, "sessions", 30, begin, npud_stop);

    tcase_add_test(c, a_lower_limit_leaves_no_streams);
    tcase_add_test(c, a_session_keeps_its_ring_depth);
    return run_suite(s);
}
