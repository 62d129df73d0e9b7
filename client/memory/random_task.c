/*
 * aclrtRandomNumAsync. The numbers are made in the call and copied in the order of the stream, as a
 * copy that takes its source at the call: so an npud that ends meanwhile has nothing to make again.
 * A parameter in device memory is read in the stream's order too: the call waits for what is on the
 * stream before. A host function could read it later without that wait, but it would write into
 * memory that the program may have freed by then.
 */
#include <math.h>
#include <string.h>

#include "acl/acl.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/memory/copy.h"
#include "client/memory/direct.h"
#include "client/memory/host_task.h"
#include "client/memory/place.h"
#include "client/memory/random_number.h"
#include "client/memory/staging.h"
#include "client/memory/submit.h"
#include "client/runtime/stream.h"

#define COUNTER_SIZE 16u

/* By aclrtRandomNumFuncType; they begin the union in this order. */
static const char *const parameter_names[][2] = {
    [ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK] = {"dropoutRation", NULL},
    [ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS] = {"min", "max"},
    [ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS] = {"mean", "stddev"},
    [ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS] = {"mean", "stddev"},
};
#define FUNCTIONS (sizeof(parameter_names) / sizeof(parameter_names[0]))

/* What a call has read, and where it writes. */
struct random_call {
    const char *function;
    const aclrtRandomNumTaskInfo *info;
    struct stream *stream;
    struct random_law law;
    struct random_source source;
    uint64_t count;
    uint64_t size; /* bytes of the result */
    struct place result, counter;
};

static const aclrtRandomParaInfo *parameters_of(const aclrtRandomNumTaskInfo *info)
{
    return &info->randomNumFuncParaInfo.paramInfo.uniformDisInfo.min;
}

/* --- checks that need no stream --- */

static int check_parameter(const char *function, const char *name, const aclrtRandomParaInfo *p,
                           unsigned size_min, unsigned size_max)
{
    if (p->isAddr > 1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: isAddr of %s is %u, must be 0 or 1",
                         function, name, p->isAddr);
    if (p->size < size_min || p->size > size_max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s has %u bytes, must have %u to %u",
                         function, name, p->size, size_min, size_max);
    return 0;
}

static int check_info(const char *function, const aclrtRandomNumTaskInfo *info)
{
    aclrtRandomNumFuncType law = info->randomNumFuncParaInfo.funcType;
    unsigned size = random_type_size(info->dataType);

    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: there are no random numbers of dataType %d",
                         function, (int)info->dataType);
    if (!info->randomResultAddr)
        return error_null(function, "randomResultAddr");
    if ((unsigned)law >= FUNCTIONS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: funcType is %d, must be 0 to %zu",
                         function, (int)law, FUNCTIONS - 1);
    if (law != ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS && !random_type_real(info->dataType))
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: funcType %d takes floating-point types, not dataType %d", function,
                         (int)law, (int)info->dataType);
    for (unsigned i = 0; i < 2 && parameter_names[law][i]; i++)
        RETURN_IF_ERROR(check_parameter(function, parameter_names[law][i], &parameters_of(info)[i],
                                        size, size));
    RETURN_IF_ERROR(check_parameter(function, "randomSeed", &info->randomSeed, 1, 8));
    return check_parameter(function, "randomNum", &info->randomNum, 1, 8);
}

/* --- parameters; the stream is locked --- */

/* The bytes, and zeros behind them. */
static int read_bytes(const struct random_call *call, const char *name,
                      const aclrtRandomParaInfo *p, uint64_t *bytes)
{
    struct session *s = call->stream->session;
    const void *from;
    struct place at;

    *bytes = 0;
    if (!p->isAddr) {
        memcpy(bytes, p->valueOrAddr, p->size);
        return 0;
    }
    memcpy(&from, p->valueOrAddr, sizeof(from));
    RETURN_IF_ERROR(
        place_find_device(s, call->function, call->stream->device, name, from, p->size, &at));
    return direct_read(s, call->function, &at, bytes, p->size);
}

static int read_value(const struct random_call *call, unsigned i, union random_value *value)
{
    aclDataType type = call->law.type;
    uint64_t bytes;

    RETURN_IF_ERROR(read_bytes(call, parameter_names[call->law.function][i],
                               &parameters_of(call->info)[i], &bytes));
    if (random_type_real(type))
        value->real = random_type_load(type, &bytes);
    else
        value->integer = type == ACL_INT32 ? (uint64_t)(int32_t)bytes : bytes;
    return 0;
}

/* Do the parameters make a distribution? */
static bool is_law(const struct random_law *law)
{
    if (law->function == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK)
        return law->a.real >= 0 && law->a.real <= 1;
    if (law->type == ACL_INT32 || law->type == ACL_INT64)
        return (int64_t)law->a.integer < (int64_t)law->b.integer;
    if (!random_type_real(law->type))
        return law->a.integer < law->b.integer;
    if (!isfinite(law->a.real) || !isfinite(law->b.real))
        return false;
    return law->function == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS ? law->a.real < law->b.real
                                                                    : law->b.real >= 0;
}

