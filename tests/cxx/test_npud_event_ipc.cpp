/*
 * acl/npud_event_ipc.hpp, against a real npud: two processes, exceptions with code and sentence,
 * ownership.
 */
#include "acl/npud_event_ipc.hpp"

#include <csignal>
#include <cstring>
#include <string>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

/* The harness has a variable with the name of the namespace; this test does not need it. */
#define npud npud_of_the_harness
extern "C" {
#include "tests/common/harness.h"
}
#undef npud

namespace ipc = npud::event::ipc;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<npud::event_t> &&
              !std::is_copy_assignable_v<npud::event_t>);
static_assert(std::is_nothrow_move_constructible_v<npud::event_t> &&
              std::is_nothrow_move_assignable_v<npud::event_t>);
static_assert(std::is_nothrow_destructible_v<npud::event_t> &&
              sizeof(npud::event_t) == sizeof(void *));
static_assert(std::is_trivially_copyable_v<ipc::handle_t> && sizeof(ipc::handle_t) == 64);
static_assert(std::is_base_of_v<std::runtime_error, npud::error>);

/* Begun with this, a process needs no more: what it makes goes before the device does. */
struct session {
    explicit session(int device = 0) : device(device)
    {
        OK(aclInit(nullptr));
        OK(aclrtSetDevice(device));
        OK(aclrtCreateStream(&stream));
    }
    ~session()
    {
        OK(aclrtDestroyStream(stream));
        OK(aclrtResetDevice(device));
        OK(aclFinalize());
    }
    int device;
    aclrtStream stream;
};

/* The code of the exception that f throws, which has a sentence; 0: none. */
template <class F> static aclError thrown(F &&f)
{
    try {
        f();
    } catch (const npud::error &e) {
        ck_assert_msg(std::strlen(e.what()) > 20, "no sentence: %s", e.what());
        return e.code();
    }
    return 0;
}

static void expect_empty_and_end()
{
    npud_expect_empty();
    npud_teardown();
}

/* --- handles --- */

START_TEST(handles_are_values)
{
    session s;
    npud::event_t a = ipc::create(), b = ipc::create();
    const ipc::handle_t ha = ipc::export_(a), hb = ipc::export_(b);
    ipc::handle_t copy = ha, none;

    ck_assert(copy == ha && ha != hb && (ha < hb) != (hb < ha) && !(ha < copy));
    ck_assert(ha == ipc::export_(a.get()));
    ck_assert(none != ha && none == ipc::handle_t());
    std::memcpy(&copy, &hb, sizeof(copy));
    ck_assert(copy == hb);

    std::unordered_map<ipc::handle_t, int> map{{ha, 1}, {hb, 2}};
    ck_assert_int_eq(map.at(ha), 1);
    ck_assert_int_eq(map.at(copy), 2);
    ck_assert_uint_eq(map.count(none), 0);

    aclrtIpcEventHandle raw = ha;
    ck_assert(ipc::handle_t(raw) == ha);
}
END_TEST

START_TEST(handles_as_text)
{
    session s;
    npud::event_t e = ipc::create();
    const ipc::handle_t h = ipc::export_(e);
    std::string text = h.to_string(), upper = text;

    ck_assert_uint_eq(text.size(), 128);
    ck_assert(ipc::handle_t::from_string(text) == h);
    for (char &c : upper)
        c = static_cast<char>(std::toupper(c));
    ck_assert(ipc::handle_t::from_string(upper) == h);
    for (const std::string &bad : {std::string(), text + "0", text.substr(1), "g" + text.substr(1),
                                   text.substr(1) + " ", std::string(128, '\0')})
        ck_assert_int_eq(thrown([&] { ipc::handle_t::from_string(bad); }),
                         ACL_ERROR_RT_PARAM_INVALID);
}
END_TEST

/* --- exceptions --- */

