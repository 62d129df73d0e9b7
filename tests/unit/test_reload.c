/*
 * A session that lives while the configuration changes: what it has stays, and what it may still
 * have is right for the new one.
 */
#include "npud.h"

static struct session *session;

static void begin(void)
{
    npud_start((const char *const[]){"sim.devices=1", NULL});
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
    ck_assert_uint_eq(streams_left(session, attach), 2);
    config.limit[RESOURCE_STREAMS] = 1;
    reload();
    ck_assert_uint_eq(streams_left(session, attach), 0);
    config.limit[RESOURCE_STREAMS] = 3;
    reload();
    ck_assert_uint_eq(streams_left(session, attach), 0);
    config.limit[RESOURCE_STREAMS] = 4;
    reload();
    ck_assert_uint_eq(streams_left(session, attach), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reload");
    TCase *c = suite_case(s, "sessions", 30, begin, npud_stop);

    tcase_add_test(c, a_lower_limit_leaves_no_streams);
    return run_suite(s);
}
