#include "daemon/executor/acl_lane.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/executor/acl_api.h"
#include "daemon/executor/acl_report.h"
#include "proto/util/clock.h"

/* Lanes have one priority: npud decides in which order it gives work out. */
#define PRIORITY 0u

struct vendor_lane {
    struct vendor_library *library;
    uint32_t device;
    aclrtStream stream;
    aclrtContext context; /* of the stream: the library refuses it in another one */
    bool own_context;     /* it is the lane's alone */
    bool served;          /* acl_report_serve() */
};

#define ADDRESS(number) ((void *)(uintptr_t)(number))

/* --- make and end --- */

static int32_t new_stream(struct vendor_library *l, aclrtStream *stream)
{
    if (ACL_HAS(l, aclrtCreateStreamWithConfig))
        return ACL_CALL(l, aclrtCreateStreamWithConfig, stream, PRIORITY, 0);
    return ACL_CALL(l, aclrtCreateStream, stream);
}

int32_t acl_lane_new(struct vendor_library *l, uint32_t device, struct vendor_lane **lane)
{
    struct vendor_lane *n = calloc(1, sizeof(*n));
    int32_t code;

    *lane = NULL;
    if (!n) {
        vendor_set_text("out of memory on the host");
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    n->library = l;
    n->device = device;
    code = ACL_CALL(l, aclrtGetCurrentContext, &n->context);
    if (code == 0)
        code = new_stream(l, &n->stream);
    if (code != 0) {
        free(n);
        return code;
    }
    *lane = n;
    return 0;
}

/* The calling thread works in the lane's context from now on. */
static int32_t enter(struct vendor_lane *lane)
{
    return ACL_CALL(lane->library, aclrtSetCurrentContext, lane->context);
}

static void end_stream(struct vendor_lane *lane)
{
    struct vendor_library *l = lane->library;

    if (!lane->stream)
        return;
    if (lane->served)
        acl_report_leave(l, lane->device, lane->stream);
    lane->served = false;
    if (ACL_HAS(l, aclrtDestroyStreamForce))
        l->call.aclrtDestroyStreamForce(lane->stream);
    else
        l->call.aclrtDestroyStream(lane->stream);
    lane->stream = NULL;
}

void acl_lane_free(struct vendor_lane *lane)
{
    enter(lane);
    end_stream(lane);
    if (lane->own_context && ACL_HAS(lane->library, aclrtDestroyContext)) {
        lane->library->call.aclrtDestroyContext(lane->context);
        /* The thread has none now. */
        lane->library->call.aclrtSetDevice((int32_t)lane->device);
    }
    free(lane);
}

/*
 * One stream that stops stops all of its context, which can only be given up then: so it has one of
 * its own.
 */
int32_t acl_lane_stop(struct vendor_lane *lane)
{
    struct vendor_library *l = lane->library;
    aclrtContext context = NULL;
    aclrtStream stream = NULL;
    int32_t code;

    if (lane->own_context)
        return 0;
    if (!ACL_HAS(l, aclrtSetStreamFailureMode) || !ACL_HAS(l, aclrtDestroyContext))
        return acl_lacks("aclrtSetStreamFailureMode");
    code = ACL_CALL(l, aclrtCreateContext, &context, (int32_t)lane->device);
    if (code != 0)
        return code;
    code = new_stream(l, &stream);
    if (code == 0)
        code = ACL_CALL(l, aclrtSetStreamFailureMode, stream, ACL_STOP_ON_FAILURE);
    if (code != 0) {
        l->call.aclrtDestroyContext(context); /* with the stream, if there is one */
        enter(lane);
        return code;
    }
    enter(lane);
    end_stream(lane);
    lane->stream = stream;
    lane->context = context;
    lane->own_context = true;
    return enter(lane);
}

/* --- wait --- */

/* Codes with which a library says that it has lost the device, or what drives it. */
static bool is_gone(int32_t code)
{
    return code == ACL_ERROR_RT_LOST_HEARTBEAT || code == ACL_ERROR_RT_SOCKET_CLOSE;
}

/*
 * A library tells an error once, and the stream can be used again. If it still has one to tell
 * after that, the stream is stopped, or the device is lost.
 */
int32_t acl_lane_sync(struct vendor_lane **lane)
{
    struct vendor_lane *n = *lane;
    struct vendor_library *l = n->library;
    int32_t code = enter(n);

    if (code == 0)
        code = ACL_CALL(l, aclrtSynchronizeStream, n->stream);
    if (code == 0 || l->call.aclrtSynchronizeStream(n->stream) == ACL_SUCCESS)
        return code;
    if (is_gone(code)) {
        code = ACL_ERROR_RT_LOST_HEARTBEAT; /* the other one is of this library and its npud */
        atomic_store(&l->device[n->device].gone, code);
    }
    acl_lane_free(n);
    *lane = NULL;
    return code;
}

int32_t acl_lane_abort(struct vendor_lane *lane)
{
    const int32_t code = enter(lane);

    return code != 0 ? code : ACL_CALL(lane->library, aclrtStreamAbort, lane->stream);
}

int32_t acl_lane_call(struct vendor_lane *lane, void (*run)(void *arg), void *arg)
{
    struct vendor_library *l = lane->library;
    int32_t code = enter(lane);

    if (code == 0 && !lane->served) {
        code = acl_report_serve(l, lane->device, lane->context, lane->stream);
        lane->served = code == 0;
    }
    return code != 0
               ? code
               : ACL_CALL(l, aclrtLaunchCallback, run, arg, ACL_CALLBACK_NO_BLOCK, lane->stream);
}

/* --- work --- */

int32_t acl_copy(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                 enum vendor_way way)
{
    static const aclrtMemcpyKind kinds[] = {
        [VENDOR_TO_DEVICE] = ACL_MEMCPY_HOST_TO_DEVICE,
        [VENDOR_TO_HOST] = ACL_MEMCPY_DEVICE_TO_HOST,
        [VENDOR_ON_DEVICE] = ACL_MEMCPY_DEVICE_TO_DEVICE,
    };
    const int32_t code = enter(lane);

    return code != 0 ? code
                     : ACL_CALL(lane->library, aclrtMemcpyAsync, ADDRESS(dst), size, ADDRESS(src),
                                size, kinds[way], lane->stream);
}

int32_t acl_set(struct vendor_lane *lane, uint64_t dst, uint8_t value, uint64_t size)
{
    const int32_t code = enter(lane);

    return code != 0 ? code
                     : ACL_CALL(lane->library, aclrtMemsetAsync, ADDRESS(dst), size, value, size,
                                lane->stream);
}

int32_t acl_reduce(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                   uint8_t kind, uint8_t type)
{
    const int32_t code = enter(lane);

    return code != 0 ? code
                     : ACL_CALL(lane->library, aclrtReduceAsync, ADDRESS(dst), ADDRESS(src), size,
                                (aclrtReduceKind)kind, (aclDataType)type, lane->stream, NULL);
}

int32_t acl_word_write(struct vendor_lane *lane, uint64_t dst, uint64_t value)
{
    const int32_t code = enter(lane);

    return code != 0
               ? code
               : ACL_CALL(lane->library, aclrtValueWrite, ADDRESS(dst), value, 0, lane->stream);
}

int32_t acl_word_wait(struct vendor_lane *lane, uint64_t src, uint64_t value)
{
    const int32_t code = enter(lane);

    return code != 0 ? code
                     : ACL_CALL(lane->library, aclrtValueWait, ADDRESS(src), value,
                                ACL_STREAM_WAIT_VALUE_GEQ, lane->stream);
}

/* --- kernels --- */

int32_t acl_binary_load(struct vendor_library *l, uint32_t device, const void *file, uint64_t size,
                        uint32_t magic, void **binary)
{
    aclrtBinaryLoadOption option = {.type = ACL_RT_BINARY_LOAD_OPT_MAGIC, .value.magic = magic};
    aclrtBinaryLoadOptions options = {.options = &option, .numOpt = 1};

    (void)device; /* the code goes to the device where a function of it is first looked up */
    return ACL_CALL(l, aclrtBinaryLoadFromData, file, size, magic ? &options : NULL, binary);
}

void acl_binary_free(struct vendor_library *l, void *binary)
{
    if (ACL_HAS(l, aclrtBinaryUnLoad))
        l->call.aclrtBinaryUnLoad(binary);
}

int32_t acl_function(struct vendor_library *l, void *binary, const char *name, void **function)
{
    return ACL_CALL(l, aclrtBinaryGetFunction, binary, name, function);
}

/* What is not as it is by default. */
static void add_attributes(const struct vendor_launch *launch, aclrtLaunchKernelCfg *cfg)
{
    uint64_t us = (launch->limit_ns + NSEC_PER_USEC - 1) / NSEC_PER_USEC;
    aclrtLaunchKernelAttr *next = cfg->attrs;

    if (launch->batch)
        *next++ = (aclrtLaunchKernelAttr){ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, {.schemMode = 1}};
    if (launch->shared_bytes > 0)
        *next++ = (aclrtLaunchKernelAttr){ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE,
                                          {.dynUBufSize = launch->shared_bytes}};
    if (us > 0)
        *next++ = (aclrtLaunchKernelAttr){ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US,
                                          {.timeoutUs = {(uint32_t)us, (uint32_t)(us >> 32)}}};
    cfg->numAttrs = (size_t)(next - cfg->attrs);
}

static int32_t launch_function(struct vendor_lane *lane, void *function,
                               const struct vendor_launch *launch)
{
    static uint64_t nothing; /* the library takes no launch without arguments */
    aclrtLaunchKernelAttr attributes[3];
    aclrtLaunchKernelCfg cfg = {.attrs = attributes};
    void *arguments = launch->bytes > 0 ? (void *)(uintptr_t)launch->arguments : &nothing;
    size_t size = launch->bytes > 0 ? launch->bytes : sizeof(nothing);
    aclrtPlaceHolderInfo *places = NULL;
    int32_t code;

    if (launch->n_placeholders > 0)
        places = calloc(launch->n_placeholders, sizeof(*places));
    if (launch->n_placeholders > 0 && !places)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    for (uint32_t i = 0; i < launch->n_placeholders; i++)
        places[i] = (aclrtPlaceHolderInfo){.addrOffset = launch->placeholders[i].address,
                                           .dataOffset = launch->placeholders[i].data};
    add_attributes(launch, &cfg);
    code = ACL_CALL(lane->library, aclrtLaunchKernelWithHostArgs, function, launch->blocks[0],
                    lane->stream, cfg.numAttrs > 0 ? &cfg : NULL, arguments, size, places,
                    launch->n_placeholders);
    free(places);
    return code;
}

/* A launch has a number of blocks, and no more. */
int32_t acl_launch(struct vendor_lane *lane, void *function, const struct vendor_launch *launch)
{
    static const uint32_t one[3] = {1, 1, 1};
    int32_t code;

    if (memcmp(launch->threads, one, sizeof(one)) != 0 || launch->blocks[1] != 1 ||
        launch->blocks[2] != 1) {
        vendor_set_text("kernels are launched with a number of blocks in one dimension");
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    code = enter(lane);
    return code != 0 ? code : launch_function(lane, function, launch);
}
