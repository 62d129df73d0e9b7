// Products of tensors: random shapes, layouts and types; scalars; blocks of a large one.
#include "operators_elementwise.h"

#include <aclnnop/aclnn_mul.h>

#include <vector>

static uint64_t workspace;

static aclnnStatus prepare_mul(struct sheet *self, struct sheet *other, aclScalar *,
                               struct sheet *out, aclOpExecutor **executor)
{
    return aclnnMulGetWorkspaceSize(self->tensor, other->tensor, out->tensor, &workspace, executor);
}

static aclnnStatus prepare_inplace_mul(struct sheet *self, struct sheet *other, aclScalar *,
                                       struct sheet *, aclOpExecutor **executor)
{
    return aclnnInplaceMulGetWorkspaceSize(self->tensor, other->tensor, &workspace, executor);
}

static double mul(double self, double other, double)
{
    return self * other;
}

// As large as several blocks, and not a multiple of anything.
static void multiply_many(aclrtStream stream)
{
    const int64_t n = 1000003;
    std::vector<float> numbers(n), results(n);
    float factor = 3;
    void *device;
    aclOpExecutor *executor;
    aclScalar *scalar = aclCreateScalar(&factor, ACL_FLOAT);

    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)(i % 1000);
    CALL(aclrtMalloc(&device, n * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(device, n * sizeof(float), numbers.data(), n * sizeof(float),
                     ACL_MEMCPY_HOST_TO_DEVICE));
    aclTensor *tensor = aclCreateTensor(&n, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &n, 1, device);
    CALL(aclnnInplaceMulsGetWorkspaceSize(tensor, scalar, &workspace, &executor));
    EXPECT(workspace == 0);
    CALL(aclnnInplaceMuls(nullptr, 0, executor, stream));
    CALL(aclnnMulsGetWorkspaceSize(tensor, scalar, tensor, &workspace, &executor));
    CALL(aclnnMuls(nullptr, 0, executor, stream));
    CALL(aclDestroyTensor(tensor));
    CALL(aclDestroyScalar(scalar));
    CALL(aclrtMemcpyAsync(results.data(), n * sizeof(float), device, n * sizeof(float),
                          ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CALL(aclrtSynchronizeStream(stream));
    for (int64_t i = 0; i < n; i++)
        EXPECT(results[i] == 9 * numbers[i]);
    CALL(aclrtFree(device));
}

static void multiply_truths()
{
    const int64_t n = 4;
    uint8_t a[] = {0, 1, 2, 255}, b[] = {1, 1, 1, 0}, c[4];
    void *device;
    aclOpExecutor *executor;

    CALL(aclrtMalloc(&device, 12, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(device, 4, a, 4, ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy((char *)device + 4, 4, b, 4, ACL_MEMCPY_HOST_TO_DEVICE));
    aclTensor *self = aclCreateTensor(&n, 1, ACL_BOOL, nullptr, 0, ACL_FORMAT_ND, &n, 1, device);
    aclTensor *other = aclCreateTensor(&n, 1, ACL_BOOL, nullptr, 4, ACL_FORMAT_ND, &n, 1, device);
    aclTensor *out = aclCreateTensor(&n, 1, ACL_BOOL, nullptr, 8, ACL_FORMAT_ND, &n, 1, device);
    CALL(aclnnMulGetWorkspaceSize(self, other, out, &workspace, &executor));
    CALL(aclnnMul(nullptr, 0, executor, nullptr));
    CALL(aclrtSynchronizeStream(nullptr));
    CALL(aclrtMemcpy(c, 4, (char *)device + 8, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(c[0] == 0 && c[1] == 1 && c[2] == 1 && c[3] == 0);
    CALL(aclDestroyTensor(self));
    CALL(aclDestroyTensor(other));
    CALL(aclDestroyTensor(out));
    CALL(aclrtFree(device));
}

int main()
{
    const struct elementwise plain = {"aclnnMul", prepare_mul, aclnnMul, mul, 0};
    const struct elementwise in_place = {"aclnnInplaceMul", prepare_inplace_mul, aclnnInplaceMul,
                                         mul, 1};
    aclrtStream stream;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 200; i++)
        try_elementwise(i % 3 ? &plain : &in_place, i % 2 ? stream : nullptr);
    multiply_many(stream);
    multiply_truths();
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
