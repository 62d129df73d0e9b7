// The order in which profiling is begun and ended, and what stamps answer.
#include <acl/acl_prof.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "expect.h"

namespace fs = std::filesystem;

static aclprofConfig *make(uint64_t data, aclprofAicoreMetrics metrics = ACL_AICORE_NONE)
{
    uint32_t devices[] = {0};

    return aclprofCreateConfig(devices, 1, metrics, nullptr, data);
}

static std::string read_host(const fs::path &output)
{
    std::string all;

    for (const auto &f : fs::recursive_directory_iterator(output))
        if (f.path().parent_path().filename() == "host") {
            std::ifstream in(f.path());
            all.append(std::istreambuf_iterator<char>(in), {});
        }
    return all;
}

static void try_configurations()
{
    uint32_t ids[] = {0, 0}, missing[] = {7};

    EXPECT(!aclprofCreateConfig(nullptr, 1, ACL_AICORE_NONE, nullptr, ACL_PROF_TASK_TIME));
    EXPECT(!aclprofCreateConfig(ids, 2, ACL_AICORE_NONE, nullptr, ACL_PROF_TASK_TIME));
    EXPECT(!aclprofCreateConfig(missing, 1, ACL_AICORE_NONE, nullptr, ACL_PROF_TASK_TIME));
    EXPECT(!aclprofCreateConfig(ids, 1, ACL_AICORE_NONE,
                                reinterpret_cast<aclprofAicoreEvents *>(ids), ACL_PROF_TASK_TIME));
    EXPECT(!aclprofCreateConfig(nullptr, 0, ACL_AICORE_NONE, nullptr, ACL_PROF_TASK_TIME));
    aclprofConfig *host =
        aclprofCreateConfig(nullptr, 0, ACL_AICORE_NONE, nullptr, ACL_PROF_MSPROFTX);
    EXPECT(host);
    CALL(aclprofDestroyConfig(host));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofDestroyConfig(host));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofDestroyConfig(nullptr));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofStart(host));
}

static void try_settings()
{
    CALL(aclprofSetConfig(ACL_PROF_SYS_HARDWARE_MEM_FREQ, "15", 2));
    CALL(aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200", 3));
    CALL(aclprofSetConfig(ACL_PROF_HOST_SYS, "cpu,mem", 7));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "199", 3));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG,
          aclprofSetConfig(ACL_PROF_SYS_INTERCONNECTION_FREQ, "51", 2));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_LLC_MODE, "both", 4));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_HOST_SYS, "cpu,", 4));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofSetConfig(ACL_PROF_DVPP_FREQ, "1x", 2));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_LLC_MODE, nullptr, 4));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_LLC_MODE, "read", 5));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_ARGS_MAX, "read", 4));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofSetConfig(ACL_PROF_ARGS_MIN, "read", 4));
}

static void try_order(const std::string &output)
{
    aclprofConfig *config = make(ACL_PROF_TASK_TIME), *other = make(ACL_PROF_MSPROFTX);
    aclprofConfig *empty = make(0), *unknown = make(UINT64_C(1) << 50);
    aclprofConfig *metrics = make(ACL_PROF_TASK_TIME, static_cast<aclprofAicoreMetrics>(77));

    FAILS(ACL_ERROR_INVALID_PARAM, aclprofInit(nullptr, 5));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofInit(output.c_str(), output.size() - 1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofInit(output.c_str(), 0));
    FAILS(ACL_ERROR_INVALID_FILE, aclprofInit("/proc/none", 10));
    EXPECT(!aclprofCreateStamp());
    CALL(aclprofStop(config)); // nothing is begun
    CALL(aclprofInit(output.c_str(), output.size()));
    FAILS(ACL_ERROR_REPEAT_INITIALIZE, aclprofInit(output.c_str(), output.size()));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofStart(empty));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofStop(empty));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofStart(metrics));
    FAILS(ACL_ERROR_PROF_MODULES_UNSUPPORTED, aclprofStart(unknown));
    CALL(aclprofStart(config));
    CALL(aclprofStart(config));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofStart(other));
    FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclprofStop(other));
    EXPECT(!aclprofCreateStamp()); // not among what is collected
    aclprofConfig *equal = make(ACL_PROF_TASK_TIME);
    CALL(aclprofStop(equal));
    CALL(aclprofFinalize());
    CALL(aclprofFinalize());
    for (aclprofConfig *c : {config, other, empty, unknown, metrics, equal})
        CALL(aclprofDestroyConfig(c));
}

