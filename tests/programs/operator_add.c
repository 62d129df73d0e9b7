/* Sums of tensors: random shapes, layouts and types; scalars; integers that wrap; bad arguments. */
#include "operators_elementwise.h"

#include <aclnnop/aclnn_add.h>

static uint64_t workspace;

static aclnnStatus prepare_add(struct sheet *self, struct sheet *other, aclScalar *alpha,
                               struct sheet *out, aclOpExecutor **executor)
{
    return aclnnAddGetWorkspaceSize(self->tensor, other->tensor, alpha, out->tensor, &workspace,
                                    executor);
}

static aclnnStatus prepare_inplace_add(struct sheet *self, struct sheet *other, aclScalar *alpha,
                                       struct sheet *out, aclOpExecutor **executor)
{
    (void)out;
    return aclnnInplaceAddGetWorkspaceSize(self->tensor, other->tensor, alpha, &workspace,
                                           executor);
}

static double add(double self, double other, double alpha)
{
    return self + alpha * other;
}

static void add_scalars(aclrtStream stream)
{
    int64_t dim[] = {33, 5};
    float two = 2.5f, half = 0.5f;
    int64_t one = 1;
    aclScalar *other = aclCreateScalar(&two, ACL_FLOAT), *alpha = aclCreateScalar(&half, ACL_FLOAT);
    aclScalar *whole = aclCreateScalar(&one, ACL_INT64);
    aclOpExecutor *executor;
    struct sheet self, out;

    make_sheet(&self, ACL_FLOAT16, 2, dim, 10);
    make_sheet(&out, ACL_FLOAT, 2, dim, 10);
    CALL(aclnnAddsGetWorkspaceSize(self.tensor, other, alpha, out.tensor, &workspace, &executor));
    CALL(aclnnAdds(NULL, 0, executor, stream));
    CALL(aclnnInplaceAddsGetWorkspaceSize(self.tensor, whole, whole, &workspace, &executor));
    CALL(aclnnInplaceAdds(NULL, 0, executor, stream));
    CALL(aclrtSynchronizeStream(stream));
    from_device(&out);
    for (int64_t i = 0; i < 33 * 5; i++)
        expect_near(value_of(&out, i), value_of(&self, i) + 1.25, 0.01, "aclnnAdds", i, __LINE__);
    from_device(&self);
    for (int64_t i = 0; i < 33 * 5; i++)
        expect_near(value_of(&self, i) + 0.25, value_of(&out, i), 0.02, "aclnnInplaceAdds", i,
                    __LINE__);
    CALL(aclDestroyScalar(other));
    CALL(aclDestroyScalar(alpha));
    CALL(aclDestroyScalar(whole));
    free_sheet(&self);
    free_sheet(&out);
}

/* An integer tensor and a floating scalar give ACL_FLOAT; out may be no integer then. */
static void scalars_change_types(void)
{
    int64_t dim[] = {4};
    float number = 0.5f;
    aclScalar *s = aclCreateScalar(&number, ACL_FLOAT);
    aclOpExecutor *executor;
    struct sheet self, out;

    make_sheet(&self, ACL_INT32, 1, dim, 10);
    make_sheet(&out, ACL_FLOAT, 1, dim, 10);
    CALL(aclnnAddsGetWorkspaceSize(self.tensor, s, s, out.tensor, &workspace, &executor));
    CALL(aclnnAdds(NULL, 0, executor, NULL));
    CALL(aclrtSynchronizeStream(NULL));
    from_device(&out);
    for (int64_t i = 0; i < 4; i++)
        EXPECT(value_of(&out, i) == value_of(&self, i) + 0.25);
    FAILS(ACLNN_ERR_PARAM_INVALID,
          aclnnInplaceAddsGetWorkspaceSize(self.tensor, s, s, &workspace, &executor));
    CALL(aclDestroyScalar(s));
    free_sheet(&self);
    free_sheet(&out);
}

static void integers_wrap(void)
{
    int64_t dim[] = {3}, one = 1;
    aclScalar *alpha = aclCreateScalar(&one, ACL_INT64);
    aclOpExecutor *executor;
    struct sheet self, other, out;

    make_sheet(&self, ACL_INT32, 1, dim, 10);
    make_sheet(&out, ACL_INT64, 1, dim, 10);
    make_sheet(&other, ACL_INT32, 1, dim, 10);
    for (int i = 0; i < 3; i++) {
        put_number(self.here + 4 * place_of(&self, i), ACL_INT32, INT32_MAX);
        put_number(other.here + 4 * place_of(&other, i), ACL_INT32, 5 + i);
    }
    to_device(&self);
    to_device(&other);
    /* In 32 bits, also where the result has room for more. */
    CALL(aclnnAddGetWorkspaceSize(self.tensor, other.tensor, alpha, out.tensor, &workspace,
                                  &executor));
    CALL(aclnnAdd(NULL, 0, executor, NULL));
    CALL(aclnnInplaceAddGetWorkspaceSize(self.tensor, other.tensor, alpha, &workspace, &executor));
    CALL(aclnnInplaceAdd(NULL, 0, executor, NULL));
    CALL(aclrtSynchronizeStream(NULL));
    from_device(&self);
    from_device(&out);
    for (int i = 0; i < 3; i++) {
        EXPECT(value_of(&self, i) == INT32_MIN + 4.0 + i);
        EXPECT(value_of(&out, i) == INT32_MIN + 4.0 + i);
    }
    free_sheet(&out);
    CALL(aclDestroyScalar(alpha));
    free_sheet(&self);
    free_sheet(&other);
}

