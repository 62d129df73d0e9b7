/* Kernels of a model that are exchanged by task groups, in the order of the updating stream. */
#include "expect.h"

#include <acl/acl_npud.h>
#include <acl/acl_npud_kernel.h>
#include <string.h>

#define TIMES 50

static aclrtStream stream, updates;
static uint64_t *device;

/* device[0] = device[0] * b + c */
static void multiply_add(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t *word = (uint64_t *)(uintptr_t)a;

    *word = *word * b + c;
}

static aclError launch(aclrtStream s, uint64_t b, uint64_t c)
{
    const uint64_t args[] = {(uintptr_t)device, b, c};
    const aclnpudKernel kernel = {.size = sizeof(kernel),
                                  .kind = ACL_KERNEL_TYPE_AICORE,
                                  .name = "multiply_add",
                                  .function = (const void *)(uintptr_t)multiply_add};

    return aclnpudLaunchKernel(&kernel, 1, args, sizeof(args), s);
}

static uint64_t word(void)
{
    uint64_t value;

    CALL(aclrtMemcpy(&value, sizeof(value), device, sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static void set_word(uint64_t value)
{
    CALL(aclrtMemcpy(device, sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
}

static aclmdlRI capture(aclrtTaskGrp *group, aclrtEvent before)
{
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(launch(stream, 10, 1));
    if (before) {
        CALL(aclrtStreamWaitEvent(stream, before));
        CALL(aclrtResetEvent(before, stream));
    }
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    CALL(launch(stream, 10, 2));
    CALL(launch(stream, 10, 3));
    CALL(aclmdlRICaptureTaskGrpEnd(stream, group));
    CALL(launch(stream, 10, 4));
    CALL(aclmdlRICaptureEnd(stream, &model));
    return model;
}

static void run(aclmdlRI model, uint64_t wanted)
{
    set_word(0);
    CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(word() == wanted);
}

static void update(aclrtTaskGrp group, uint64_t first, uint64_t second)
{
    CALL(aclmdlRICaptureTaskUpdateBegin(updates, group));
    CALL(launch(updates, 10, first));
    CALL(launch(updates, 10, second));
    CALL(aclmdlRICaptureTaskUpdateEnd(updates));
}

static void exchanged(void)
{
    aclrtTaskGrp group;
    aclmdlRI model = capture(&group, NULL);

    run(model, 1234);
    set_word(7);
    update(group, 8, 9);
    CALL(aclrtSynchronizeStream(updates));
    EXPECT(word() == 7); /* an update runs nothing */
    run(model, 1894);
    run(model, 1894);
    for (uint64_t i = 0; i < TIMES; i++) {
        update(group, i % 10, i / 10);
        CALL(aclrtSynchronizeStream(updates));
        run(model, 1004 + i % 10 * 100 + i / 10 * 10);
    }
    CALL(aclmdlRIDestroy(model));
}

/* The model waits in front of the group until the update is there. */
static void in_order(void)
{
    aclrtEvent ready;
    aclrtTaskGrp group;
    aclmdlRI model;

    CALL(aclrtCreateEventWithFlag(&ready, ACL_EVENT_EXTERNAL));
    model = capture(&group, ready);
    for (uint64_t i = 0; i < TIMES; i++) {
        set_word(0);
        CALL(aclmdlRIExecuteAsync(model, stream));
        update(group, i % 10, i / 10);
        CALL(aclrtRecordEvent(ready, updates));
        CALL(aclrtSynchronizeStream(stream));
        EXPECT(word() == 1004 + i % 10 * 100 + i / 10 * 10);
    }
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyEvent(ready));
}

static void refused(void)
{
    aclrtTaskGrp group, other;
    aclmdlRI model, found;

    FAILS(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskGrpBegin(stream));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpEnd(stream, &group));
    CALL(aclmdlRICaptureBegin(stream, 0));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpEnd(stream, &group));
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpBegin(stream));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureEnd(stream, &model));
    EXPECT(!model);
    /* something that is no kernel breaks it */
    CALL(aclmdlRICaptureBegin(stream, 0));
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    FAILS(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtMemsetAsync(device, 8, 0, 8, stream));
    FAILS(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclmdlRICaptureTaskGrpEnd(stream, &group));
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclmdlRIDestroy(model));
    /* windows */
    model = capture(&group, NULL);
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskUpdateBegin(updates, NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureTaskUpdateBegin(updates, model));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateEnd(updates));
    CALL(aclmdlRICaptureTaskUpdateBegin(updates, group));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(updates, group));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(stream, group));
    FAILS(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureBegin(updates, 0));
    FAILS(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtMemsetAsync(device, 8, 0, 8, updates));
    CALL(launch(updates, 10, 5));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRICaptureTaskUpdateEnd(updates));
    run(model, 1234);
    CALL(aclmdlRICaptureTaskUpdateBegin(updates, group));
    CALL(launch(updates, 10, 5));
    CALL(launch(updates, 10, 6));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, launch(updates, 10, 7));
    CALL(aclmdlRICaptureTaskUpdateEnd(updates));
    CALL(aclrtSynchronizeStream(updates));
    run(model, 1564);
    CALL(aclmdlRICaptureBegin(stream, 0));
    FAILS(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureTaskUpdateBegin(stream, group));
    CALL(aclmdlRICaptureGetInfo(stream, NULL, &found));
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    CALL(aclmdlRICaptureTaskGrpEnd(stream, &other));
    FAILS(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRICaptureTaskUpdateBegin(updates, other));
    CALL(aclmdlRICaptureEnd(stream, &found));
    CALL(aclmdlRIDestroy(found));
    CALL(aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureTaskUpdateBegin(updates, group));
    /* a stream that ends in its window */
    model = capture(&group, NULL);
    CALL(aclmdlRICaptureTaskUpdateBegin(updates, group));
    CALL(launch(updates, 10, 5));
    CALL(aclrtDestroyStream(updates));
    CALL(aclrtCreateStream(&updates));
    update(group, 0, 1);
    CALL(aclrtSynchronizeStream(updates));
    run(model, 1014);
    CALL(aclmdlRIDestroy(model));
}

