/*
 * Operators with addresses that are none, and operators that are ended while they run: the stream
 * fails or is empty, and the program goes on, also with what it calls next.
 */
#include "operators.h"

#include <aclnnop/aclnn_matmul.h>
#include <aclnnop/aclnn_softmax.h>

#define SIZE   ((int64_t)512)
#define ROUNDS 300 /* as many buffers as OpenBLAS has, and more */

static uint64_t workspace;
static const int64_t dim[] = {SIZE, SIZE};

static aclTensor *square_at(void *address)
{
    return aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, address);
}

static void *device_ones(void)
{
    size_t bytes = SIZE * SIZE * sizeof(float);
    float *here = (float *)malloc(bytes);
    void *there;

    for (int64_t i = 0; i < SIZE * SIZE; i++)
        here[i] = 1;
    CALL(aclrtMalloc(&there, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(there, bytes, here, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    free(here);
    return there;
}

static void launch_matmul(aclTensor *a, aclTensor *b, aclTensor *out, aclrtStream stream)
{
    aclOpExecutor *executor;

    CALL(aclnnMatmulGetWorkspaceSize(a, b, out, 0, &workspace, &executor));
    CALL(aclnnMatmul(NULL, workspace, executor, stream));
}

/* After a good call in the same stream: what the kernel thread was before, it is again. */
static void wrong_addresses(void *ones, void *product)
{
    aclTensor *good = square_at(ones), *bad = square_at((void *)(uintptr_t)4096);
    aclTensor *result = square_at(product);
    aclOpExecutor *executor;
    aclrtStream stream;

    for (int i = 0; i < 20; i++) {
        CALL(aclrtCreateStream(&stream));
        launch_matmul(good, good, result, stream);
        launch_matmul(i % 2 ? good : bad, i % 2 ? bad : good, good, stream);
        FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream));
        CALL(aclrtDestroyStream(stream));
        CALL(aclrtCreateStream(&stream));
        CALL(aclnnSoftmaxGetWorkspaceSize(good, 0, bad, &workspace, &executor));
        CALL(aclnnSoftmax(NULL, 0, executor, stream));
        FAILS(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, aclrtSynchronizeStream(stream));
        CALL(aclrtDestroyStream(stream));
    }
    CALL(aclDestroyTensor(good));
    CALL(aclDestroyTensor(bad));
    CALL(aclDestroyTensor(result));
}

/* At any instruction: the time between the launch and the abort is random. */
static void ended_while_they_run(void *ones, void *result)
{
    aclTensor *a = square_at(ones), *out = square_at(result);
    volatile int64_t spin;
    aclrtStream stream;

    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < ROUNDS; i++) {
        launch_matmul(a, a, out, stream);
        for (spin = draw_below(1000000); spin > 0; spin--)
            ;
        CALL(aclrtStreamAbort(stream));
    }
    launch_matmul(a, a, out, stream);
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyStream(stream));
    CALL(aclDestroyTensor(a));
    CALL(aclDestroyTensor(out));
}

int main(void)
{
    void *ones, *result;
    float *here = (float *)malloc(SIZE * SIZE * sizeof(float));

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    ones = device_ones();
    result = device_ones();
    wrong_addresses(ones, result);
    ended_while_they_run(ones, result);
    CALL(aclrtMemcpy(here, SIZE * SIZE * sizeof(float), result, SIZE * SIZE * sizeof(float),
                     ACL_MEMCPY_DEVICE_TO_HOST));
    for (int64_t i = 0; i < SIZE * SIZE; i++)
        EXPECT(here[i] == (float)SIZE);
    free(here);
    CALL(aclrtFree(ones));
    CALL(aclrtFree(result));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
