#include "aclnnop/aclnn_add.h"

#include "client/operators/elementwise.h"

static void add_real(double *to, const double *other, double alpha, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += alpha * other[i];
}

static void add_whole(int64_t *to, const int64_t *other, int64_t alpha, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)alpha * (uint64_t)other[i]);
}

static void run(const struct operator_call *call, uint64_t first, uint64_t end)
{
    elementwise_run(call, first, end, add_real, add_whole);
}

#define RULES ELEMENTWISE_RULES, .run = run

enum { ADD, ADDS, INPLACE_ADD, INPLACE_ADDS };

static const struct operator rows[] = {
    [ADD] = {.name = "aclnnAdd", .inputs = {"self", "other"}, .scalars = {"alpha"}, RULES},
    [ADDS] = {.name = "aclnnAdds", .inputs = {"self"}, .scalars = {"other", "alpha"}, RULES},
    [INPLACE_ADD] = {.name = "aclnnInplaceAdd",
                     .inputs = {"selfRef", "other"},
                     .scalars = {"alpha"},
                     .in_place = true,
                     RULES},
    [INPLACE_ADDS] = {.name = "aclnnInplaceAdds",
                      .inputs = {"selfRef"},
                      .scalars = {"other", "alpha"},
                      .in_place = true,
                      RULES},
};

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                     const aclScalar *alpha, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self, other}, .scalar = {alpha}, .out = out};

    return operator_prepare(&rows[ADD], &a, workspaceSize, executor);
}

aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor *self, const aclScalar *other,
                                      const aclScalar *alpha, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self}, .scalar = {other, alpha}, .out = out};

    return operator_prepare(&rows[ADDS], &a, workspaceSize, executor);
}

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *selfRef, const aclTensor *other,
                                            const aclScalar *alpha, uint64_t *workspaceSize,
                                            aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {selfRef, other}, .scalar = {alpha}};

    return operator_prepare(&rows[INPLACE_ADD], &a, workspaceSize, executor);
}

aclnnStatus aclnnInplaceAddsGetWorkspaceSize(const aclTensor *selfRef, const aclScalar *other,
                                             const aclScalar *alpha, uint64_t *workspaceSize,
                                             aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {selfRef}, .scalar = {other, alpha}};

    return operator_prepare(&rows[INPLACE_ADDS], &a, workspaceSize, executor);
}

OPERATOR_PHASE_TWO(aclnnAdd, &rows[ADD])
OPERATOR_PHASE_TWO(aclnnAdds, &rows[ADDS])
OPERATOR_PHASE_TWO(aclnnInplaceAdd, &rows[INPLACE_ADD])
OPERATOR_PHASE_TWO(aclnnInplaceAdds, &rows[INPLACE_ADDS])