static void expect_text(const char *path, const char *text, int times)
{
    static char all[1 << 16];
    FILE *file = fopen(path, "r");
    size_t n;

    EXPECT(file);
    n = fread(all, 1, sizeof(all) - 1, file);
    fclose(file);
    all[n] = '\0';
    for (const char *at = all; (at = strstr(at, text)); at++)
        times--;
    EXPECT(times == 0);
}

/* What tools say of tasks. */
static void said(void)
{
    char path[] = "/tmp/graph_groups_XXXXXX";
    aclmdlRI model;
    uint32_t id;

    EXPECT(mkstemp(path) >= 0);
    CALL(launch(stream, 1, 0));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtCacheLastTaskOpInfo(path, sizeof(path)));
    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtCacheLastTaskExtendInfo("early", 5));
    CALL(launch(stream, 10, 1));
    CALL(launch(stream, 10, 2));
    CALL(aclrtGetThreadLastTaskId(&id));
    EXPECT(id == 1);
    CALL(aclrtCacheLastTaskOpInfo(path, sizeof(path)));
    CALL(aclrtCacheLastTaskExtendInfo("replaced", 8));
    CALL(aclrtCacheLastTaskExtendInfo("shape 4x4, and more", 9));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCacheLastTaskExtendInfo(NULL, 5));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCacheLastTaskExtendInfo("none", 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCacheLastTaskOpInfo(NULL, 5));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCacheLastTaskOpInfo(path, 0));
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclmdlRIDebugJsonPrint(model, path, ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY));
    expect_text(path, "\"shape 4x4\"", 1);
    expect_text(path, "ExtendInfo", 1);
    CALL(launch(updates, 1, 0));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtCacheLastTaskExtendInfo("late", 4));
    CALL(aclrtSynchronizeDevice());
    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(launch(stream, 10, 1));
    CALL(aclmdlRIDestroy(model));
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtCacheLastTaskExtendInfo("ended", 5));
    unlink(path);
}

/* What a viewer shows of it. */
static void printed(void)
{
    char path[] = "/tmp/graph_groups_XXXXXX";
    aclrtTaskGrp group;
    aclmdlRI model = capture(&group, NULL);

    EXPECT(mkstemp(path) >= 0);
    CALL(aclmdlRIDebugJsonPrint(model, path, ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY));
    expect_text(path, "\"multiply_add\"", 4);
    expect_text(path, "aclGraph\"", 4);
    expect_text(path, "\"Numblocks\"", 4);
    expect_text(path, "\"Args\"", 0);
    CALL(aclmdlRIDebugJsonPrint(model, path, ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE));
    expect_text(path, "\"Args\"", 4);
    CALL(aclmdlRIDebugPrint(model));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIDebugJsonPrint(model, NULL, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRIDebugPrint(NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDebugJsonPrint(model, "/nowhere/at/all", 0));
    unlink(path);
    CALL(aclmdlRIDestroy(model));
}

int main(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtCreateStream(&updates));
    CALL(aclrtMalloc((void **)&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    exchanged();
    in_order();
    refused();
    printed();
    said();
    CALL(aclrtFree(device));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtDestroyStream(updates));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
