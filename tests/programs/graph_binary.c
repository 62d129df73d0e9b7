/*
 * Kernels of a binary in a model, whose arguments have placeholders: changed one by one, exchanged
 * by groups, and kept loaded.
 */
#include "binary_kit.h"

#include <stddef.h>

struct arguments {
    int32_t *x, *y, *z;
    uint32_t *tiling; /* filled in by the launch */
    uint32_t n, factor;
};

static aclrtBinHandle bin;
static aclrtFuncHandle add, add_mix;
static int32_t *x, *y, *z;

static struct arguments arguments(uint32_t factor)
{
    return (struct arguments){x, y, z, NULL, COUNT, factor};
}

static void launch(aclrtStream s, aclrtFuncHandle function, uint32_t factor)
{
    struct arguments a = arguments(factor);
    aclrtPlaceHolderInfo tiling = {offsetof(struct arguments, tiling),
                                   offsetof(struct arguments, n)};

    CALL(aclrtLaunchKernelWithHostArgs(function, 2, s, NULL, &a, sizeof(a), &tiling, 1));
    memset(&a, 0xff, sizeof(a)); /* they were copied */
}

/* Once more; z = x + y * factor */
static void run(aclmdlRI model, int32_t factor)
{
    CALL(aclrtMemset(z, COUNT * sizeof(*z), 0xff, COUNT * sizeof(*z)));
    CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtSynchronizeStream(stream));
    expect_vector(z, 1, 1 + 2 * factor);
}

static aclmdlRITask first_task(aclmdlRI model)
{
    aclrtStream branch;
    aclmdlRITask task;
    uint32_t n = 1;

    CALL(aclmdlRIGetStreams(model, &branch, &n));
    CALL(aclmdlRIGetTasksByStream(branch, &task, &n));
    return task;
}

static aclmdlRITaskParams params_of(aclmdlRITask task)
{
    aclmdlRITaskParams p;

    CALL(aclmdlRITaskGetParams(task, &p));
    EXPECT(p.type == ACL_MODEL_RI_TASK_KERNEL && p.kernelTaskParams.isHostArgs == 0);
    return p;
}

/* By a list of arguments with a buffer. */
static void launch_list(aclrtStream s, uint32_t factor)
{
    aclrtParamHandle param, tiling;
    aclrtArgsHandle list;
    uint32_t data[] = {COUNT, factor};
    void *buffer;

    CALL(aclrtKernelArgsInit(add, &list));
    CALL(aclrtKernelArgsAppend(list, &x, sizeof(x), &param));
    CALL(aclrtKernelArgsAppend(list, &y, sizeof(y), &param));
    CALL(aclrtKernelArgsAppend(list, &z, sizeof(z), &param));
    CALL(aclrtKernelArgsAppendPlaceHolder(list, &tiling));
    CALL(aclrtKernelArgsGetPlaceHolderBuffer(list, tiling, sizeof(data), &buffer));
    memcpy(buffer, data, sizeof(data));
    CALL(aclrtKernelArgsFinalize(list));
    CALL(aclrtLaunchKernelWithConfig(add, 2, s, NULL, list, NULL));
}

static void changed(aclmdlRI model)
{
    aclmdlRITask task = first_task(model);
    aclmdlRITaskParams p = params_of(task);
    unsigned char copy[256];
    struct arguments a;

    EXPECT(p.kernelTaskParams.funcHandle == add && p.kernelTaskParams.numBlocks == 2);
    EXPECT(p.kernelTaskParams.argsSize >= 40 && p.kernelTaskParams.argsSize <= sizeof(copy));
    /* What is shown has an address into itself: a copy gets one of its own. */
    memcpy(copy, p.kernelTaskParams.args, p.kernelTaskParams.argsSize);
    memcpy(&a.tiling, copy + offsetof(struct arguments, tiling), sizeof(a.tiling));
    EXPECT((unsigned char *)a.tiling > (unsigned char *)p.kernelTaskParams.args &&
           (unsigned char *)a.tiling <
               (unsigned char *)p.kernelTaskParams.args + p.kernelTaskParams.argsSize);
    for (uint32_t factor = 1; factor < 20; factor++) {
        p = params_of(task);
        memcpy(&a.tiling, (char *)p.kernelTaskParams.args + offsetof(struct arguments, tiling),
               sizeof(a.tiling));
        memcpy(copy, p.kernelTaskParams.args, p.kernelTaskParams.argsSize);
        memcpy(copy + ((char *)a.tiling - (char *)p.kernelTaskParams.args) + sizeof(uint32_t),
               &factor, sizeof(factor));
        p.kernelTaskParams.args = copy;
        p.kernelTaskParams.isHostArgs = 1;
        p.kernelTaskParams.funcHandle = factor % 2 ? add_mix : add;
        p.kernelTaskParams.numBlocks = 1 + factor % 2;
        CALL(aclmdlRITaskSetParams(task, &p));
        memset(copy, 0xff, sizeof(copy)); /* they were copied */
        run(model, factor == 1 ? 5 : (int32_t)factor - 1);
        CALL(aclmdlRIUpdate(model));
        run(model, (int32_t)factor);
    }
    p = params_of(task);
    EXPECT(p.kernelTaskParams.funcHandle == add_mix);
    p.kernelTaskParams.funcHandle = NULL;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &p));
}

