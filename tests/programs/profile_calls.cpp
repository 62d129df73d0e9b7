// A profile tells which function of the interface which thread was in, from when to when.
#include <acl/acl_prof.h>
#include <acl/acl_tdt_queue.h>

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

namespace fs = std::filesystem;

struct Call {
    std::string name;
    long thread;
    double begin, end; // us
};

static char output[] = "/tmp/profile_XXXXXX";
static const int wait_ms = 20;

static double now_us()
{
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Of all files of this process, which are no more afterwards.
static std::vector<Call> take_calls()
{
    std::vector<Call> calls;

    for (const auto &f : fs::recursive_directory_iterator(output)) {
        if (f.path().extension() != ".json")
            continue;
        std::ifstream in(f.path());
        for (std::string line; std::getline(in, line);) {
            char name[64];
            long thread;
            double begin, length;

            if (line.find("\"cat\":\"call\"") == std::string::npos)
                continue;
            EXPECT(f.path().parent_path().filename() == "host");
            EXPECT(
                sscanf(
                    line.c_str(),
                    "{\"pid\":%*d,\"tid\":%ld,\"ph\":\"X\",\"cat\":\"call\",\"name\":\"%63[^\"]\","
                    "\"ts\":%lf,\"dur\":%lf}",
                    &thread, name, &begin, &length) == 4);
            calls.push_back({name, thread, begin, begin + length});
        }
    }
    for (const auto &f : fs::directory_iterator(output))
        fs::remove_all(f);
    return calls;
}

static int count(const std::vector<Call> &calls, const std::string &name, long thread = 0)
{
    int n = 0;

    for (const Call &c : calls)
        n += c.name == name && (thread == 0 || c.thread == thread);
    return n;
}

static Call find(const std::vector<Call> &calls, const std::string &name)
{
    for (const Call &c : calls)
        if (c.name == name)
            return c;
    EXPECT(!"the call is there");
    abort();
}

static void start(uint64_t data)
{
    uint32_t devices[] = {0};
    aclprofConfig *config = aclprofCreateConfig(devices, 1, ACL_AICORE_NONE, nullptr, data);

    CALL(aclprofInit(output, strlen(output)));
    CALL(aclprofStart(config));
    CALL(aclprofDestroyConfig(config));
}

static std::vector<Call> stop()
{
    CALL(aclprofStop(nullptr));
    CALL(aclprofFinalize());
    return take_calls();
}

// --- what is told ---

static void wait_in_callback(void *)
{
    uint32_t n;

    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    CALL(aclrtGetDeviceCount(&n));
}

static void try_threads(aclrtStream stream, void *memory)
{
    std::vector<char> host(4096);
    long other = 0;

    start(ACL_PROF_ACL_API);
    double from = now_us();
    CALL(aclrtMemcpy(memory, 4096, host.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE));
    std::thread([&] {
        other = gettid();
        CALL(aclrtSetDevice(0));
        CALL(aclrtMemcpy(host.data(), 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
        CALL(aclrtMemcpy(host.data(), 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
        CALL(aclrtResetDevice(0));
    }).join();
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(nullptr)); // also one that fails
    CALL(aclrtLaunchHostFunc(stream, wait_in_callback, nullptr));
    CALL(aclrtSynchronizeStream(stream));
    double to = now_us();

    const std::vector<Call> calls = stop();
    EXPECT(count(calls, "aclrtMemcpy") == 3);
    EXPECT(count(calls, "aclrtMemcpy", gettid()) == 1);
    EXPECT(count(calls, "aclrtMemcpy", other) == 2);
    EXPECT(count(calls, "aclrtCreateStream") == 1);
    EXPECT(count(calls, "aclprofStart") == 0 && count(calls, "aclprofStop") == 0);
    const Call wait = find(calls, "aclrtSynchronizeStream"),
               inside = find(calls, "aclrtGetDeviceCount");
    EXPECT(wait.thread == gettid() && inside.thread != gettid() && inside.thread != other);
    EXPECT(wait.end - wait.begin >= wait_ms * 900);
    EXPECT(wait.begin <= inside.begin && inside.end <= wait.end);
    for (const Call &c : calls)
        EXPECT(c.begin >= from - 1000000 && c.end <= to + 1000000 && c.begin <= c.end);
}

static void report(void *)
{
    uint32_t n;

    CALL(aclrtGetDeviceCount(&n));
}

// A callback of the program runs in a call, and calls in it are inside of that one.
static void try_callback()
{
    aclrtStream stream;
    std::promise<void> subscribed;
    std::thread worker([&] {
        subscribed.get_future().wait();
        CALL(aclrtProcessReport(10000));
    });

    CALL(aclrtCreateStream(&stream));
    CALL(aclrtSubscribeReport(worker.native_handle(), stream));
    start(ACL_PROF_RUNTIME_API);
    subscribed.set_value();
    CALL(aclrtLaunchCallback(report, nullptr, ACL_CALLBACK_BLOCK, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtUnSubscribeReport(worker.native_handle(), stream));
    worker.join();
    const std::vector<Call> calls = stop();
    CALL(aclrtDestroyStream(stream));
    const Call outer = find(calls, "aclrtProcessReport"),
               inner = find(calls, "aclrtGetDeviceCount");
    EXPECT(outer.thread == inner.thread && outer.thread != gettid());
    EXPECT(outer.begin <= inner.begin && inner.end <= outer.end);
}

// Those with short ways of their own have their names, too.
static void try_buffers()
{
    aclrtMbuf buffer;

    CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(acltdtFreeBuf(buffer));
    start(ACL_PROF_ACL_API);
    for (int i = 0; i < 100; i++) {
        CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
        CALL(acltdtFreeBuf(buffer));
    }
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtAllocBuf(64, 7, &buffer));
    const std::vector<Call> calls = stop();
    EXPECT(count(calls, "acltdtAllocBuf") == 101 && count(calls, "acltdtFreeBuf") == 100);
    for (const Call &c : calls)
        EXPECT(c.name.compare(0, 3, "acl") == 0);
}

// --- what is not ---

static void try_without(aclrtStream stream)
{
    start(ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX);
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(stop().empty());
    CALL(aclrtSynchronizeStream(stream));
}

static void run_child()
{
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtSynchronizeDevice());
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    exit(0);
}

// A child is not profiled, and its parent is as before.
static void try_fork(aclrtStream stream)
{
    start(ACL_PROF_ACL_API);
    CALL(aclrtSynchronizeStream(stream));
    pid_t child = fork();
    if (child == 0)
        run_child();
    EXPECT(ended_well(child));
    CALL(aclrtSynchronizeStream(stream));
    const std::vector<Call> calls = stop();
    EXPECT(count(calls, "aclrtSynchronizeStream") == 2);
    EXPECT(count(calls, "aclInit") == 0 && count(calls, "aclrtSynchronizeDevice") == 0);
}

// --- from outside ---

// The calls of a process with this configuration.
static std::vector<Call> run_configured(const std::string &members)
{
    const std::string path = std::string(output) + "/acl.txt";
    pid_t child = fork();

    if (child == 0) {
        std::ofstream(path) << R"({"profiler": {"switch": "on", "output": ")" << output << "\""
                            << members << "}}";
        CALL(aclInit(path.c_str()));
        CALL(aclrtSetDevice(0));
        CALL(aclrtSynchronizeDevice());
        CALL(aclrtResetDevice(0));
        CALL(aclFinalize());
        exit(0);
    }
    EXPECT(ended_well(child));
    return take_calls();
}

int main()
{
    aclrtStream stream;
    void *memory;

    EXPECT(mkdtemp(output));
    EXPECT(count(run_configured(""), "aclrtSynchronizeDevice") == 1);
    EXPECT(run_configured(R"(, "ascendcl": "off", "runtime_api": "off")").empty());

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    try_threads(stream, memory);
    try_callback();
    try_buffers();
    try_without(stream);
    try_fork(stream);
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    fs::remove_all(output);
}
