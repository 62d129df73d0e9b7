/* The tasks of a model, looked at and changed one by one. */
#include "expect.h"

#include <acl/acl_npud_kernel.h>
#include <string.h>

#define TASKS 8

static aclrtStream s1, s2;
static uint64_t *words;

static uint64_t sum; /* of what the kernels were given */

static void add(uint64_t a)
{
    __atomic_fetch_add(&sum, a, __ATOMIC_RELAXED);
}

static uint64_t get(unsigned i)
{
    uint64_t value;

    CALL(aclrtMemcpy(&value, sizeof(value), &words[i], sizeof(value), ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

static aclmdlRI capture(aclrtEvent *e, aclrtEvent *e2)
{
    const uint64_t args[] = {5};
    const aclnpudKernel kernel = {.size = sizeof(kernel),
                                  .kind = ACL_KERNEL_TYPE_AICORE,
                                  .name = "add",
                                  .function = (const void *)(uintptr_t)add};
    aclmdlRI model;

    CALL(aclrtCreateEventExWithFlag(e, ACL_EVENT_SYNC));
    CALL(aclrtCreateEventExWithFlag(e2, ACL_EVENT_SYNC));
    CALL(aclmdlRICaptureBegin(s1, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CALL(aclrtValueWrite(&words[0], 7, 0, s1));
    CALL(aclrtRecordEvent(*e, s1));
    CALL(aclrtStreamWaitEvent(s2, *e));
    CALL(aclrtValueWait(&words[0], 7, ACL_STREAM_WAIT_VALUE_EQ, s2));
    CALL(aclrtMemsetAsync(&words[1], 8, 1, 8, s2));
    CALL(aclrtRecordEvent(*e2, s2));
    CALL(aclrtStreamWaitEvent(s1, *e2));
    CALL(aclnpudLaunchKernel(&kernel, 3, args, sizeof(args), s1));
    CALL(aclrtValueWrite(&words[2], 9, 0, s1));
    CALL(aclmdlRICaptureEnd(s1, &model));
    return model;
}

/* The first word of the arguments. */
static uint64_t word_of(const aclmdlRIKernelTaskParams *p)
{
    uint64_t word = 0;

    EXPECT(p->isHostArgs == 0);
    CALL(aclrtMemcpy(&word, sizeof(word), p->args, sizeof(word), ACL_MEMCPY_DEVICE_TO_HOST));
    return word;
}

static aclmdlRITaskType type_of(aclmdlRITask task)
{
    aclmdlRITaskType type;

    CALL(aclmdlRITaskGetType(task, &type));
    return type;
}

static void run_kernel(aclmdlRI model, uint64_t wanted)
{
    sum = 0;
    CALL(aclmdlRIExecuteAsync(model, s1));
    CALL(aclrtSynchronizeStream(s1));
    EXPECT(__atomic_load_n(&sum, __ATOMIC_RELAXED) == wanted);
}

/* A kernel is another one from the next update on. */
static void change_kernel(aclmdlRI model, aclmdlRITask task)
{
    aclrtLaunchKernelAttr attr = {.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US,
                                  .value.timeoutUs.timeoutLow = 2500000};
    aclrtLaunchKernelCfg cfg = {&attr, 1};
    aclrtLaunchKernelAttrValue value;
    aclmdlRITaskParams p, wrong;
    uint64_t word = 1;

    run_kernel(model, 15);
    CALL(aclmdlRITaskGetParams(task, &p));
    p.kernelTaskParams.numBlocks = 4; /* its arguments are those of the kernel that goes */
    CALL(aclmdlRITaskSetParams(task, &p));
    run_kernel(model, 15);
    CALL(aclmdlRITaskGetParams(task, &p));
    EXPECT(p.kernelTaskParams.numBlocks == 4 && word_of(&p.kernelTaskParams) == 5);
    CALL(aclmdlRITaskSetParams(task, &p));
    CALL(aclmdlRIUpdate(model));
    run_kernel(model, 20);
    p.kernelTaskParams.isHostArgs = 1;
    for (uint64_t i = 0; i < 100; i++) {
        p.kernelTaskParams.args = &i;
        p.kernelTaskParams.cfg = &cfg;
        CALL(aclmdlRITaskSetParams(task, &p)); /* the one before it goes unused */
        i++;
        CALL(aclmdlRITaskSetParams(task, &p));
        CALL(aclmdlRIUpdate(model));
        run_kernel(model, 4 * i);
    }
    CALL(aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US, &value));
    EXPECT(value.timeoutUs.timeoutLow == 2500000 && value.timeoutUs.timeoutHigh == 0);
    CALL(aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, &value));
    EXPECT(value.timeout == 3);
    CALL(aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE, &value));
    EXPECT(value.schemMode == 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE, &value));
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclmdlRIKernelTaskGetAttribute(task, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, NULL));
    /* arguments that are read when the kernel begins */
    p.kernelTaskParams.isHostArgs = 0;
    p.kernelTaskParams.args = &words[5];
    CALL(aclmdlRITaskSetParams(task, &p));
    CALL(aclmdlRIUpdate(model));
    CALL(aclrtMemset(&words[5], 8, 1, 8));
    run_kernel(model, 4 * 0x0101010101010101u);
    CALL(aclrtMemset(&words[5], 8, 2, 8));
    run_kernel(model, 4 * 0x0202020202020202u);
    CALL(aclmdlRITaskGetParams(task, &p));
    EXPECT(p.kernelTaskParams.args == &words[5] && p.kernelTaskParams.isHostArgs == 0);
    wrong = p;
    wrong.kernelTaskParams.args = &word;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.kernelTaskParams.args = NULL;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.kernelTaskParams.argsSize = 0;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.kernelTaskParams.numBlocks = 0;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.taskGrp = &wrong;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.type = ACL_MODEL_RI_TASK_VALUE_WRITE;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(task, &wrong));
    wrong = p;
    wrong.kernelTaskParams.funcHandle = task;
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRITaskSetParams(task, &wrong));
    CALL(aclmdlRITaskSetParams(task, &p)); /* stays without an update */
}

