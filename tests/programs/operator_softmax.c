/* Softmax along each dimension: random shapes, layouts and types; in place; large numbers. */
#include "operators.h"

#include <aclnnop/aclnn_softmax.h>

static uint64_t workspace;

/* Elements along `dim` from an element that has index 0 there. */
static int64_t step_along(const struct sheet *s, int dim)
{
    int64_t step = 1;

    for (int i = s->dims; i-- > dim + 1;)
        step *= s->dim[i];
    return step;
}

static void compare_lines(const struct sheet *self, const struct sheet *out, int dim, int line)
{
    int64_t step = self->dims > 0 ? step_along(self, dim) : 1, n = count_of(self);
    int64_t length = self->dims > 0 ? self->dim[dim] : 1;

    for (int64_t i = 0; i < n; i++) {
        int64_t first = i - i / step % length * step;
        double largest = -INFINITY, sum = 0;

        for (int64_t k = 0; k < length; k++)
            largest = fmax(largest, value_of(self, first + k * step));
        for (int64_t k = 0; k < length; k++)
            sum += exp(value_of(self, first + k * step) - largest);
        expect_near(value_of(out, i), exp(value_of(self, i) - largest) / sum,
                    step_of(out->type) + 1e-7, "aclnnSoftmax", i, line);
    }
}

static aclDataType draw_floating(void)
{
    static const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};

    return types[draw_below(4)];
}

static void try_softmax(aclrtStream stream, int in_place)
{
    int dims = (int)draw_below(5), dim = dims > 0 ? (int)draw_below(dims) : 0;
    int64_t sizes[DIMS], limit = dims < 2 ? 2000 : dims == 2 ? 60 : 8;
    struct sheet self, out, result;
    aclOpExecutor *executor = NULL;
    unsigned char *before;
    size_t size;

    for (int i = 0; i < dims; i++)
        sizes[i] = draw_below(40) == 0 ? 0 : 1 + draw_below(limit);
    make_sheet(&self, draw_floating(), dims, sizes, 20);
    make_sheet(&out, draw_floating(), dims, sizes, 20);
    result = in_place ? self : out;
    size = (size_t)result.room * size_of(result.type);
    before = (unsigned char *)malloc(size);
    memcpy(before, result.here, size);
    CALL(aclnnSoftmaxGetWorkspaceSize(self.tensor, draw_below(2) ? dim : dim - (dims ? dims : 1),
                                      result.tensor, &workspace, &executor));
    CALL(aclnnSoftmax(NULL, workspace, executor, stream));
    CALL(aclrtSynchronizeStream(stream));
    result.here = (unsigned char *)malloc(size);
    from_device(&result);
    compare_lines(&self, &result, dim, __LINE__);
    expect_rest(&result, before, __LINE__);
    free(before);
    free(result.here);
    free_sheet(&self);
    free_sheet(&out);
}

static void large_numbers(void)
{
    int64_t dim[] = {2, 3};
    float x[] = {10000, 10000, 9999, -10000, -10001, -INFINITY}, y[6];
    void *device;
    aclTensor *t;
    aclOpExecutor *executor;

    CALL(aclrtMalloc(&device, sizeof(x), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(device, sizeof(x), x, sizeof(x), ACL_MEMCPY_HOST_TO_DEVICE));
    t = aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, device);
    CALL(aclnnSoftmaxGetWorkspaceSize(t, -1, t, &workspace, &executor));
    CALL(aclnnSoftmax(NULL, 0, executor, NULL));
    CALL(aclrtSynchronizeStream(NULL));
    CALL(aclrtMemcpy(y, sizeof(y), device, sizeof(y), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(fabs(y[0] - 1 / (2 + exp(-1))) < 1e-6 && y[0] == y[1]);
    EXPECT(fabs(y[4] - exp(-1) / (1 + exp(-1))) < 1e-6 && y[5] == 0);
    CALL(aclDestroyTensor(t));
    CALL(aclrtFree(device));
}

/* An empty tensor needs no memory. */
static void empty(void)
{
    int64_t dim[] = {3, 0};
    aclTensor *t = aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, NULL);
    aclOpExecutor *executor;

    for (int i = 0; i < 2; i++) {
        CALL(aclnnSoftmaxGetWorkspaceSize(t, i, t, &workspace, &executor));
        CALL(aclnnSoftmax(NULL, 0, executor, NULL));
    }
    CALL(aclrtSynchronizeStream(NULL));
    CALL(aclDestroyTensor(t));
}

static void bad_arguments(void)
{
    int64_t dim[] = {2, 3}, turned[] = {3, 2};
    aclTensor *a = aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, NULL);
    aclTensor *b = aclCreateTensor(turned, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, NULL);
    aclTensor *c = aclCreateTensor(dim, 2, ACL_INT32, NULL, 0, ACL_FORMAT_ND, dim, 2, NULL);
    aclOpExecutor *executor;
    const char *sentence;

    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnSoftmaxGetWorkspaceSize(a, 2, a, &workspace, &executor));
    sentence = aclGetRecentErrMsg();
    EXPECT(sentence && strstr(sentence, "dim is 2, self has 2 dimension(s): from -2 to 1"));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnSoftmaxGetWorkspaceSize(a, -3, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_INVALID,
          aclnnSoftmaxGetWorkspaceSize(a, INT64_MIN, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnSoftmaxGetWorkspaceSize(a, 0, b, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnSoftmaxGetWorkspaceSize(c, 0, c, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclnnSoftmaxGetWorkspaceSize(a, 0, c, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnSoftmaxGetWorkspaceSize(NULL, 0, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnSoftmaxGetWorkspaceSize(a, 0, NULL, &workspace, &executor));
    CALL(aclDestroyTensor(a));
    CALL(aclDestroyTensor(b));
    CALL(aclDestroyTensor(c));
}

int main(void)
{
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 200; i++)
        try_softmax(i % 2 ? stream : NULL, i % 3 == 0);
    large_numbers();
    empty();
    bad_arguments();
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
