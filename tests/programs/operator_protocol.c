/*
 * The two phases: executors that are launched once, twice, never, or again and again with other
 * addresses; order on a stream; threads; processes; what the runtime refuses.
 */
#include "operators.h"

#include <aclnn/aclnn_base.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_mul.h>
#include <pthread.h>

#define N 1000

static uint64_t workspace;
static const int64_t length = N;

static float *device_floats(float value)
{
    float here[N];
    void *there;

    for (int i = 0; i < N; i++)
        here[i] = value;
    CALL(aclrtMalloc(&there, sizeof(here), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(there, sizeof(here), here, sizeof(here), ACL_MEMCPY_HOST_TO_DEVICE));
    return (float *)there;
}

static void expect_all(const float *device, float value, int line)
{
    float here[N];

    CALL(aclrtMemcpy(here, sizeof(here), device, sizeof(here), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < N; i++)
        expect_near(here[i], value, 0, "the result", i, line);
}

static aclTensor *tensor_of(float *device)
{
    return aclCreateTensor(&length, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &length, 1, device);
}

static aclScalar *scalar_of(float value)
{
    return aclCreateScalar(&value, ACL_FLOAT);
}

static void expect_sentence(const char *words, int line)
{
    const char *sentence = aclGetRecentErrMsg();

    expect_truth(sentence && strstr(sentence, words), words, line);
}

/* x = x + 1, as an executor. */
static aclOpExecutor *prepare_count(aclTensor *x)
{
    aclScalar *one = scalar_of(1);
    aclOpExecutor *executor = NULL;

    CALL(aclnnInplaceAddsGetWorkspaceSize(x, one, one, &workspace, &executor));
    CALL(aclDestroyScalar(one));
    return executor;
}

static void launched_once(aclrtStream stream)
{
    float *x = device_floats(0);
    aclTensor *t = tensor_of(x);
    aclOpExecutor *executor = prepare_count(t), *never = prepare_count(t);

    CALL(aclnnInplaceAdds(NULL, 0, executor, stream));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdds(NULL, 0, executor, stream));
    expect_sentence("gone when it has been launched", __LINE__);
    FAILS(ACLNN_ERR_PARAM_INVALID, aclSetAclOpExecutorRepeatable(executor));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyAclOpExecutor(executor));
    CALL(aclDestroyAclOpExecutor(never));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdds(NULL, 0, never, stream));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnInplaceAdds(NULL, 0, NULL, stream));
    CALL(aclrtSynchronizeStream(stream));
    expect_all(x, 1, __LINE__);
    CALL(aclDestroyTensor(t));
    CALL(aclrtFree(x));
}

static void another_function(aclrtStream stream)
{
    float *x = device_floats(0);
    aclTensor *t = tensor_of(x);
    aclOpExecutor *executor = prepare_count(t);

    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnAdd(NULL, 0, executor, stream));
    expect_sentence("made by aclnnInplaceAddsGetWorkspaceSize", __LINE__);
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnAdd(NULL, 0, (aclOpExecutor *)t, stream));
    CALL(aclnnInplaceAdds(NULL, 0, executor, stream)); /* it is as it was */
    CALL(aclrtSynchronizeStream(stream));
    expect_all(x, 1, __LINE__);
    CALL(aclDestroyTensor(t));
    CALL(aclrtFree(x));
}

static void launched_again(aclrtStream stream)
{
    float *x = device_floats(0), *y = device_floats(100), *z = device_floats(7);
    aclTensor *t = tensor_of(x), *other = tensor_of(y), *out = tensor_of(z);
    aclOpExecutor *executor = prepare_count(t), *add = NULL;
    aclScalar *two = scalar_of(2);
    void *address;

    FAILS(ACLNN_ERR_PARAM_INVALID, aclSetTensorAddr(executor, 0, t, y));
    CALL(aclSetAclOpExecutorRepeatable(executor));
    for (int i = 0; i < 20; i++)
        CALL(aclnnInplaceAdds(NULL, 0, executor, stream));
    CALL(aclSetTensorAddr(executor, 0, t, y));
    CALL(aclGetRawTensorAddr(t, &address));
    EXPECT(address == y);
    for (int i = 0; i < 10; i++)
        CALL(aclnnInplaceAdds(NULL, 0, executor, stream));
    CALL(aclSetOutputTensorAddr(executor, 0, t, x));
    CALL(aclnnInplaceAdds(NULL, 0, executor, stream));
    CALL(aclDestroyAclOpExecutor(executor));
    CALL(aclrtSynchronizeStream(stream));
    expect_all(x, 21, __LINE__);
    expect_all(y, 110, __LINE__);

    CALL(aclnnAddGetWorkspaceSize(t, other, two, out, &workspace, &add));
    CALL(aclSetAclOpExecutorRepeatable(add));
    CALL(aclnnAdd(NULL, 0, add, stream)); /* z = x + 2 y */
    CALL(aclrtSynchronizeStream(stream));
    expect_all(z, 241, __LINE__);
    CALL(aclSetInputTensorAddr(add, 1, other, z));
    CALL(aclSetTensorAddr(add, 2, out, y));
    CALL(aclnnAdd(NULL, 0, add, stream)); /* y = x + 2 z */
    CALL(aclrtSynchronizeStream(stream));
    expect_all(y, 503, __LINE__);
    FAILS(ACLNN_ERR_PARAM_INVALID, aclSetInputTensorAddr(add, 2, t, x));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclSetOutputTensorAddr(add, 1, t, x));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclSetTensorAddr(add, 3, t, x));
    FAILS(ACLNN_ERR_INNER_NULLPTR, aclSetTensorAddr(NULL, 0, t, x));
    FAILS(ACLNN_ERR_INNER_NULLPTR, aclSetTensorAddr(add, 0, NULL, x));
    CALL(aclSetTensorAddr(add, 0, t, (char *)x + 2));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnAdd(NULL, 0, add, stream));
    CALL(aclSetTensorAddr(add, 0, t, NULL));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnAdd(NULL, 0, add, stream));
    expect_sentence("self has the address", __LINE__);
    CALL(aclDestroyAclOpExecutor(add));
    FAILS(ACLNN_ERR_INNER_NULLPTR, aclDestroyAclOpExecutor(NULL));
    FAILS(ACLNN_ERR_INNER_NULLPTR, aclSetAclOpExecutorRepeatable(NULL));
    CALL(aclDestroyScalar(two));
    CALL(aclDestroyTensor(t));
    CALL(aclDestroyTensor(other));
    CALL(aclDestroyTensor(out));
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
    CALL(aclrtFree(z));
}