static void try_stamps(aclrtStream stream)
{
    uint32_t range, other;
    void *stamp = aclprofCreateStamp();
    void *all[100];
    const std::string longest(127, 'x'), odd = "a \"quote\", a \\ and \xff\n";

    EXPECT(stamp);
    FAILS(-1, aclprofSetStampTraceMessage(stamp, longest.c_str(), 128));
    FAILS(-1, aclprofSetStampTraceMessage(nullptr, "a", 1));
    FAILS(-1, aclprofSetStampTraceMessage(stamp, nullptr, 1));
    CALL(aclprofSetStampTraceMessage(stamp, longest.c_str(), 127));
    CALL(aclprofMark(stamp));
    CALL(aclprofSetStampTraceMessage(stamp, odd.c_str(), static_cast<uint32_t>(odd.size())));
    CALL(aclprofMark(stamp));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofMark(nullptr));
    FAILS(-1, aclprofMark(&range));

    FAILS(-1, aclprofPop());
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofPush(nullptr));
    CALL(aclprofSetStampTraceMessage(stamp, "outer", 5));
    CALL(aclprofPush(stamp));
    std::thread([] { FAILS(-1, aclprofPop()); }).join(); // another thread's
    CALL(aclprofSetStampTraceMessage(stamp, "inner", 5));
    CALL(aclprofPush(stamp));
    CALL(aclprofPop());
    CALL(aclprofPop());
    FAILS(-1, aclprofPop());

    FAILS(ACL_ERROR_INVALID_PARAM, aclprofRangeStart(nullptr, &range));
    CALL(aclprofRangeStart(stamp, &range));
    CALL(aclprofRangeStart(stamp, &other));
    EXPECT(range != other);
    std::thread([range] { CALL(aclprofRangeStop(range)); }).join();
    FAILS(-1, aclprofRangeStop(range));
    CALL(aclprofRangeStop(other));

    CALL(aclprofMarkEx("both", 4, stream));
    FAILS(-1, aclprofMarkEx("both", 4, nullptr));
    FAILS(-1, aclprofMarkEx("both", 3, stream));
    FAILS(-1, aclprofMarkEx(std::string(156, 'x').c_str(), 156, stream));

    aclprofDestroyStamp(nullptr);
    for (int i = 0; i < 99; i++)
        EXPECT((all[i] = aclprofCreateStamp()));
    EXPECT(!aclprofCreateStamp());
    for (int i = 0; i < 99; i++)
        aclprofDestroyStamp(all[i]);
    aclprofDestroyStamp(stamp);
    FAILS(-1, aclprofMark(stamp));
}