static void look(aclmdlRI model, aclrtEvent e, aclmdlRITask *first, aclmdlRITask *second)
{
    aclrtStream streams[3];
    aclmdlRITaskParams p;
    aclmdlRITaskType type;
    int32_t number, of[2];
    uint32_t n = 0, id;

    CALL(aclmdlRIGetStreams(model, NULL, &n));
    EXPECT(n == 2);
    n = 1;
    FAILS(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, aclmdlRIGetStreams(model, streams, &n));
    EXPECT(n == 2);
    n = 3;
    CALL(aclmdlRIGetStreams(model, streams, &n));
    EXPECT(n == 2 && streams[0] && streams[1] && !streams[2]);
    CALL(aclrtStreamGetId(s1, &of[0]));
    CALL(aclrtStreamGetId(s2, &of[1]));
    for (int i = 0; i < 2; i++) {
        CALL(aclrtStreamGetId(streams[i], &number));
        EXPECT(number == of[i]);
    }
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamGetPriority(streams[0], &id));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIGetTasksByStream(s1, NULL, &n));
    CALL(aclmdlRIGetTasksByStream(streams[0], NULL, &n));
    EXPECT(n == 5);
    n = TASKS;
    CALL(aclmdlRIGetTasksByStream(streams[0], first, &n));
    EXPECT(n == 5 && !first[5]);
    n = TASKS;
    CALL(aclmdlRIGetTasksByStream(streams[1], second, &n));
    EXPECT(n == 4);
    EXPECT(type_of(first[0]) == ACL_MODEL_RI_TASK_VALUE_WRITE &&
           type_of(first[1]) == ACL_MODEL_RI_TASK_EVENT_RECORD &&
           type_of(first[2]) == ACL_MODEL_RI_TASK_EVENT_WAIT &&
           type_of(first[3]) == ACL_MODEL_RI_TASK_KERNEL &&
           type_of(second[1]) == ACL_MODEL_RI_TASK_VALUE_WAIT &&
           type_of(second[2]) == ACL_MODEL_RI_TASK_DEFAULT);
    CALL(aclmdlRITaskGetSeqId(first[0], &id));
    EXPECT(id == 0);
    CALL(aclmdlRITaskGetSeqId(first[4], &id));
    EXPECT(id == 8);
    CALL(aclmdlRITaskGetParams(first[1], &p));
    EXPECT(p.eventRecordTaskParams.event == e &&
           p.eventRecordTaskParams.eventFlag == ACL_EVENT_SYNC);
    CALL(aclmdlRITaskGetParams(first[3], &p));
    EXPECT(p.kernelTaskParams.numBlocks == 3 && p.kernelTaskParams.argsSize == 8 &&
           word_of(&p.kernelTaskParams) == 5);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskGetParams(second[2], &p));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskDisable(second[2]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskGetType(&p, &type));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRITaskGetType(NULL, &type));
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlRITaskGetType(first[0], NULL));
    CALL(aclmdlRITaskGetParams(first[4], &p));
    EXPECT(p.type == ACL_MODEL_RI_TASK_VALUE_WRITE && p.valueWriteTaskParams.devAddr == &words[2] &&
           p.valueWriteTaskParams.value == 9);
}

