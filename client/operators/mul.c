#include "aclnnop/aclnn_mul.h"

#include "client/operators/elementwise.h"

static void multiply_real(double *to, const double *other, double alpha, size_t n)
{
    (void)alpha;
    for (size_t i = 0; i < n; i++)
        to[i] *= other[i];
}

static void multiply_whole(int64_t *to, const int64_t *other, int64_t alpha, size_t n)
{
    (void)alpha;
    for (size_t i = 0; i < n; i++)
        to[i] = (int64_t)((uint64_t)to[i] * (uint64_t)other[i]);
}

static void run(const struct operator_call *call, uint64_t first, uint64_t end)
{
    elementwise_run(call, first, end, multiply_real, multiply_whole);
}

#define RULES ELEMENTWISE_RULES, .run = run

enum { MUL, MULS, INPLACE_MUL, INPLACE_MULS };

static const struct operator rows[] = {
    [MUL] = {.name = "aclnnMul", .inputs = {"self", "other"}, RULES},
    [MULS] = {.name = "aclnnMuls", .inputs = {"self"}, .scalars = {"other"}, RULES},
    [INPLACE_MUL] = {.name = "aclnnInplaceMul",
                     .inputs = {"selfRef", "other"},
                     .in_place = true,
                     RULES},
    [INPLACE_MULS] = {.name = "aclnnInplaceMuls",
                      .inputs = {"selfRef"},
                      .scalars = {"other"},
                      .in_place = true,
                      RULES},
};

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self, other}, .out = out};

    return operator_prepare(&rows[MUL], &a, workspaceSize, executor);
}

aclnnStatus aclnnMulsGetWorkspaceSize(const aclTensor *self, const aclScalar *other, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self}, .scalar = {other}, .out = out};

    return operator_prepare(&rows[MULS], &a, workspaceSize, executor);
}

aclnnStatus aclnnInplaceMulGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other,
                                            uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {selfRef, other}};

    return operator_prepare(&rows[INPLACE_MUL], &a, workspaceSize, executor);
}

aclnnStatus aclnnInplaceMulsGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other,
                                             uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {selfRef}, .scalar = {other}};

    return operator_prepare(&rows[INPLACE_MULS], &a, workspaceSize, executor);
}

OPERATOR_PHASE_TWO(aclnnMul, &rows[MUL])
OPERATOR_PHASE_TWO(aclnnMuls, &rows[MULS])
OPERATOR_PHASE_TWO(aclnnInplaceMul, &rows[INPLACE_MUL])
OPERATOR_PHASE_TWO(aclnnInplaceMuls, &rows[INPLACE_MULS])