START_TEST(exceptions_carry_code_and_sentence)
{
    session s;
    npud::event_t e = ipc::create(), closed = ipc::import(0, ipc::export_(e)), empty;
    npud::event_t plain = [] {
        aclrtEvent raw;
        OK(aclrtCreateEvent(&raw));
        return npud::event::wrap(raw);
    }();
    const ipc::handle_t h = ipc::export_(e);
    const npud::event::handle_t stale = closed.get();

    ck_assert_int_eq(thrown([&] { ipc::import(0, ipc::handle_t()); }), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(thrown([&] { ipc::info(ipc::handle_t()); }), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(thrown([&] { ipc::import(7, h); }), ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_eq(
        thrown([&] { ipc::import(static_cast<npud::context::handle_t>(s.stream), h); }),
        ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(thrown([&] { ipc::export_(plain); }), ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(thrown([&] { npud::device::uuid(9); }), ACL_ERROR_RT_INVALID_DEVICEID);
    closed.reset();
    ck_assert_int_eq(thrown([&] { ipc::export_(stale); }), ACL_ERROR_RT_INVALID_HANDLE);
    ck_assert_int_eq(thrown([&] { empty.record(s.stream); }), ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(thrown([&] { empty.query(); }), ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(thrown([&] { empty.synchronize(); }), ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(thrown([&] { empty.enqueue_wait(s.stream); }), ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(thrown([&] { e.notify(-1); }), ACL_ERROR_RT_PARAM_INVALID);
    try {
        ipc::import(0, ipc::handle_t());
        ck_abort_msg("no exception");
    } catch (const std::runtime_error &x) {
        ck_assert_msg(std::strstr(x.what(), "handle") != nullptr, "%s", x.what());
    }
    /* The sentence went with the exception. */
    ck_assert_ptr_null(aclGetRecentErrMsg());
}
END_TEST

/* --- ownership --- */

START_TEST(owned_once)
{
    session s;
    const std::uint32_t before = npud_ledger().events;

    {
        npud::event_t a = ipc::create(), b;
        const npud::event::handle_t raw = a.get();

        ck_assert(a && !b && raw == a.handle());
        b = std::move(a);
        ck_assert(b.get() == raw && !a); // NOLINT(bugprone-use-after-move): defined
        npud::event_t c(std::move(b));
        ck_assert(c.get() == raw && !b);
        npud::event_t &self = c;
        c = std::move(self);
        ck_assert(c.get() == raw);
        swap(b, c);
        ck_assert(b.get() == raw && !c);
        ck_assert_uint_eq(npud_ledger().events, before + 1);
        b = ipc::create(); /* the old one is destroyed */
        ck_assert_uint_eq(npud_ledger().events, before + 1);
        ck_assert_int_eq(aclrtDestroyEvent(raw), ACL_ERROR_RT_INVALID_HANDLE);

        std::vector<npud::event_t> many;
        for (int i = 0; i < 20; i++)
            many.push_back(ipc::create());
        ck_assert_uint_eq(npud_ledger().events, before + 21);
    }
    ck_assert_uint_eq(npud_ledger().events, before);

    npud::event::handle_t kept = ipc::create().release();
    ck_assert_uint_eq(npud_ledger().events, before + 1);
    npud::event::wrap(kept);
    ck_assert_uint_eq(npud_ledger().events, before);
    /* A destructor whose event is gone already says nothing. */
    {
        npud::event_t e = ipc::create();
        OK(aclrtDestroyEvent(e.get()));
    }
    aclGetRecentErrMsg();
}
END_TEST

static npud::event_t throw_with_one(npud::event::handle_t *raw)
{
    npud::event_t e = ipc::create();

    *raw = e.get();
    ipc::import(99, ipc::export_(e));
    return e;
}

START_TEST(unwound)
{
    session s;
    npud::event::handle_t raw = nullptr;

    ck_assert_int_eq(thrown([&] { throw_with_one(&raw); }), ACL_ERROR_RT_INVALID_DEVICEID);
    ck_assert_int_eq(aclrtDestroyEvent(raw), ACL_ERROR_RT_INVALID_HANDLE);
}
END_TEST

/* --- records --- */

START_TEST(records)
{
    session s;
    npud::event_t e = ipc::create(), same = ipc::import(1, ipc::export_(e));
    aclrtStream held;
    aclrtContext context, now;
    aclrtEvent gate;
    const int fd = eventfd(0, 0);
    eventfd_t count = 0;

    OK(aclrtCreateStream(&held));
    ck_assert(e.query() && e.has_occurred());
    gate = stream_hold(held);
    e.record(held);
    ck_assert(!e.query() && !same.query());
    ck_assert(!same.synchronize(2ms) && !same.synchronize(0s) && !same.synchronize(1us));
    ck_assert_ptr_null(aclGetRecentErrMsg());
    same.enqueue_wait(s.stream);
    same.notify(fd);
    stream_let_go(gate);
    same.wait();
    e.synchronize();
    ck_assert(same.query() && same.synchronize(std::chrono::hours(1)) &&
              same.synchronize(std::chrono::hours::max()));
    ck_assert_int_eq(eventfd_read(fd, &count), 0);
    ck_assert_uint_eq(count, 1);
    OK(aclrtSynchronizeStream(s.stream));
    OK(aclrtGetCurrentContext(&context));
    npud::event_t third = ipc::import(context, ipc::export_(same));
    OK(aclrtGetCurrentContext(&now));
    ck_assert_ptr_eq(context, now);
    ck_assert(third.query());
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyStream(held));
    close(fd);
}
END_TEST

/* --- two processes --- */

static int parent_pipe[2], child_pipe[2];

static int child_main(void *arg)
{
    (void)arg;
    session s(1);
    ipc::handle_t there;

    npud::event_t mine = ipc::create();
    stream_hold(s.stream);
    mine.record(s.stream); /* never executed: this process is killed */
    const ipc::handle_t here = ipc::export_(mine);
    if (write(parent_pipe[1], &here, sizeof(here)) != sizeof(here) ||
        read(child_pipe[0], &there, sizeof(there)) != sizeof(there))
        return 1;
    npud::event_t theirs = ipc::import(1, there);
    theirs.synchronize();
    if (write(parent_pipe[1], "!", 1) != 1)
        return 1;
    pause();
    return 1;
}

START_TEST(two_processes)
{
    ck_assert(pipe(parent_pipe) == 0 && pipe(child_pipe) == 0);
    const pid_t child = child_start(child_main, nullptr);
    session s;
    ipc::handle_t there;
    char c;

    ck_assert_int_eq(read(parent_pipe[0], &there, sizeof(there)), sizeof(there));
    const ipc::info_t info = ipc::info(there);
    ck_assert(info.device == 1 && info.exporter_pid == child && info.exporter_alive);
    const npud::device::uuid_t uuid = npud::device::uuid(1);
    ck_assert_mem_eq(&info.device_uuid, &uuid, sizeof(uuid));

    npud::event_t mine = ipc::create(), theirs = ipc::import(0, there);
    OK(aclnpudLaunchDelay(1000, 0, s.stream));
    mine.record(s.stream);
    const ipc::handle_t here = ipc::export_(mine);
    ck_assert_int_eq(write(child_pipe[1], &here, sizeof(here)), sizeof(here));
    ck_assert_int_eq(read(parent_pipe[0], &c, 1), 1);
    ck_assert(mine.query() && !theirs.query());

    /*
     * Death of the other side is an exception here, in a thread that sleeps as well as in a query.
     */
    aclError asleep = 0;
    std::string sentence;
    std::thread sleeper([&] {
        try {
            theirs.synchronize();
        } catch (const npud::error &e) {
            asleep = e.code();
            sentence = e.what();
        }
    });
    child_kill(child);
    sleeper.join();
    ck_assert_int_eq(asleep, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_msg(sentence.find(std::to_string(child)) != std::string::npos, "%s",
                  sentence.c_str());
    ck_assert_int_eq(thrown([&] { theirs.query(); }), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert(!ipc::info(there).exporter_alive && ipc::info(there).exporter_pid == child);
    theirs.reset();
    npud_await_sessions(1);
    ck_assert_int_eq(thrown([&] { ipc::info(there); }), ACL_ERROR_RT_INVALID_HANDLE);
    ck_assert_int_eq(thrown([&] { ipc::import(0, there); }), ACL_ERROR_RT_INVALID_HANDLE);
}
END_TEST

START_TEST(npud_gone)
{
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    npud::event_t e = ipc::create();

    npud_kill();
    ck_assert_int_eq(thrown([&] { ipc::create(); }), ACL_ERROR_RT_SOCKET_CLOSE);
    ck_assert_int_eq(thrown([&] { e.query(); }), ACL_ERROR_RT_SOCKET_CLOSE);
}
END_TEST

int main()
{
    Suite *suite = suite_create("npud_event_ipc.hpp");
    TCase *t = suite_case(suite, "C++", 60, npud_setup, expect_empty_and_end);

    tcase_add_test(t, handles_are_values);
    tcase_add_test(t, handles_as_text);
    tcase_add_test(t, exceptions_carry_code_and_sentence);
    tcase_add_test(t, owned_once);
    tcase_add_test(t, unwound);
    tcase_add_test(t, records);
    tcase_add_test(t, two_processes);
    t = suite_case(suite, "npud gone", 60, npud_setup, npud_teardown);
    tcase_add_test(t, npud_gone);
    return run_suite(suite);
}
