/* Executors: calls that are prepared, between the two phases. */
#include <stdlib.h>
#include <unistd.h>

#include "aclnn/aclnn_base.h"
#include "client/operators/operator.h"
#include "client/operators/tensor.h"

struct executor {
    struct object object;
    bool repeatable;
    struct operator_call call;
};

aclnnStatus executor_create(const struct operator_call *call, aclOpExecutor **executor)
{
    struct executor *e = calloc(1, sizeof(*e));
    void *handle;

    if (e)
        e->call = *call;
    handle = object_add(call->op->name, e ? &e->object : NULL, OBJECT_EXECUTOR);
    if (!handle)
        return ACLNN_ERR_INNER_CREATE_EXECUTOR;
    *executor = handle;
    return ACLNN_SUCCESS;
}

aclnnStatus executor_take(const struct operator* op, aclOpExecutor *executor,
                          struct operator_call *call)
{
    const char *owner = op->name;
    struct executor *e;
    bool last = false;

    objects_lock();
    e = object_find(op->name, "executor", executor, OBJECT_EXECUTOR);
    if (e)
        owner = e->call.op->name;
    if (e && e->call.op == op) {
        *call = e->call;
        last = !e->repeatable;
    }
    if (last)
        object_remove(e);
    objects_unlock();
    if (!e)
        return ACLNN_ERR_PARAM_INVALID;
    if (last)
        free(e);
    if (owner != op->name)
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: executor was made by %sGetWorkspaceSize: launch it with %s",
                            op->name, owner, owner);
    return ACLNN_SUCCESS;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    struct executor *e;

    if (!executor)
        return failure_tell(ACLNN_ERR_INNER_NULLPTR, "%s: executor is NULL", __func__);
    objects_lock();
    e = object_find(__func__, "executor", executor, OBJECT_EXECUTOR);
    if (e)
        e->repeatable = true;
    objects_unlock();
    return e ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    if (!executor)
        return failure_tell(ACLNN_ERR_INNER_NULLPTR, "%s: executor is NULL", __func__);
    return object_destroy(__func__, executor, OBJECT_EXECUTOR);
}

/* --- other addresses --- */

static size_t inputs_of(const struct operator* op)
{
    size_t n = 0;

    while (n < OPERATOR_INPUTS_MAX && op->inputs[n])
        n++;
    return n;
}

/* index: of inputs and then the output. Under the lock. */
static aclnnStatus set_address(const char *api, struct executor *e, size_t index, void *address)
{
    size_t inputs = inputs_of(e->call.op);
    bool out = index == inputs || (index == 0 && e->call.op->in_place);

    if (!e->repeatable)
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: the executor is launched once, with the addresses it has; call "
                            "aclSetAclOpExecutorRepeatable first",
                            api);
    if (index > inputs)
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: %s has no such tensor: it has %zu and out", api, e->call.op->name,
                            inputs);
    if (index < inputs)
        e->call.in[index].address = address;
    if (out)
        e->call.out.address = address;
    if (index == inputs && e->call.op->in_place)
        e->call.in[0].address = address;
    return ACLNN_SUCCESS;
}

enum which { ANY, INPUT, OUTPUT };

static aclnnStatus change_address(const char *api, aclOpExecutor *executor, enum which which,
                                  size_t index, aclTensor *tensor, void *address)
{
    aclnnStatus status = ACLNN_ERR_PARAM_INVALID;
    struct executor *e;
    struct tensor *t;

    if (!executor || !tensor)
        return failure_tell(ACLNN_ERR_INNER_NULLPTR, "%s: %s is NULL", api,
                            executor ? "tensor" : "executor");
    objects_lock();
    e = object_find(api, "executor", executor, OBJECT_EXECUTOR);
    t = e ? object_find(api, "tensor", tensor, OBJECT_TENSOR) : NULL;
    if (t) {
        size_t inputs = inputs_of(e->call.op);
        bool none = which == INPUT ? index >= inputs : which == OUTPUT && index > 0;

        status = none ? set_address(api, e, SIZE_MAX, address)
                      : set_address(api, e, which == OUTPUT ? inputs : index, address);
    }
    if (status == ACLNN_SUCCESS)
        t->address = address;
    objects_unlock();
    return status;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                  void *addr)
{
    return change_address(__func__, executor, INPUT, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                   void *addr)
{
    return change_address(__func__, executor, OUTPUT, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                             void *addr)
{
    return change_address(__func__, executor, ANY, index, tensor, addr);
}

/* --- start and end --- */

aclnnStatus aclnnInit(const char *configPath)
{
    if (configPath && access(configPath, R_OK) != 0)
        return failure_tell(ACLNN_ERR_PARAM_INVALID, "%s: the file %s cannot be read: %m", __func__,
                            configPath);
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnFinalize(void)
{
    return ACLNN_SUCCESS;
}
