/*
 * Sessions, devices, allocations and answers over the end of npud: the client is this test, and
 * talks to npud by its socket.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart.h"
#include "tests/unit/memory_at.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/base/pidfd.h"
#include "daemon/control/dispatch.h"
#include "daemon/kept/kept_room.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

static int client = -1; /* its end of the socket */
static uint64_t last_id;

static struct session *the_session(void)
{
    ck_assert_ptr_nonnull(server.sessions);
    return server.sessions;
}

static void connect_client(void)
{
    int ends[2];
    struct client_process self = {.pid = getpid(), .uid = getuid()};

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    self.pidfd = pidfd_open_process(getpid());
    client = ends[0];
    ck_assert_ptr_nonnull(session_new_for(&server, ends[1], &self));
    kept_commit();
}

static void send_request(Npud__Request *request)
{
    request->id = ++last_id;
    ck_assert_int_eq(packet_send_message(client, &request->base, NULL, 0, 0), 0);
}

/* The answer to the last request: one, or the same one twice. Its first descriptor is in *fd. */
static Npud__Reply *read_answer(int *fd, unsigned *copies)
{
    Npud__Reply *reply = NULL;
    struct packet packet;

    *copies = 0;
    *fd = -1;
    while (packet_recv(client, &packet, MSG_DONTWAIT) > 0) {
        if (reply)
            npud__reply__free_unpacked(reply, NULL);
        reply = npud__reply__unpack(NULL, packet.size, packet.data);
        ck_assert_ptr_nonnull(reply);
        ck_assert_uint_eq(reply->id, last_id);
        if (*fd >= 0)
            close(*fd);
        *fd = packet_take_fd(&packet, 0);
        packet_deinit(&packet);
        ++*copies;
    }
    return reply;
}

static void turn(void *arg)
{
    (void)arg;
    npud_turn();
}

/* As a client does: ask, and take the answer. error: that it is to have. */
static Npud__Reply *ask(Npud__Request *request, int32_t error, int *fd)
{
    Npud__Reply *reply;
    unsigned copies;

    send_request(request);
    npud_turn();
    reply = read_answer(fd, &copies);
    ck_assert_uint_eq(copies, 1);
    ck_assert_int_eq(reply->error, error);
    return reply;
}

static void drop(Npud__Reply *reply, int fd)
{
    npud__reply__free_unpacked(reply, NULL);
    if (fd >= 0)
        close(fd);
}

#define REQUEST(name, NAME, Type, ...)                                                             \
    Npud__##Type name = NPUD__##NAME##__INIT;                                                      \
    Npud__Request request = NPUD__REQUEST__INIT;                                                   \
    request.name = &name;                                                                          \
    request.body_case = NPUD__REQUEST__BODY_##NAME