static void change(aclmdlRI model, aclmdlRITask *first, aclmdlRITask *second)
{
    aclrtLaunchKernelAttrValue value;
    aclmdlRITaskParams p;

    CALL(aclmdlRITaskGetParams(first[4], &p));
    CALL(aclmdlRIExecuteAsync(model, s1));
    CALL(aclrtSynchronizeStream(s1));
    EXPECT(get(0) == 7 && get(2) == 9);
    /* another value at another place: from the update on */
    p.valueWriteTaskParams.devAddr = &words[3];
    p.valueWriteTaskParams.value = 11;
    CALL(aclmdlRITaskSetParams(first[4], &p));
    CALL(aclmdlRIExecuteAsync(model, s1));
    CALL(aclrtSynchronizeStream(s1));
    EXPECT(get(3) == 0);
    CALL(aclmdlRIUpdate(model));
    CALL(aclmdlRIUpdate(model));
    CALL(aclmdlRIExecuteAsync(model, s1));
    CALL(aclrtSynchronizeStream(s1));
    EXPECT(get(3) == 11);
    p.type = ACL_MODEL_RI_TASK_VALUE_WAIT;
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskSetParams(first[4], &p));
    /* without the write there is nothing to wait for */
    CALL(aclmdlRITaskDisable(first[0]));
    CALL(aclmdlRITaskDisable(second[1]));
    CALL(aclmdlRIUpdate(model));
    CALL(aclrtMemset(words, 64, 0, 64));
    CALL(aclmdlRIExecuteAsync(model, s1));
    CALL(aclrtSynchronizeStream(s1));
    EXPECT(get(0) == 0 && get(3) == 11);
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclmdlRIKernelTaskGetAttribute(first[4], ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, &value));
    change_kernel(model, first[3]);
}

int main(void)
{
    aclrtEvent e, e2;
    aclmdlRITask first[TASKS], second[TASKS];
    aclmdlRITaskType type;
    aclmdlRI model;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&s1));
    CALL(aclrtCreateStream(&s2));
    CALL(aclrtMalloc((void **)&words, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(words, 64, 0, 64));
    model = capture(&e, &e2);
    look(model, e, first, second);
    change(model, first, second);
    CALL(aclmdlRIDestroy(model));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclmdlRITaskGetType(first[0], &type));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIUpdate(model));
    CALL(aclrtDestroyEvent(e));
    CALL(aclrtDestroyEvent(e2));
    CALL(aclrtFree(words));
    CALL(aclrtDestroyStream(s1));
    CALL(aclrtDestroyStream(s2));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