/* Arguments of another size have no placeholders: the program has filled in what it needs. */
static void changed_size(aclmdlRI model)
{
    aclmdlRITask task = first_task(model);
    aclmdlRITaskParams p = params_of(task);
    uint32_t *tiling, data[] = {COUNT, 6};
    uint64_t words[4] = {(uintptr_t)x, (uintptr_t)y, (uintptr_t)z};

    CALL(aclrtMallocHost((void **)&tiling, sizeof(data)));
    memcpy(tiling, data, sizeof(data));
    words[3] = (uintptr_t)tiling;
    p.kernelTaskParams.args = words;
    p.kernelTaskParams.isHostArgs = 1;
    p.kernelTaskParams.argsSize = sizeof(words);
    CALL(aclmdlRITaskSetParams(task, &p));
    CALL(aclmdlRIUpdate(model));
    run(model, 6);
    CALL(aclrtFreeHost(tiling));
}

static void change(void (*launch_it)(aclrtStream s))
{
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch_it(stream);
    CALL(aclmdlRICaptureEnd(stream, &model));
    run(model, 5);
    changed(model);
    changed_size(model);
    CALL(aclmdlRIDestroy(model));
}

static void by_block(aclrtStream s)
{
    launch(s, add, 5);
}

static void by_list(aclrtStream s)
{
    launch_list(s, 5);
}

/* What an update window has exchanged can be changed, and the other way round. */
static void exchanged(void)
{
    aclrtStream updates = NULL;
    aclrtTaskGrp group;
    aclmdlRITaskParams p;
    aclmdlRI model;

    CALL(aclrtCreateStream(&updates));
    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclmdlRICaptureTaskGrpBegin(stream));
    launch(stream, add, 5);
    CALL(aclmdlRICaptureTaskGrpEnd(stream, &group));
    CALL(aclmdlRICaptureEnd(stream, &model));
    for (uint32_t factor = 6; factor < 10; factor++) {
        CALL(aclmdlRICaptureTaskUpdateBegin(updates, group));
        if (factor % 2)
            launch(updates, add_mix, factor);
        else
            launch_list(updates, factor);
        CALL(aclmdlRICaptureTaskUpdateEnd(updates));
        CALL(aclrtSynchronizeStream(updates));
        run(model, (int32_t)factor);
        p = params_of(first_task(model));
        p.kernelTaskParams.numBlocks = 1;
        CALL(aclmdlRITaskSetParams(first_task(model), &p));
        CALL(aclmdlRIUpdate(model));
        run(model, (int32_t)factor);
    }
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(updates));
}

/* --- by a task that reads which kernel it is --- */

static struct {
    uint64_t entry;
    uint32_t blocks;
} * choice; /* device memory */

static void choose(uint64_t entry, uint32_t blocks)
{
    CALL(aclrtMemcpy(&choice->entry, 8, &entry, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy(&choice->blocks, 4, &blocks, 4, ACL_MEMCPY_HOST_TO_DEVICE));
}

static aclrtTaskUpdateInfo update_info(void)
{
    aclrtTaskUpdateInfo info = {.id = ACL_RT_UPDATE_AIC_AIV_TASK};

    info.val.aicAivTaskAttr.binHandle = bin;
    info.val.aicAivTaskAttr.funcEntryAddr = &choice->entry;
    info.val.aicAivTaskAttr.blockDimAddr = &choice->blocks;
    return info;
}

static aclrtStream begin_model(aclmdlRI *model)
{
    aclrtStream s;

    CALL(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_PERSISTENT));
    CALL(aclmdlRIBuildBegin(model, 0));
    CALL(aclmdlRIBindStream(*model, s, ACL_MODEL_STREAM_FLAG_HEAD));
    return s;
}