static void try_launches(aclrtStream stream)
{
    aclprofTensorInfo info = {};
    aclprofEventAttributes attributes = {ACL_PROF_EVENT_ATTR_VERSION, sizeof(attributes),
                                         ACL_PROF_MESSAGE_TYPE_TENSOR_INFO, &info};
    uint64_t record[3] = {1, 2, 3};

    EXPECT(aclprofStr2Id(nullptr) == UINT64_MAX);
    info.opNameId = aclprofStr2Id("my operator");
    EXPECT(info.opNameId == aclprofStr2Id("my operator") && info.opNameId != UINT64_MAX);
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofRangePop());
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofRangePushEx(nullptr));
    CALL(aclprofRangePushEx(&attributes));
    CALL(aclprofRangePop());
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofRangePop());
    attributes.messageType = 1;
    FAILS(-1, aclprofRangePushEx(&attributes));

    FAILS(ACL_ERROR_INVALID_PARAM, aclrtProfTrace(nullptr, 18, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtProfTrace(record, 19, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtProfTrace(record, 0, stream));
    CALL(aclrtProfTrace(record, 18, stream));
    CALL(aclrtProfTrace(record, 1, nullptr));
}

static void try_subscriptions()
{
    int fd = 1;
    aclprofSubscribeConfig *config = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &fd);
    aclprofSubscribeConfig *without = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, nullptr);
    aclprofSubscribeConfig *nothing = aclprofCreateSubscribeConfig(0, ACL_AICORE_NONE, &fd);
    char record[512] = "";
    uint32_t n;
    size_t size;

    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(1, config)); // there is no model
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(1));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(1, nullptr));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(1, without));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofModelSubscribe(1, nothing));
    for (aclprofSubscribeConfig *c : {config, without, nothing})
        CALL(aclprofDestroySubscribeConfig(c));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofDestroySubscribeConfig(config));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofDestroySubscribeConfig(nullptr));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpDescSize(nullptr));
    CALL(aclprofGetOpDescSize(&size));
    EXPECT(size == sizeof(record));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record, size, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNum(record, 6, &n));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpTypeLen(record, size, 0, &size));
    EXPECT(aclprofGetOpStart(record, size, 0) == 0 && aclprofGetOpEnd(record, size, 0) == 0);
    EXPECT(aclprofGetOpFlag(record, size, 0) == ACL_SUBSCRIBE_NONE);
    EXPECT(aclprofGetModelId(record, size, 0) == ACL_ERROR_INVALID_PARAM);
    EXPECT(!aclprofGetOpAttriValue(record, size, 0, ACL_SUBSCRIBE_ATTRI_THREADID));
}

int main()
{
    char output[] = "/tmp/profile_XXXXXX";
    aclrtStream stream;

    EXPECT(mkdtemp(output));
    const std::string below = std::string(output) + "/a/b";
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    try_configurations();
    try_order(below);
    try_subscriptions();

    // In the folder that the environment names, without aclprofInit.
    setenv("ACL_PROF_PATH", output, 1);
    aclprofConfig *config = make(ACL_PROF_TASK_TIME | ACL_PROF_MSPROFTX);
    CALL(aclprofStart(config));
    CALL(aclprofStop(nullptr));
    CALL(aclprofFinalize());

    CALL(aclprofInit(below.c_str(), below.size()));
    try_settings();
    CALL(aclprofStart(config));
    try_stamps(stream);
    try_launches(stream);
    CALL(aclrtSynchronizeDevice());
    void *open = aclprofCreateStamp();
    uint32_t range;
    CALL(aclprofPush(open));
    CALL(aclprofRangeStart(open, &range));
    CALL(aclprofStop(config));
    FAILS(-1, aclprofPop());
    FAILS(-1, aclprofRangeStop(range));
    EXPECT(!aclprofCreateStamp());
    CALL(aclprofStart(nullptr)); // all devices
    FAILS(-1, aclprofPop());     // what was open when it stopped is forgotten
    CALL(aclprofRangeStop(range));
    void *stamp = aclprofCreateStamp();
    CALL(aclprofSetStampTraceMessage(stamp, "late", 4));
    CALL(aclprofMark(stamp));
    CALL(aclprofStop(nullptr));
    CALL(aclprofDestroyConfig(config));
    CALL(aclprofFinalize());

    const std::string text = read_host(output);
    for (const char *name : {"\"outer\"", "\"inner\"", "\"both\"", "\"my operator\"", "\"late\"",
                             "\"a \\\"quote\\\", a \\\\ and ?\\u000a\""})
        EXPECT(text.find(std::string("\"name\":") + name) != std::string::npos);
    size_t sessions = 0;
    for (const auto &f : fs::recursive_directory_iterator(output))
        sessions += f.path().filename().string().rfind("PROF_", 0) == 0;
    EXPECT(sessions == 3);
    fs::remove_all(output);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
}
