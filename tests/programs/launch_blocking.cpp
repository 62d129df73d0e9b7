/* Launches that return when they are done: by the environment, or a stream; not in a section. */
#include "binary_kit.h"

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static aclrtFuncHandle scale_all;
static aclrtNotify gate;
static aclrtStream opener;
static int32_t *vector;

static aclError launch_with(int32_t *z)
{
    struct {
        int32_t *z;
        uint64_t n;
        float by;
        uint32_t pad;
    } args = {z, COUNT, 1, 0};

    return aclrtLaunchKernelWithHostArgs(scale_all, 1, stream, nullptr, &args, sizeof(args),
                                         nullptr, 0);
}

static aclError launch()
{
    return launch_with(vector);
}

static bool is_complete()
{
    aclrtStreamStatus status;

    CALL(aclrtStreamQuery(stream, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

static void open_gate()
{
    CALL(aclrtRecordNotify(gate, opener));
    CALL(aclrtSynchronizeStream(opener));
}

/* The stream waits at the gate, which opens a moment later, from a thread. */
template <typename Call> static bool returns_when_done(Call call)
{
    bool done;
    aclrtContext context;

    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtWaitAndResetNotify(gate, stream, 0));
    std::thread later([context] {
        CALL(aclrtSetCurrentContext(context));
        usleep(50000);
        open_gate();
    });
    CALL(call());
    done = is_complete();
    later.join();
    CALL(aclrtSynchronizeStream(stream));
    return done;
}

static void set_mode(uint32_t mode)
{
    aclrtStreamAttrValue value = {}, got = {};

    value.launchBlockingMode = mode;
    CALL(aclrtSetStreamAttribute(stream, ACL_STREAM_LAUNCH_BLOCKING_MODE, &value));
    CALL(aclrtGetStreamAttribute(stream, ACL_STREAM_LAUNCH_BLOCKING_MODE, &got));
    EXPECT(got.launchBlockingMode == mode);
}

static void modes(bool environment)
{
    aclrtStreamAttrValue value = {};

    CALL(aclrtGetStreamAttribute(stream, ACL_STREAM_LAUNCH_BLOCKING_MODE, &value));
    EXPECT(value.launchBlockingMode == ACL_STREAM_LAUNCH_BLOCKING_MODE_CTRL_BY_ENV);
    EXPECT(returns_when_done(launch) == environment);
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_NON_BLOCKING);
    EXPECT(!returns_when_done(launch));
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING);
    EXPECT(returns_when_done(launch));
    value.launchBlockingMode = 3;
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtSetStreamAttribute(stream, ACL_STREAM_LAUNCH_BLOCKING_MODE, &value));
    EXPECT(returns_when_done(launch));
}

/* The launch says it, and nothing is left to be told. */
static void failure()
{
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING);
    FAILS(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, launch_with(nullptr));
    CALL(launch());
    CALL(aclrtSynchronizeStream(stream));
}

/* Waits at its end, and only at the last one; whatever waits there is what returns when done. */
static aclError section()
{
    CALL(aclrtNonBlockingLaunchBegin(stream, 0));
    CALL(aclrtNonBlockingLaunchBegin(stream, 0));
    CALL(launch());
    EXPECT(!is_complete());
    CALL(aclrtNonBlockingLaunchEnd(stream, 0));
    CALL(launch());
    EXPECT(!is_complete());
    return aclrtNonBlockingLaunchEnd(stream, 0);
}

static void sections()
{
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING);
    EXPECT(returns_when_done(section));
    EXPECT(returns_when_done(launch));
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_NON_BLOCKING);
    EXPECT(!returns_when_done(section));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNonBlockingLaunchEnd(stream, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNonBlockingLaunchBegin(stream, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNonBlockingLaunchEnd(stream, 1));
    CALL(aclrtNonBlockingLaunchBegin(nullptr, 0));
    CALL(aclrtNonBlockingLaunchEnd(nullptr, 0));
}

/* What is recorded is not waited for; its execution is. */
static void models()
{
    aclmdlRI model;

    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING);
    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(launch());
    CALL(aclmdlRICaptureEnd(stream, &model));
    EXPECT(returns_when_done([model] { return aclmdlRIExecuteAsync(model, stream); }));
    set_mode(ACL_STREAM_LAUNCH_BLOCKING_MODE_NON_BLOCKING);
    EXPECT(!returns_when_done([model] { return aclmdlRIExecuteAsync(model, stream); }));
    CALL(aclmdlRIDestroy(model));
}

static int run(bool environment)
{
    aclrtBinHandle bin;

    set_up();
    CALL(aclrtCreateStream(&opener));
    CALL(aclrtCreateNotify(&gate, 0));
    CALL(aclrtBinaryLoadFromFile(KERNELS, nullptr, &bin));
    CALL(aclrtBinaryGetFunction(bin, "scale_all", &scale_all));
    vector = vector_new(1, 1);
    modes(environment);
    failure();
    sections();
    models();
    CALL(aclrtFree(vector));
    CALL(aclrtBinaryUnLoad(bin));
    CALL(aclrtDestroyNotify(gate));
    CALL(aclrtDestroyStream(opener));
    return tear_down();
}

int main()
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        unsetenv("ASCEND_RT_LAUNCH_BLOCKING");
        return run(false);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    setenv("ASCEND_RT_LAUNCH_BLOCKING", "1", 1);
    return run(true);
}