static void end_model(aclmdlRI model, aclrtStream s)
{
    CALL(aclmdlRIEndTask(model, s));
    CALL(aclmdlRIBuildEnd(model, NULL));
}

static void refuse_updates(aclrtStream s, uint32_t task)
{
    aclrtTaskUpdateInfo info = update_info();

    FAILS(ACL_ERROR_INVALID_PARAM, aclrtTaskUpdateAsync(s, task, NULL, s));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task + 1, &info, s));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task - 1, &info, s));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(NULL, task, &info, s));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task, &info, NULL));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclrtTaskUpdateAsync(stream, task, &info, s));
    FAILS(ACL_ERROR_RT_STREAM_MODEL, aclrtTaskUpdateAsync(s, task, &info, stream));
    info.val.aicAivTaskAttr.blockDimAddr = &info;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task, &info, s));
    info.val.aicAivTaskAttr.blockDimAddr = NULL;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task, &info, s));
    info = (aclrtTaskUpdateInfo){.id = ACL_RT_UPDATE_RANDOM_TASK};
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task, &info, s));
    info.val.randomTaskAttr.size = sizeof(aclrtRandomNumTaskInfo);
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtTaskUpdateAsync(s, task, &info, s));
    info.id = 3;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtTaskUpdateAsync(s, task, &info, s));
}

/* A model updates the kernel of another one. */
static void updated(void)
{
    aclrtTaskUpdateInfo info = update_info();
    aclmdlRI model, updates;
    aclrtStream s = begin_model(&model), u = begin_model(&updates);
    uint32_t task;

    CALL(aclrtMemsetAsync(z, 4, 0, 4, s));
    launch(s, add, 5);
    CALL(aclrtGetThreadLastTaskId(&task));
    refuse_updates(s, task);
    CALL(aclrtTaskUpdateAsync(s, task, &info, u));
    end_model(updates, u);
    choose(90, 3);
    FAILS(ACL_ERROR_RT_MODEL_EXECUTE, aclmdlRIExecute(updates, -1)); /* the other is not built */
    end_model(model, s);
    run(model, 5);
    CALL(aclmdlRIExecute(updates, -1));
    run(model, -5);
    choose(78, 1);
    run(model, -5);
    CALL(aclmdlRIExecute(updates, -1));
    run(model, 5);
    choose(1000, 1);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIExecute(updates, -1));
    choose(90, 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIExecute(updates, -1));
    run(model, 5);
    CALL(aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecute(updates, -1));
    CALL(aclmdlRIDestroy(updates));
    CALL(aclrtDestroyStream(s));
    CALL(aclrtDestroyStream(u));
}

/* A model updates its own kernel, for the next execution. */
static void updated_by_itself(void)
{
    aclrtTaskUpdateInfo info = update_info();
    aclmdlRI model;
    aclrtStream s = begin_model(&model);
    uint32_t task;

    launch(s, add, 4);
    CALL(aclrtGetThreadLastTaskId(&task));
    CALL(aclrtTaskUpdateAsync(s, task, &info, s));
    end_model(model, s);
    for (int i = 0; i < 100; i++) {
        choose(i % 2 ? 78 : 90, 1 + (uint32_t)i % 4);
        run(model, i % 2 ? -4 : 4);
    }
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtDestroyStream(s));
}

/* A binary that is unloaded stays for the model. */
static void unloaded(void)
{
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch(stream, add, 7);
    CALL(aclmdlRICaptureEnd(stream, &model));
    CALL(aclrtBinaryUnLoad(bin));
    for (int i = 0; i < 3; i++)
        run(model, 7);
    CALL(aclmdlRIDestroy(model));
}

int main(void)
{
    set_up();
    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &bin));
    CALL(aclrtBinaryGetFunction(bin, "add", &add));
    CALL(aclrtBinaryGetFunction(bin, "add_mix", &add_mix));
    x = vector_new(1, 1);
    y = vector_new(0, 2);
    z = vector_new(0, 0);
    change(by_block);
    change(by_list);
    exchanged();
    CALL(aclrtMalloc((void **)&choice, sizeof(*choice), ACL_MEM_MALLOC_HUGE_FIRST));
    updated();
    updated_by_itself();
    CALL(aclrtFree(choice));
    unloaded();
    CALL(aclrtFree(x));
    CALL(aclrtFree(y));
    CALL(aclrtFree(z));
    return tear_down();
}
