/* Steps, and marks that tasks leave: points in the order of a stream. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/process.h"
#include "client/profile/profile.h"

#define TRACE_BYTES 18 /* of the record of aclrtProfTrace */

struct aclprofStepInfo {
    bool has[2]; /* by aclprofStepTag */
    uint64_t number;
    struct aclprofStepInfo *prev, *next;
};

static struct {
    pthread_mutex_t lock;
    struct aclprofStepInfo *all; /* those that are not destroyed */
    uint64_t begun;
} steps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __attribute__((constructor)) void know_lock(void)
{
    lock_order_know(&steps.lock, LOCK_STAMPS);
}

/* Locked. */
static bool is_step(const aclprofStepInfo *step)
{
    const struct aclprofStepInfo *known;

    DL_FOREACH (steps.all, known)
        if (known == step)
            return true;
    return false;
}

aclprofStepInfo *aclprofCreateStepInfo(void)
{
    CALL_SCOPE;
    struct aclprofStepInfo *step;

    if (process_enter() != 0)
        return NULL;
    step = calloc(1, sizeof(*step));
    if (!step) {
        error_no_memory(__func__);
        return NULL;
    }
    pthread_mutex_lock(&steps.lock);
    DL_APPEND(steps.all, step);
    pthread_mutex_unlock(&steps.lock);
    return step;
}

void aclprofDestroyStepInfo(aclprofStepInfo *stepInfo)
{
    CALL_SCOPE;
    bool known;

    pthread_mutex_lock(&steps.lock);
    known = is_step(stepInfo);
    if (known)
        DL_DELETE(steps.all, stepInfo);
    pthread_mutex_unlock(&steps.lock);
    if (known)
        free(stepInfo);
}

/* Under the lock: the tag counts from here on. *number: of the step. */
static int take_tag(const char *function, aclprofStepInfo *step, aclprofStepTag tag,
                    uint64_t *number)
{
    if (!is_step(step))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: this is no step of aclprofCreateStepInfo, or it was destroyed",
                         function);
    if (step->has[tag])
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the step has its %s already", function,
                         tag == ACL_STEP_START ? "start" : "end");
    step->has[tag] = true;
    if (tag == ACL_STEP_START)
        step->number = ++steps.begun;
    *number = step->number;
    return 0;
}

aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag, aclrtStream stream)
{
    CALL_SCOPE;
    uint64_t number;
    int error;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(stepInfo);
    REQUIRE(stream);
    if (tag != ACL_STEP_START && tag != ACL_STEP_END)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: tag is %d, and must be ACL_STEP_START (0) or ACL_STEP_END (1)",
                         __func__, (int)tag);
    pthread_mutex_lock(&steps.lock);
    error = take_tag(__func__, stepInfo, tag, &number);
    pthread_mutex_unlock(&steps.lock);
    if (error != 0 || atomic_load_explicit(&collecting.devices, memory_order_relaxed) == 0)
        return error;
    return profile_put_point(
        __func__, stream, tag == ACL_STEP_START ? POINT_STEP_BEGIN : POINT_STEP_END, number, NULL);
}

aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream)
{
    CALL_SCOPE;
    unsigned char record[TRACE_BYTES] = {0};
    uint64_t id, model;
    uint16_t tag;
    char text[96];

    RETURN_IF_ERROR(process_enter());
    REQUIRE(userdata);
    if (length < 1 || length > TRACE_BYTES)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: length is %d, and must be 1 to %d",
                         __func__, length, TRACE_BYTES);
    if (atomic_load_explicit(&collecting.devices, memory_order_relaxed) == 0)
        return 0;
    memcpy(record, userdata, (size_t)length);
    memcpy(&id, record, sizeof(id));
    memcpy(&model, record + 8, sizeof(model));
    memcpy(&tag, record + 16, sizeof(tag));
    snprintf(text, sizeof(text), "\"trace %llu of model %llu, tag %u\"", (unsigned long long)id,
             (unsigned long long)model, tag);
    return profile_put_point(__func__, stream, POINT_MARK, 0, text);
}

static void forget_steps(void)
{
    struct aclprofStepInfo *step, *next;

    DL_FOREACH_SAFE (steps.all, step, next)
        free(step);
    memset(&steps, 0, sizeof(steps));
    lock_init(&steps.lock, LOCK_STAMPS);
}

const struct part profile_step_part = {.fork_child = forget_steps};
