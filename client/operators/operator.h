/*
 * An operator is a row of a table: struct operator. docs/operators.md tells how to add one.
 *
 * The first phase copies the arguments into a struct operator_call and asks the row's rules; what
 * they leave there is all that the kernel has. The second phase launches the kernel with a copy of
 * it, in blocks that share the pieces of the work.
 */
#pragma once

#include "acl/acl_rt.h"
#include "client/operators/data_type.h"
#include "client/operators/failure.h"
#include "client/operators/number.h"
#include "client/operators/view.h"

#define OPERATOR_INPUTS_MAX  2
#define OPERATOR_SCALARS_MAX 2

struct operator;

/** What a kernel knows. */
struct operator_call {
    const struct operator* op;
    uint64_t pieces;
    struct view in[OPERATOR_INPUTS_MAX], out;
    struct number scalar[OPERATOR_SCALARS_MAX];
    int64_t option;               /* a plain argument: a dimension, a mode */
    const struct data_type *type; /* that is computed in */
};

struct operator
{
    const char *name;     /* of the function of the second phase */
    aclrtKernelType kind; /* decides the codes of its failures */
    const char *inputs[OPERATOR_INPUTS_MAX], *scalars[OPERATOR_SCALARS_MAX]; /* their names */
    bool in_place;                                                           /* out is in[0] */
    uint32_t dims_max;
    /* Rules, called in this order. Each returns 0, or an error with a sentence. */
    aclnnStatus (*find_type)(struct operator_call * call);  /* types of the arguments; sets type */
    aclnnStatus (*find_shape)(struct operator_call * call); /* shapes; may rewrite the views */
    /* How many pieces there are, and about how many additions one takes. */
    uint64_t (*count_pieces)(const struct operator_call *call);
    uint64_t (*weigh_piece)(const struct operator_call *call);
    /* The kernel, for pieces first to end - 1. */
    void (*run)(const struct operator_call *call, uint64_t first, uint64_t end);
};

/** What a program gives to a function of the first phase, in the order of the row's names. */
struct operator_arguments {
    const aclTensor *in[OPERATOR_INPUTS_MAX];
    const aclScalar *scalar[OPERATOR_SCALARS_MAX];
    const aclTensor *out; /* not if in place */
    int64_t option;
};

/** The first phase. */
aclnnStatus operator_prepare(const struct operator* op, const struct operator_arguments *arguments,
                             uint64_t *workspaceSize, aclOpExecutor **executor);

/** The second phase. */
aclnnStatus operator_launch(const struct operator* op, aclOpExecutor *executor, aclrtStream stream);

/** In client/operators/executor.c: a new executor for the call. */
aclnnStatus executor_create(const struct operator_call *call, aclOpExecutor **executor);

/**
 * The call of an executor, which is freed unless it is repeatable. An error, with a sentence: it is
 * stale, or another operator's.
 */
aclnnStatus executor_take(const struct operator* op, aclOpExecutor *executor,
                          struct operator_call *call);

/** Defines the function of the second phase, which is the same for all. */
#define OPERATOR_PHASE_TWO(function, row)                                                          \
    aclnnStatus function(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,         \
                         aclrtStream stream)                                                       \
    {                                                                                              \
        (void)workspace;                                                                           \
        (void)workspaceSize;                                                                       \
        return operator_launch(row, executor, stream);                                             \
    }