static void say_hello(void)
{
    REQUEST(hello, HELLO, Hello);
    int fd;

    hello.protocol = PROTOCOL;
    hello.program = (char *)"restarted";
    drop(ask(&request, 0, &fd), -1);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void open_device(void)
{
    REQUEST(open_device, OPEN_DEVICE, OpenDevice);
    int fd;

    drop(ask(&request, 0, &fd), -1);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void make_malloc(Npud__Request *request, Npud__Malloc *body)
{
    npud__malloc__init(body);
    npud__request__init(request);
    body->size = 1 << 20;
    request->malloc = body;
    request->body_case = NPUD__REQUEST__BODY_MALLOC;
}

static void free_memory(uint32_t slot)
{
    REQUEST(free, FREE, Free);
    int fd;

    free.slot = slot;
    drop(ask(&request, 0, &fd), -1);
}

START_TEST(a_session_is_as_it_was)
{
    struct session *s;
    Npud__Request request;
    Npud__Malloc body;
    Npud__Reply *reply;
    uint64_t id, used;
    uint32_t slot;
    char *map;
    int fd;

    restart_start(NULL);
    connect_client();
    restart_npud(); /* before Hello */
    say_hello();
    open_device();
    make_malloc(&request, &body);
    reply = ask(&request, 0, &fd);
    slot = reply->malloc->slot;
    map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    map[12345] = 77;
    drop(reply, fd);
    s = the_session();
    id = s->id;
    used = s->user->used[RESOURCE_FDS];
    for (unsigned i = 0; i < 3; i++) {
        struct mem *m;

        restart_npud();
        s = the_session();
        ck_assert_uint_eq(s->id, id);
        ck_assert_int_eq(s->state, SESSION_OPEN);
        ck_assert_str_eq(s->program, "restarted");
        ck_assert_ptr_nonnull(s->attach[0]);
        ck_assert_uint_eq(s->user->used[RESOURCE_FDS], used);
        ck_assert_uint_eq(s->user->used[RESOURCE_DEVICE_MEMORY], 1 << 20);
        ck_assert_uint_eq(server.devices->device[0].memory_used, 1 << 20);
        m = slots_get(&s->mems, slot);
        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(((char *)memory_at(m, 12345))[0], 77);
    }
    free_memory(slot);
    ck_assert_uint_eq(the_session()->memory, 0);
    /* The slot has another generation for its next owner. */
    make_malloc(&request, &body);
    reply = ask(&request, 0, &fd);
    ck_assert_uint_eq(reply->malloc->slot, slot);
    drop(reply, fd);
    close(client);
    restart_npud();
    restart_stop();
}
END_TEST

/* Each place that a request passes, each time that it passes it. */
START_TEST(a_request_is_handled_once)
{
    enum kill_place place = (enum kill_place)_i;

    for (unsigned pass = 1;; pass++) {
        Npud__Request request;
        Npud__Malloc body;
        Npud__Reply *reply;
        unsigned copies;
        bool killed;
        int fd;

        restart_start(NULL);
        connect_client();
        say_hello();
        open_device();
        make_malloc(&request, &body);
        send_request(&request);
        killed = restart_kill(place, pass, turn, NULL);
        npud_turn();
        reply = read_answer(&fd, &copies);
        ck_assert_uint_ge(copies, 1);
        ck_assert_uint_le(copies, killed ? 2 : 1);
        ck_assert_int_eq(reply->error, 0);
        ck_assert_int_ge(fd, 0);
        ck_assert_uint_eq(the_session()->memory, 1 << 20);
        ck_assert_uint_eq(the_session()->mems.live, 1);
        ck_assert_ptr_nonnull(slots_get_generation(&the_session()->mems, reply->malloc->slot,
                                                   reply->malloc->generation));
        drop(reply, fd);
        free_memory(0);
        close(client);
        restart_stop();
        if (!killed)
            break;
    }
}
END_TEST

/* The end of a session is cut short at each place: nothing is left of it in the end. */
START_TEST(a_session_ends_once)
{
    enum kill_place place = (enum kill_place)_i;

    for (unsigned pass = 1;; pass++) {
        Npud__Request request;
        Npud__Malloc body;
        bool killed;
        int fd;

        restart_start(NULL);
        connect_client();
        say_hello();
        open_device();
        for (unsigned i = 0; i < 3; i++) {
            make_malloc(&request, &body);
            drop(ask(&request, 0, &fd), -1);
            close(fd);
        }
        close(client);
        killed = restart_kill(place, pass, turn, NULL);
        restart_stop();
        if (!killed)
            break;
    }
}
END_TEST

/* A request that npud dies of twice ends its session; one that it is killed in does not. */
START_TEST(a_session_that_npud_dies_of_twice_ends)
{
    Npud__Request request;
    Npud__Malloc body;

    restart_start(NULL);
    connect_client();
    say_hello();
    open_device();
    make_malloc(&request, &body);
    send_request(&request);
    for (unsigned i = 0; i < 5; i++) /* SIGKILL */
        ck_assert(restart_kill(KILL_HERE_KEPT_COMMIT, 1, turn, NULL));
    restart_end = BLAME_CRASHED;
    ck_assert(restart_kill(KILL_HERE_KEPT_COMMIT, 1, turn, NULL));
    ck_assert_int_eq(the_session()->state, SESSION_OPEN);
    ck_assert(restart_kill(KILL_HERE_KEPT_COMMIT, 1, turn, NULL));
    npud_turn();
    ck_assert_ptr_null(server.sessions);
    close(client);
    restart_stop();
}
END_TEST

/* --- whose fault it was --- */

static void set_up_one_session(void)
{
    restart_start(NULL);
    connect_client();
    say_hello();
    open_device();
    blame_thread_is(KEPT_CONTROL);
}

static void tear_down_sessions(void)
{
    close(client);
    restart_stop();
}

static bool control_has, engine_has;

static void take_in_hand(unsigned who)
{
    kept_in_hand(kept_in_hand_of(who), the_session()->id, 1);
}

/* An engine that runs may have a turn, and has nothing in hand after it. */
static void take_all_in_hand(void)
{
    if (control_has)
        take_in_hand(KEPT_CONTROL);
    if (engine_has)
        take_in_hand(0);
}

/* npud ends with the session in hand of these threads, and the next one serves. */
static void end_with(enum blame_end end, bool control, bool engine)
{
    control_has = control;
    engine_has = engine;
    restart_last_act = take_all_in_hand;
    restart_end = end;
    restart_npud();
    restart_last_act = NULL;
}

static bool ended(void)
{
    return the_session()->state == SESSION_ENDED;
}

/* Which of its threads it was may not be known. */
START_TEST(one_end_counts_once)
{
    set_up_one_session();
    end_with(BLAME_CRASHED, true, true);
    ck_assert_uint_eq(the_session()->faults, 1);
    ck_assert(!ended());
    end_with(BLAME_CRASHED, false, true);
    ck_assert(ended());
    tear_down_sessions();
}
END_TEST

START_TEST(kills_count_for_nothing)
{
    set_up_one_session();
    for (unsigned i = 0; i < 5; i++)
        end_with(BLAME_KILLED, true, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    tear_down_sessions();
}
END_TEST

/* The supervisor speaks of the one before, whose sessions in hand were looked at. */
START_TEST(what_has_not_served_counts_for_nothing)
{
    set_up_one_session();
    for (unsigned i = 0; i < 5; i++) {
        kept_head()->serves = 0;
        end_with(i % 2 ? BLAME_CRASHED : BLAME_HUNG, true, true);
    }
    ck_assert_uint_eq(the_session()->faults, 0);
    tear_down_sessions();
}
END_TEST

/* But if it crashes by a task before it could say that it serves, that is a fault. */
START_TEST(what_crashes_before_it_serves_counts)
{
    set_up_one_session();
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(!ended());
        kept_head()->serves = 0;
        blame_note_fault(false);
        end_with(BLAME_KILLED, true, false);
    }
    ck_assert(ended());
    tear_down_sessions();
}
END_TEST

/* A request that has several turns: the first goes well, and npud dies in the last one. */
static void take_two_turns(void *arg)
{
    (void)arg;
    server.schedule.until = 1; /* late */
    ck_assert_int_eq(dispatch_handle(the_session()), DISPATCH_WAITS);
    server.schedule.until = 0;
    dispatch_handle(the_session());
}

START_TEST(a_later_turn_counts_and_a_turn_forgives_nothing)
{
    REQUEST(bind_routes, BIND_ROUTES, BindRoutes);
    Npud__Route one = NPUD__ROUTE__INIT, two = NPUD__ROUTE__INIT;
    Npud__Route *routes[] = {&one, &two};

    set_up_one_session();
    bind_routes.n_routes = 2;
    bind_routes.routes = routes;
    send_request(&request);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(the_session()->state, SESSION_OPEN);
        restart_end = BLAME_CRASHED;
        ck_assert(restart_kill(KILL_HERE_ANSWER_COMMITTED, 1, take_two_turns, NULL));
        server.schedule.until = 0;
    }
    ck_assert(ended());
    tear_down_sessions();
}
END_TEST

/* The thread that crashes says so: what other threads have in hand counts for nothing. */
START_TEST(only_the_thread_that_crashed_counts)
{
    set_up_one_session();
    blame_note_fault(false);
    end_with(BLAME_CRASHED, false, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    blame_note_fault(true); /* by a signal from outside */
    end_with(BLAME_CRASHED, true, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    blame_thread_is(KEPT_WORD_LOGS);
    blame_note_fault(false); /* of a thread that has none in hand */
    end_with(BLAME_CRASHED, true, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    blame_thread_is(0);
    blame_note_fault(false);
    end_with(BLAME_CRASHED, false, true);
    ck_assert_uint_eq(the_session()->faults, 1);
    tear_down_sessions();
}
END_TEST

/* A hang is that of the control thread, unless it has said that an engine does not answer. */
START_TEST(only_the_thread_that_hangs_counts)
{
    set_up_one_session();
    end_with(BLAME_HUNG, false, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    blame_note_stuck(0);
    end_with(BLAME_HUNG, true, false);
    ck_assert_uint_eq(the_session()->faults, 0);
    blame_note_stuck(0);
    blame_note_stuck(UINT32_MAX);
    end_with(BLAME_HUNG, false, true);
    ck_assert_uint_eq(the_session()->faults, 0);
    end_with(BLAME_HUNG, true, true);
    ck_assert_uint_eq(the_session()->faults, 1);
    blame_note_stuck(0);
    end_with(BLAME_HUNG, true, true);
    ck_assert(ended());
    tear_down_sessions();
}
END_TEST

/* A request that is handled after all clears its session, and no other: not that of an engine. */
START_TEST(a_fault_is_forgiven_with_its_request)
{
    Npud__Request request;
    Npud__Malloc body;
    int fd;

    set_up_one_session();
    for (unsigned i = 0; i < 5; i++) {
        end_with(i % 2 ? BLAME_CRASHED : BLAME_HUNG, true, false);
        ck_assert_uint_eq(the_session()->faults, 1);
        make_malloc(&request, &body);
        drop(ask(&request, 0, &fd), -1);
        close(fd);
        ck_assert_uint_eq(the_session()->faults, 0);
    }
    end_with(BLAME_KILLED, true, false);
    ck_assert_uint_eq(the_session()->faults, 0); /* it was certain */
    end_with(BLAME_CRASHED, false, true);
    make_malloc(&request, &body);
    drop(ask(&request, 0, &fd), -1);
    close(fd);
    ck_assert_uint_eq(the_session()->faults, 1);
    tear_down_sessions();
}
END_TEST

START_TEST(a_fault_is_forgiven_in_time)
{
    set_up_one_session();
    for (unsigned i = 0; i < 5; i++) {
        end_with(BLAME_CRASHED, false, true);
        ck_assert_uint_eq(the_session()->faults, 1);
        kept_touch(&the_session()->kept);
        the_session()->fault_s -= 601;
        kept_commit();
    }
    tear_down_sessions();
}
END_TEST

/* Around the commit of recovery. What comes before, tests/kill/server tries. */
static const enum kill_place in_recovery[] = {KILL_HERE_FDS_FORGOTTEN, KILL_HERE_RECOVERY_CERTAIN,
                                              KILL_HERE_IN_HAND_FORGOTTEN};
#define IN_RECOVERY (int)(sizeof(in_recovery) / sizeof(in_recovery[0]))

static void next_npud(void *arg)
{
    (void)arg;
    restart_npud();
}

/* Recovery is cut short, at each place, by a SIGKILL or by what the server lacks. */
START_TEST(one_end_counts_once_however_often_npud_recovers)
{
    set_up_one_session();
    take_in_hand(KEPT_CONTROL);
    blame_note_fault(false);
    restart_end = BLAME_CRASHED;
    ck_assert(restart_kill(in_recovery[_i], 1, next_npud, NULL));
    ck_assert_uint_eq(the_session()->faults, 1);
    tear_down_sessions();
}
END_TEST

/* A fault of a recovery is not one of what the npud before, which was killed, had in hand. */
START_TEST(a_fault_of_a_recovery_is_its_own)
{
    set_up_one_session();
    take_in_hand(KEPT_CONTROL);
    restart_end = BLAME_KILLED;
    restart_crashes = true; /* at that place */
    ck_assert(restart_kill(in_recovery[_i], 1, next_npud, NULL));
    ck_assert_uint_eq(the_session()->faults, 0);
    tear_down_sessions();
}
END_TEST

static uint64_t last_key;

static void note_key(uint64_t key, bool put)
{
    if (put)
        last_key = key;
}

/*
 * The first npud ends before it has sent the answer, which the second one has with a descriptor of
 * its own, and the third without. A recovery that failed for that would fail each time, and end the
 * sessions of all.
 */
START_TEST(an_answer_that_lacks_a_descriptor_ends_its_session)
{
    Npud__Request request;
    Npud__Malloc body;
    unsigned copies;
    int fd, other;

    restart_start(NULL);
    connect_client();
    say_hello();
    other = client;
    connect_client();
    say_hello();
    open_device();
    make_malloc(&request, &body);
    send_request(&request);
    restart_on_key = note_key;
    ck_assert(restart_kill(KILL_HERE_ANSWER_COMMITTED, 1, turn, NULL));
    restart_on_key = NULL;
    ck_assert_ptr_nonnull(server.answers);
    __wrap_keeper_drop(&last_key, 1);
    restart_npud();
    npud_turn();
    ck_assert_ptr_null(server.answers);
    ck_assert_uint_eq(server.n_sessions, 1);
    ck_assert_ptr_null(read_answer(&fd, &copies));
    close(client);
    client = other;
    open_device();
    close(client);
    restart_stop();
}
END_TEST

/*
 * A request that needs no Hello, whose answer is committed when npud ends: with a change of the
 * same step, as it is by itself when the kernel takes no more descriptors.
 */
static void end_before_hello(void)
{
    REQUEST(own_waits, OWN_WAITS, OwnWaits);

    restart_start((const char *const[]){"jobs.cgroups=/no/such/group", NULL});
    connect_client();
    AWAIT((npud_turn(), !the_session()->lookup));
    send_request(&request);
    kept_touch(&the_session()->kept);
    ck_assert(restart_kill(KILL_HERE_ANSWER_COMMITTED, 1, turn, NULL));
    ck_assert_ptr_nonnull(the_session()->answer);
    ck_assert_ptr_nonnull(the_session()->lookup);
}

static void send_answer(void)
{
    ck_assert(job_cancel(&server.retry));
    ck_assert(!server.retry.run(&server.retry));
}

/*
 * The session waits for its job and for the answer to be sent. It is heard when both are there: not
 * before its job is known, and its request is not handled again. _i: which is there first.
 */
START_TEST(a_session_waits_for_its_job_and_its_answer)
{
    struct session *session;
    Npud__Reply *reply;
    unsigned copies;
    int fd;

    end_before_hello();
    session = the_session();
    if (_i == 0) {
        send_answer();
        ck_assert(session->lookup && !session->serve.listed && !session->polled);
    } else {
        ck_assert(job_cancel(&server.retry));
        AWAIT((npud_turn(), !session->lookup));
        ck_assert(session->answer && !session->serve.listed && !session->polled);
        job_list(&server.retry);
    }
    AWAIT((npud_turn(), !session->lookup && session->polled));
    reply = read_answer(&fd, &copies);
    drop(reply, fd);
    ck_assert_uint_eq(copies, 1);
    say_hello();
    close(client);
    restart_stop();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: sessions");
    TCase *t = suite_case(s, "sessions", 60, NULL, NULL);

    tcase_add_test(t, a_session_is_as_it_was);
    tcase_add_test(t, a_session_that_npud_dies_of_twice_ends);
    tcase_add_test(t, one_end_counts_once);
    tcase_add_test(t, a_later_turn_counts_and_a_turn_forgives_nothing);
    tcase_add_test(t, kills_count_for_nothing);
    tcase_add_test(t, what_has_not_served_counts_for_nothing);
    tcase_add_test(t, what_crashes_before_it_serves_counts);
    tcase_add_test(t, only_the_thread_that_crashed_counts);
    tcase_add_test(t, only_the_thread_that_hangs_counts);
    tcase_add_test(t, a_fault_is_forgiven_with_its_request);
    tcase_add_test(t, a_fault_is_forgiven_in_time);
    tcase_add_loop_test(t, one_end_counts_once_however_often_npud_recovers, 0, IN_RECOVERY);
    tcase_add_loop_test(t, a_fault_of_a_recovery_is_its_own, 0, IN_RECOVERY);
    tcase_add_test(t, an_answer_that_lacks_a_descriptor_ends_its_session);
    tcase_add_loop_test(t, a_session_waits_for_its_job_and_its_answer, 0, 2);
    tcase_add_loop_test(t, a_request_is_handled_once, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, a_session_ends_once, 0, KILL_PLACE_COUNT);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