static void expect_refused(aclTensor *self, aclTensor *other, aclScalar *alpha, aclTensor *out,
                           const char *words)
{
    aclOpExecutor *executor = NULL;
    const char *sentence;

    FAILS(ACLNN_ERR_PARAM_INVALID,
          aclnnAddGetWorkspaceSize(self, other, alpha, out, &workspace, &executor));
    sentence = aclGetRecentErrMsg();
    EXPECT(sentence && strstr(sentence, words) && strstr(sentence, "[161002] aclnnAdd: "));
    EXPECT(!executor);
}

static void bad_arguments(void)
{
    int64_t dim[] = {4, 6}, other_dim[] = {5, 6}, zero[] = {0, 1}, far[] = {100, 1};
    int64_t many[] = {1, 1, 1, 1, 1, 1, 1, 1, 4};
    float number = 0.5f;
    aclScalar *s = aclCreateScalar(&number, ACL_FLOAT);
    aclTensor *a = aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 2, &number);
    aclTensor *b = aclCreateTensor(other_dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 0, NULL);
    aclTensor *i = aclCreateTensor(dim, 2, ACL_INT32, NULL, 0, ACL_FORMAT_ND, dim, 2, &number);
    aclTensor *c = aclCreateTensor(dim, 2, ACL_COMPLEX64, NULL, 0, ACL_FORMAT_ND, dim, 2, NULL);
    aclTensor *one = aclCreateTensor(dim, 2, ACL_FLOAT, zero, 0, ACL_FORMAT_ND, dim, 2, &number);
    aclTensor *out = aclCreateTensor(dim, 2, ACL_FLOAT, far, 0, ACL_FORMAT_ND, dim, 2, &number);
    aclTensor *nine = aclCreateTensor(many, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, many, 9, NULL);
    aclTensor *odd =
        aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_FRACTAL_NZ, dim, 2, NULL);
    aclOpExecutor *executor = NULL;

    EXPECT(s && a && b && i && c && one && out && nine && odd);
    expect_refused(a, b, s, a, "cannot be broadcast");
    expect_refused(b, b, s, a, "give the shape [5, 6]");
    expect_refused(a, a, s, i, "does not convert to ACL_INT32");
    expect_refused(i, i, s, i, "alpha has type ACL_FLOAT");
    expect_refused(a, c, s, a, "other has type 16");
    expect_refused(a, a, s, one, "share a place");
    expect_refused(out, a, s, a, "lead out of its storage");
    expect_refused(a, nine, s, a, "has 9 dimensions, 8 are allowed");
    expect_refused(odd, a, s, a, "has format 29");
    expect_refused((aclTensor *)s, a, s, a, "self is the handle of a scalar, and not of a tensor");
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(NULL, a, s, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, NULL, s, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, a, NULL, a, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, a, s, NULL, &workspace, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, a, s, a, NULL, &executor));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclnnAddGetWorkspaceSize(a, a, s, a, &workspace, NULL));
    CALL(aclDestroyTensor(b));
    expect_refused(a, b, s, a, "other is no handle of a tensor");
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(b));
    CALL(aclDestroyTensor(a));
    CALL(aclDestroyTensor(i));
    CALL(aclDestroyTensor(c));
    CALL(aclDestroyTensor(one));
    CALL(aclDestroyTensor(out));
    CALL(aclDestroyTensor(nine));
    CALL(aclDestroyTensor(odd));
    CALL(aclDestroyScalar(s));
}

int main(void)
{
    const struct elementwise plain = {"aclnnAdd", prepare_add, aclnnAdd, add, 0};
    const struct elementwise in_place = {"aclnnInplaceAdd", prepare_inplace_add, aclnnInplaceAdd,
                                         add, 1};
    aclrtStream stream;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 200; i++)
        try_elementwise(i % 3 ? &plain : &in_place, i % 2 ? stream : NULL);
    add_scalars(stream);
    scalars_change_types();
    integers_wrap();
    bad_arguments();
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
