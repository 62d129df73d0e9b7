#include "client/operators/operator.h"

#include <sched.h>

#include "acl/acl_npud_kernel.h"
#include "client/operators/tensor.h"

/* A block that does less than this costs more than it saves. */
#define BLOCK_WEIGHT 32768
#define BLOCKS_MAX   64

/* --- the first phase --- */

static aclnnStatus require_arguments(const struct operator* op, const struct operator_arguments *a,
                                     const uint64_t *workspace_size, aclOpExecutor **executor,
                                     const char *api)
{
    for (int i = 0; i < OPERATOR_INPUTS_MAX; i++)
        if (op->inputs[i] && !a->in[i])
            return failure_null(api, op->inputs[i]);
    for (int i = 0; i < OPERATOR_SCALARS_MAX; i++)
        if (op->scalars[i] && !a->scalar[i])
            return failure_null(api, op->scalars[i]);
    if (!op->in_place && !a->out)
        return failure_null(api, "out");
    if (!workspace_size)
        return failure_null(api, "workspaceSize");
    return executor ? ACLNN_SUCCESS : failure_null(api, "executor");
}

static aclnnStatus read_tensor(const struct operator* op, const char *what, const aclTensor *tensor,
                               struct view *view)
{
    RETURN_IF_FAILED(tensor_view(op->name, what, tensor, op->dims_max, view));
    if (!data_type_find(view->type))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: %s has type %d, which the operator does not take", op->name, what,
                            view->type);
    return ACLNN_SUCCESS;
}

static aclnnStatus read_arguments(const struct operator* op, const struct operator_arguments *a,
                                  struct operator_call *call)
{
    for (int i = 0; i < OPERATOR_INPUTS_MAX && op->inputs[i]; i++)
        RETURN_IF_FAILED(read_tensor(op, op->inputs[i], a->in[i], &call->in[i]));
    for (int i = 0; i < OPERATOR_SCALARS_MAX && op->scalars[i]; i++)
        RETURN_IF_FAILED(number_read(op->name, op->scalars[i], a->scalar[i], &call->scalar[i]));
    RETURN_IF_FAILED(read_tensor(op, op->in_place ? op->inputs[0] : "out",
                                 op->in_place ? a->in[0] : a->out, &call->out));
    if (!view_is_distinct(&call->out))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: elements of %s share a place, because a stride is 0", op->name,
                            op->in_place ? op->inputs[0] : "out");
    return ACLNN_SUCCESS;
}

aclnnStatus operator_prepare(const struct operator* op, const struct operator_arguments *arguments,
                             uint64_t *workspaceSize, aclOpExecutor **executor)
{
    struct operator_call call = {.op = op, .option = arguments->option};

    RETURN_IF_FAILED(require_arguments(op, arguments, workspaceSize, executor, op->name));
    RETURN_IF_FAILED(read_arguments(op, arguments, &call));
    RETURN_IF_FAILED(op->find_type(&call));
    RETURN_IF_FAILED(op->find_shape(&call));
    call.pieces = op->count_pieces(&call);
    RETURN_IF_FAILED(executor_create(&call, executor));
    *workspaceSize = 0;
    return ACLNN_SUCCESS;
}

/* --- the second phase --- */

/* Of one block: its share of the pieces. */
static void run_block(const void *function, const void *args)
{
    const struct operator_call *call = args;
    const aclnpudBlock *block = aclnpudBlockSelf();
    uint64_t each = call->pieces / block->num, more = call->pieces % block->num;
    uint64_t first = block->index * each + (block->index < more ? block->index : more);
    uint64_t end = first + each + (block->index < more ? 1 : 0);

    (void)function;
    if (first < end)
        call->op->run(call, first, end);
}

/* Not more than processors: a block takes no less of them than two halves of it. */
static uint32_t choose_blocks(const struct operator_call *call)
{
    uint64_t weight = call->op->weigh_piece(call);
    uint64_t least = weight >= BLOCK_WEIGHT ? 1 : BLOCK_WEIGHT / (weight > 0 ? weight : 1);
    uint64_t blocks = call->pieces / least, most = 1;
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        most = (uint64_t)CPU_COUNT(&cpus);
    if (most > BLOCKS_MAX)
        most = BLOCKS_MAX;
    if (blocks > most)
        blocks = most;
    return blocks > 0 ? (uint32_t)blocks : 1;
}

static aclnnStatus check_address(const struct operator* op, const char *what, const struct view *v)
{
    uint32_t size = data_type_find(v->type)->size;

    if (v->address && (uintptr_t)v->address % size == 0)
        return ACLNN_SUCCESS;
    return failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: %s has the address %p, which is %s", op->name,
                        what, v->address, v->address ? "not a multiple of its elements" : "none");
}

static aclnnStatus check_addresses(const struct operator_call *call)
{
    const struct operator* op = call->op;

    if (call->pieces == 0)
        return ACLNN_SUCCESS;
    for (int i = 0; i < OPERATOR_INPUTS_MAX && op->inputs[i]; i++)
        if (view_count(&call->in[i]) > 0)
            RETURN_IF_FAILED(check_address(op, op->inputs[i], &call->in[i]));
    return check_address(op, "out", &call->out);
}

aclnnStatus operator_launch(const struct operator* op, aclOpExecutor *executor, aclrtStream stream)
{
    struct operator_call call;
    aclnpudKernel kernel = {.size = sizeof(kernel), .kind = op->kind, .name = op->name};
    aclError error;

    if (!executor)
        return failure_null(op->name, "executor");
    RETURN_IF_FAILED(executor_take(op, executor, &call));
    RETURN_IF_FAILED(check_addresses(&call));
    kernel.function = (const void *)(uintptr_t)op->run;
    kernel.call = run_block;
    error = aclnpudLaunchKernel(&kernel, choose_blocks(&call), &call, sizeof(call), stream);
    if (error == ACL_SUCCESS)
        return ACLNN_SUCCESS;
    return failure_tell(ACLNN_ERR_RUNTIME_ERROR,
                        "%s: the operator could not be launched: the runtime answered %d, and says "
                        "why in a sentence of its own",
                        op->name, error);
}
