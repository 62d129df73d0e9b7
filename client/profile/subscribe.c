/*
 * Subscriptions to the operators of a model. npud executes no models of the graph engine: none can
 * be subscribed to, and no record of one can come out of a pipe.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/process.h"

/* Bytes of a record: what programs make their buffers of. */
#define RECORD_BYTES 512

struct aclprofSubscribeConfig {
    bool times;
    aclprofAicoreMetrics metrics;
    const int *fd;
    struct aclprofSubscribeConfig *prev, *next;
};

static struct {
    pthread_mutex_t lock;
    struct aclprofSubscribeConfig *all; /* those that are not destroyed */
} subscriptions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __attribute__((constructor)) void know_lock(void)
{
    lock_order_know(&subscriptions.lock, LOCK_STAMPS);
}

/* Locked. */
static bool is_config(const aclprofSubscribeConfig *config)
{
    const struct aclprofSubscribeConfig *known;

    DL_FOREACH (subscriptions.all, known)
        if (known == config)
            return true;
    return false;
}

static int error_config(const char *function)
{
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: this is no configuration of aclprofCreateSubscribeConfig, or it was "
                     "destroyed",
                     function);
}

aclprofSubscribeConfig *aclprofCreateSubscribeConfig(int8_t timeInfoSwitch,
                                                     aclprofAicoreMetrics aicoreMetrics, void *fd)
{
    CALL_SCOPE;
    struct aclprofSubscribeConfig *c;

    if (process_enter() != 0)
        return NULL;
    c = malloc(sizeof(*c));
    if (!c) {
        error_no_memory(__func__);
        return NULL;
    }
    *c = (struct aclprofSubscribeConfig){
        .times = timeInfoSwitch != 0, .metrics = aicoreMetrics, .fd = fd};
    pthread_mutex_lock(&subscriptions.lock);
    DL_APPEND(subscriptions.all, c);
    pthread_mutex_unlock(&subscriptions.lock);
    return c;
}

aclError aclprofDestroySubscribeConfig(const aclprofSubscribeConfig *profSubscribeConfig)
{
    CALL_SCOPE;
    aclprofSubscribeConfig *c = (aclprofSubscribeConfig *)(uintptr_t)profSubscribeConfig;
    bool known;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profSubscribeConfig);
    pthread_mutex_lock(&subscriptions.lock);
    known = is_config(c);
    if (known)
        DL_DELETE(subscriptions.all, c);
    pthread_mutex_unlock(&subscriptions.lock);
    if (!known)
        return error_config(__func__);
    free(c);
    return 0;
}

static int error_model(const char *function, uint32_t model)
{
    return error_set(ACL_ERROR_INVALID_MODEL_ID,
                     "%s: there is no model %u: npud executes none of the graph engine", function,
                     model);
}

aclError aclprofModelSubscribe(uint32_t modelId, const aclprofSubscribeConfig *profSubscribeConfig)
{
    CALL_SCOPE;
    struct aclprofSubscribeConfig c = {0};
    bool known;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profSubscribeConfig);
    pthread_mutex_lock(&subscriptions.lock);
    known = is_config(profSubscribeConfig);
    if (known)
        c = *profSubscribeConfig;
    pthread_mutex_unlock(&subscriptions.lock);
    if (!known)
        return error_config(__func__);
    if (!c.fd)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the configuration has no descriptor of a pipe", __func__);
    if (!c.times && c.metrics == ACL_AICORE_NONE)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the configuration asks for nothing: neither times nor metrics",
                         __func__);
    return error_model(__func__, modelId);
}

aclError aclprofModelUnSubscribe(uint32_t modelId)
{
    CALL_SCOPE;

    RETURN_IF_ERROR(process_enter());
    return error_model(__func__, modelId);
}

/* --- records --- */

aclError aclprofGetOpDescSize(size_t *opDescSize)
{
    CALL_SCOPE;

    REQUIRE(opDescSize);
    *opDescSize = RECORD_BYTES;
    return 0;
}