/* Between copies, and across streams by an event. */
static void in_the_order_of_streams(aclrtStream stream)
{
    float *x = device_floats(3), *y = device_floats(0);
    aclTensor *t = tensor_of(x);
    aclScalar *two = scalar_of(2);
    aclOpExecutor *twice = NULL, *count = prepare_count(t);
    aclrtStream second;
    aclrtEvent event;

    CALL(aclrtCreateStream(&second));
    CALL(aclrtCreateEvent(&event));
    CALL(aclnnInplaceMulsGetWorkspaceSize(t, two, &workspace, &twice));
    CALL(aclSetAclOpExecutorRepeatable(twice));
    CALL(aclnnInplaceMuls(NULL, 0, twice, stream));
    CALL(aclnnInplaceAdds(NULL, 0, count, stream));
    CALL(aclrtRecordEvent(event, stream));
    CALL(aclrtStreamWaitEvent(second, event));
    CALL(aclnnInplaceMuls(NULL, 0, twice, second));
    CALL(aclrtMemcpyAsync(y, N * sizeof(*y), x, N * sizeof(*x), ACL_MEMCPY_DEVICE_TO_DEVICE,
                          second));
    CALL(aclrtSynchronizeStream(second));
    expect_all(y, 14, __LINE__);
    CALL(aclDestroyAclOpExecutor(twice));
    CALL(aclDestroyScalar(two));
    CALL(aclDestroyTensor(t));
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
}

static void *count_up(void *arg)
{
    float *x;
    aclTensor *t;
    aclrtStream stream;

    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    x = device_floats(0);
    t = tensor_of(x);
    for (int i = 0; i < 50; i++)
        CALL(aclnnInplaceAdds(NULL, 0, prepare_count(t), stream));
    CALL(aclDestroyTensor(t));
    CALL(aclrtSynchronizeStream(stream));
    expect_all(x, 50, __LINE__);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtFree(x));
    return arg;
}

static void in_threads(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, count_up, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void in_a_child(int in, int out)
{
    (void)in;
    (void)out;
    CALL(aclInit(NULL));
    count_up(NULL);
    CALL(aclrtResetDevice(0));
}

/* One comes back for each. */
static void refused_by_the_runtime(aclrtStream stream)
{
    float *x = device_floats(0);
    aclTensor *t = tensor_of(x), *none = tensor_of(NULL);
    aclOpExecutor *executor = prepare_count(t), *nowhere = prepare_count(none);

    FAILS(ACLNN_ERR_RUNTIME_ERROR, aclnnInplaceAdds(NULL, 0, executor, (aclrtStream)t));
    expect_sentence("the runtime answered 107017", __LINE__);
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdds(NULL, 0, executor, stream)); /* it is gone */
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnInplaceAdds(NULL, 0, nowhere, stream));
    CALL(aclrtSynchronizeStream(stream));
    expect_all(x, 0, __LINE__);
    CALL(aclDestroyTensor(t));
    CALL(aclDestroyTensor(none));
    CALL(aclrtFree(x));
}

int main(void)
{
    int in, out;
    aclrtStream stream;
    pid_t child;

    CALL(aclnnInit(NULL));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnInit("/nowhere/acl.json"));
    child = start_child(in_a_child, &in, &out);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 2; i++) {
        launched_once(i ? stream : NULL);
        another_function(i ? stream : NULL);
        launched_again(i ? stream : NULL);
    }
    in_the_order_of_streams(stream);
    in_threads();
    refused_by_the_runtime(stream);
    EXPECT(ended_well(child));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclnnFinalize());
    return aclFinalize();
}
