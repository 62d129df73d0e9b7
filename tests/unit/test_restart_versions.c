/*
 * Sessions that an npud of another release has begun: they go on where their protocol is served,
 * and end where it is not.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "restart.h"

#include <assert.h>
#include <stddef.h>

#include "daemon/kept/arena_record.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/command_record.h"
#include "daemon/kept/context_record.h"
#include "daemon/kept/device_record.h"
#include "daemon/kept/event_record.h"
#include "daemon/kept/importers_record.h"
#include "daemon/kept/ipc_event_record.h"
#include "daemon/kept/layout.h"
#include "daemon/kept/notify_record.h"
#include "daemon/kept/release_record.h"
#include "daemon/kept/rule_record.h"
#include "daemon/kept/server_record.h"
#include "daemon/kept/session_record.h"
#include "daemon/kept/stream_record.h"
#include "daemon/kept/survivor_record.h"
#include "proto/wire/packet.h"
#include "requester.h"

/* Records are where release 0.9.0 has them: an upgrade from it, and back to it, finds them. */
#define MEMBER(structure, member, offset, size)                                                    \
    LIST(structure, member, offset);                                                               \
    static_assert(sizeof(((struct structure *)0)->member) == (size), #structure "." #member);
#define LIST(structure, member, offset)                                                            \
    static_assert(offsetof(struct structure, member) == (offset), #structure "." #member);
#include "layout_0_9_0.inc"

static void begin(void)
{
    restart_start((const char *const[]){"sim.devices=1", NULL});
}

/* As if a library of another release had made it. */
static void speak(uint32_t protocol)
{
    server.sessions->protocol = protocol;
    kept_touch(&server.sessions->kept);
    kept_commit();
}

START_TEST(a_session_keeps_its_protocol)
{
    int fd = open_as(1000);

    ck_assert_uint_eq(server.sessions->protocol, PROTOCOL);
    restart_npud();
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
    ck_assert_uint_eq(server.sessions->protocol, PROTOCOL);
    speak(PROTOCOL_OLDEST);
    restart_npud();
    npud_turn();
    ck_assert_uint_eq(server.sessions->protocol, PROTOCOL_OLDEST);
    close_all(&fd, 1);
}
END_TEST

/* _i: the npud before was newer. */
START_TEST(a_session_with_an_unknown_protocol_ends)
{
    int fd = open_as(1000), other;
    size_t n;

    speak(_i ? PROTOCOL + 1 : PROTOCOL_OLDEST - 1);
    other = open_as(1000);
    restart_npud();
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 1);
    ck_assert_uint_eq(server.sessions->protocol, PROTOCOL);
    ck_assert_int_eq(read_answer(fd, &n), -2);
    close(fd);
    close_all(&other, 1);
}
END_TEST

/* One that has not said Hello speaks nothing yet. */
START_TEST(a_connection_before_hello_goes_on)
{
    int fd = connect_as(1000);
    size_t n;

    kept_commit(); /* as at the end of the step that accepts it */
    restart_npud();
    ask_hello(fd);
    ck_assert_int_eq(await_answer(fd, &n), 0);
    close_all(&fd, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart: versions");
    TCase *tcase = suite_case(suite, "sessions", 0, begin, restart_stop);

    tcase_add_test(tcase, a_session_keeps_its_protocol);
    tcase_add_loop_test(tcase, a_session_with_an_unknown_protocol_ends, 0, 2);
    tcase_add_test(tcase, a_connection_before_hello_goes_on);
    return run_suite(suite);
}