/* What is there came from elsewhere, whatever it is. */
static int error_record(const char *function, const void *info, size_t size)
{
    if (!info)
        return error_null(function, "opInfo");
    if (size == 0 || size % RECORD_BYTES != 0)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: opInfoLen is %zu, and must be a multiple of %d: of "
                         "aclprofGetOpDescSize",
                         function, size, RECORD_BYTES);
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: the buffer has no records: npud writes none, because it executes no "
                     "models of the graph engine",
                     function);
}

aclError aclprofGetOpNum(const void *opInfo, size_t opInfoLen, uint32_t *opNumber)
{
    CALL_SCOPE;

    REQUIRE(opNumber);
    return error_record(__func__, opInfo, opInfoLen);
}

aclError aclprofGetOpTypeLen(const void *opInfo, size_t opInfoLen, uint32_t index,
                             size_t *opTypeLen)
{
    CALL_SCOPE;

    (void)index;
    REQUIRE(opTypeLen);
    return error_record(__func__, opInfo, opInfoLen);
}

aclError aclprofGetOpType(const void *opInfo, size_t opInfoLen, uint32_t index, char *opType,
                          size_t opTypeLen)
{
    CALL_SCOPE;

    (void)index, (void)opTypeLen;
    REQUIRE(opType);
    return error_record(__func__, opInfo, opInfoLen);
}

aclError aclprofGetOpNameLen(const void *opInfo, size_t opInfoLen, uint32_t index,
                             size_t *opNameLen)
{
    CALL_SCOPE;

    (void)index;
    REQUIRE(opNameLen);
    return error_record(__func__, opInfo, opInfoLen);
}

aclError aclprofGetOpName(const void *opInfo, size_t opInfoLen, uint32_t index, char *opName,
                          size_t opNameLen)
{
    CALL_SCOPE;

    (void)index, (void)opNameLen;
    REQUIRE(opName);
    return error_record(__func__, opInfo, opInfoLen);
}

uint64_t aclprofGetOpStart(const void *opInfo, size_t opInfoLen, uint32_t index)
{
    CALL_SCOPE;

    (void)index;
    error_record(__func__, opInfo, opInfoLen);
    return 0;
}

uint64_t aclprofGetOpEnd(const void *opInfo, size_t opInfoLen, uint32_t index)
{
    CALL_SCOPE;

    (void)index;
    error_record(__func__, opInfo, opInfoLen);
    return 0;
}

uint64_t aclprofGetOpDuration(const void *opInfo, size_t opInfoLen, uint32_t index)
{
    CALL_SCOPE;

    (void)index;
    error_record(__func__, opInfo, opInfoLen);
    return 0;
}

size_t aclprofGetModelId(const void *opInfo, size_t opInfoLen, uint32_t index)
{
    CALL_SCOPE;

    (void)index;
    return (size_t)error_record(__func__, opInfo, opInfoLen);
}

aclprofSubscribeOpFlag aclprofGetOpFlag(const void *opInfo, size_t opInfoLen, uint32_t index)
{
    CALL_SCOPE;

    (void)index;
    error_record(__func__, opInfo, opInfoLen);
    return ACL_SUBSCRIBE_NONE;
}

const char *aclprofGetOpAttriValue(const void *opInfo, size_t opInfoLen, uint32_t index,
                                   aclprofSubscribeOpAttri attri)
{
    CALL_SCOPE;

    (void)index, (void)attri;
    error_record(__func__, opInfo, opInfoLen);
    return NULL;
}

static void forget_configs(void)
{
    struct aclprofSubscribeConfig *c, *next;

    DL_FOREACH_SAFE (subscriptions.all, c, next)
        free(c);
    memset(&subscriptions, 0, sizeof(subscriptions));
    lock_init(&subscriptions.lock, LOCK_STAMPS);
}

const struct part profile_subscribe_part = {.fork_child = forget_configs};
