/*
 * Tasks on words of memory that devices reach: aclrtValueWrite, aclrtValueWait, aclrtReduceAsync.
 */
#include "acl/acl.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/memory/host_task.h"
#include "client/memory/place.h"
#include "client/runtime/stream.h"
#include "proto/util/reduce.h"

#define WORD 8u

static int submit_word(struct stream *s, const char *function, const struct place *at,
                       struct task *task)
{
    /* Host memory, which the program may write by itself: a thread of the library looks at it. */
    if (at->kind != PLACE_DEVICE)
        return task->op == TASK_VALUE_WRITE
                   ? host_task_value_write(s, function, at, task->value.value)
                   : host_task_value_wait(s, function, at, task->value.value, task->flags);
    task->object = at->memory.remote;
    task->generation = at->memory.remote_generation;
    task->value.offset = place_remote_offset(at);
    place_populate(s->session, at, WORD);
    return stream_submit(s, function, task);
}

static int submit_value(const char *function, enum task_op op, void *address, uint64_t value,
                        uint32_t flag, aclrtStream stream)
{
    struct task task = {.op = (uint8_t)op, .flags = (uint8_t)flag, .value.value = value};
    struct place at;
    int error;
    struct stream *s;

    if ((uintptr_t)address % WORD != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: devAddr (%p) is not aligned to %u bytes",
                         function, address, WORD);
    s = FIND_OR_RETURN(stream_lock, function, stream);
    error = place_find_device(s->session, function, s->device, "devAddr", address, WORD, &at);
    if (error == 0)
        error = submit_word(s, function, &at, &task);
    if (error == 0 && stream_captures(s))
        capture_note_word(s, address);
    stream_unlock(s);
    return error;
}

aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(devAddr);
    if (flag != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtValueWrite: flag is %u, must be 0",
                         flag);
    return submit_value(__func__, TASK_VALUE_WRITE, devAddr, value, flag, stream);
}

aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(devAddr);
    if (flag > ACL_STREAM_WAIT_VALUE_NOR)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtValueWait: flag %u is no condition (ACL_STREAM_WAIT_VALUE_*)", flag);
    return submit_value(__func__, TASK_VALUE_WAIT, devAddr, value, flag, stream);
}

/* --- reductions --- */

static int check_reduce(const void *dst, const void *src, uint64_t count, uint32_t kind,
                        uint32_t type)
{
    const char *function = "aclrtReduceAsync";
    size_t element = reduce_element(type);

    if (element == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: type %d cannot be reduced", function,
                         (int)type);
    if (!reduce_kind_known(kind))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: kind is %d, must be 10 to 13", function,
                         (int)kind);
    if (count == 0 || count % element != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: count is %llu bytes, must be whole elements of %zu, and one at least",
                         function, (unsigned long long)count, element);
    if (kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM && count > UINT64_C(4) << 30)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a sum takes 4 GiB at most", function);
    if (!reduce_offered(kind, type))
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: there is no reduction of kind %d for type %d", function, (int)kind,
                         (int)type);
    if (((uintptr_t)dst | (uintptr_t)src) % element != 0)
        return error_set(ACL_ERROR_RT_ADDR_UNALIGNED,
                         "%s: dst (%p) or src (%p) is not aligned to an element of %zu bytes",
                         function, dst, src, element);
    return 0;
}

static int submit_reduce(struct stream *s, const char *function, void *dst, const void *src,
                         struct task *task)
{
    struct place to, from;

    RETURN_IF_ERROR(
        place_find_device(s->session, function, s->device, "dst", dst, task->reduce.size, &to));
    RETURN_IF_ERROR(
        place_find_device(s->session, function, s->device, "src", src, task->reduce.size, &from));
    if (to.kind == PLACE_REGISTERED || from.kind == PLACE_REGISTERED)
        return host_task_reduce(s, function, &to, &from, task->reduce.size, task->reduce.kind,
                                task->reduce.type);
    task->object = to.memory.remote;
    task->generation = to.memory.remote_generation;
    task->reduce.dst_offset = place_remote_offset(&to);
    task->reduce.src = from.memory.remote;
    task->reduce.src_generation = from.memory.remote_generation;
    task->reduce.src_offset = place_remote_offset(&from);
    place_populate(s->session, &to, task->reduce.size);
    place_populate(s->session, &from, task->reduce.size);
    return stream_submit(s, function, task);
}

aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind,
                          aclDataType type, aclrtStream stream, void *reserve)
{
    CALL_SCOPE;
    struct task task = {
        .op = TASK_REDUCE,
        .reduce = {.size = count, .kind = (uint32_t)kind, .type = (uint32_t)type},
    };
    struct stream *s;
    int error;

    REQUIRE(dst);
    REQUIRE(src);
    if (reserve)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtReduceAsync: reserve must be NULL");
    RETURN_IF_ERROR(check_reduce(dst, src, count, (uint32_t)kind, (uint32_t)type));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = submit_reduce(s, __func__, dst, src, &task);
    stream_unlock(s);
    return error;
}