static int read_law(struct random_call *call)
{
    struct random_law *law = &call->law;

    law->function = call->info->randomNumFuncParaInfo.funcType;
    law->type = call->info->dataType;
    RETURN_IF_ERROR(read_value(call, 0, &law->a));
    if (parameter_names[law->function][1])
        RETURN_IF_ERROR(read_value(call, 1, &law->b));
    if (is_law(law))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: the parameters are no distribution: min must be below max, stddev not "
                     "below 0, dropoutRation from 0 to 1, and all of them finite",
                     call->function);
}

static int read_count(struct random_call *call)
{
    bool overflow;

    RETURN_IF_ERROR(read_bytes(call, "randomNum", &call->info->randomNum, &call->count));
    overflow = __builtin_mul_overflow(call->count, random_type_size(call->law.type), &call->size);
    if (call->law.function == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK)
        call->size = call->count / 8 + (call->count % 8 != 0);
    if (call->count != 0 && !overflow)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: randomNum is %llu", call->function,
                     (unsigned long long)call->count);
}

static int read_source(struct random_call *call)
{
    uint64_t seed;

    RETURN_IF_ERROR(read_bytes(call, "randomSeed", &call->info->randomSeed, &seed));
    call->source = random_source_of(seed);
    if (!call->info->randomCounterAddr)
        return 0;
    RETURN_IF_ERROR(place_find_device(call->stream->session, call->function, call->stream->device,
                                      "randomCounterAddr", call->info->randomCounterAddr,
                                      COUNTER_SIZE, &call->counter));
    return direct_read(call->stream->session, call->function, &call->counter, call->source.counter,
                       COUNTER_SIZE);
}

static bool reads_device(const aclrtRandomNumTaskInfo *info)
{
    const aclrtRandomParaInfo *p = parameters_of(info);
    bool second = parameter_names[info->randomNumFuncParaInfo.funcType][1] != NULL;

    return info->randomCounterAddr || info->randomSeed.isAddr || info->randomNum.isAddr ||
           p[0].isAddr || (second && p[1].isAddr);
}

/* --- the tasks --- */

static int submit_part(const struct random_call *call, const struct staging *b, uint64_t offset,
                       uint64_t size, const struct place *to)
{
    struct place from = copy_staged(b);
    struct place bytes = direct_own((const char *)from.address + offset);

    from.offset += offset;
    if (to->kind == PLACE_REGISTERED)
        return host_task_copy_taken(call->stream, call->function, to, &bytes, size);
    return submit_copy(call->stream, call->function, to, &from, size);
}

/* The numbers, and behind them the counter that the next call goes on with. */
static int submit_numbers(struct random_call *call)
{
    struct stream *s = call->stream;
    struct staging *b = FIND_OR_RETURN(staging_take, s, call->function, call->size + COUNTER_SIZE);
    char *data = copy_staged(b).address;
    int error;

    random_write(&call->law, &call->source, call->count, data);
    memcpy(data + call->size, call->source.counter, COUNTER_SIZE);
    error = submit_part(call, b, 0, call->size, &call->result);
    if (error == 0 && call->info->randomCounterAddr)
        error = submit_part(call, b, call->size, COUNTER_SIZE, &call->counter);
    b->ctrl = s->ctrl;
    b->position = s->tail;
    staging_add(s->session, b);
    return error;
}

static int run_call(struct random_call *call)
{
    struct stream *s = call->stream;

    /* They are made at the call, in a buffer that another copy gets when the stream has passed. */
    if (stream_captures(s))
        return capture_error_kind(call->function, "a task of random numbers");
    RETURN_IF_ERROR(reads_device(call->info) ? stream_drain(s, call->function)
                                             : stream_check(s, call->function));
    RETURN_IF_ERROR(read_law(call));
    RETURN_IF_ERROR(read_count(call));
    RETURN_IF_ERROR(read_source(call));
    RETURN_IF_ERROR(place_find_device(s->session, call->function, s->device, "randomResultAddr",
                                      call->info->randomResultAddr, call->size, &call->result));
    return submit_numbers(call);
}

aclError aclrtRandomNumAsync(const aclrtRandomNumTaskInfo *taskInfo, aclrtStream stream,
                             void *reserve)
{
    CALL_SCOPE;
    struct random_call call = {.function = __func__, .info = taskInfo};
    int error;

    REQUIRE(taskInfo);
    if (reserve)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: reserve must be NULL");
    RETURN_IF_ERROR(check_info(__func__, taskInfo));
    call.stream = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = run_call(&call);
    stream_unlock(call.stream);
    return error;
}
