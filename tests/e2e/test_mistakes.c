/*
 * Mistakes that newcomers make: each call has its documented code, and a sentence that begins with
 * the name of the function that was called, says what is wrong, and names the cure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"

#define PARAM    ACL_ERROR_RT_PARAM_INVALID
#define NULL_ARG ACL_ERROR_INVALID_PARAM
#define HANDLE   ACL_ERROR_RT_INVALID_HANDLE
#define QUEUE    ACL_ERROR_RT_DRV_INTERNAL_ERROR

#define MIB ((size_t)1 << 20)

/* --- what there is to mistake for something else --- */

static aclrtContext context, other_context;
static aclrtStream stream, other_stream, dead_stream, default_stream;
static aclrtEvent event, dead_event, gate, untimed, ipc;
static aclrtNotify notify;
static aclrtCntNotify count_notify;
static aclrtDrvMemHandle physical;
static aclmdlRI model;
static acltdtBuf buffer, dead_buffer, sent_buffer;
static uint32_t queue, dead_queue;
static char *device, *pinned, *managed, *heap, *registered, *mapped, *freed, *reserved;
static void *buffer_data;
static char key[65];

static aclError make_streams(void)
{
    OK(aclrtCreateContext(&other_context, 0));
    OK(aclrtCreateStream(&other_stream));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&dead_stream));
    OK(aclrtDestroyStream(dead_stream));
    OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
    OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    return aclmdlRICaptureEnd(stream, &model);
}

static void make_events(void)
{
    OK(aclrtCreateEvent(&event));
    OK(aclrtCreateEvent(&dead_event));
    OK(aclrtDestroyEvent(dead_event));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventWithFlag(&untimed, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(untimed, stream));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtCntNotifyCreate(&count_notify, 0));
}

static void make_memory(void)
{
    aclrtPhysicalMemProp prop = {.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};

    OK(aclrtMalloc((void **)&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc((void **)&freed, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtFree(freed));
    OK(aclrtMallocHost((void **)&pinned, 4096));
    OK(aclrtMemAllocManaged((void **)&managed, 2 * MIB, ACL_RT_MEM_ATTACH_GLOBAL));
    heap = malloc(4096);
    registered = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(aclrtHostRegisterV2(registered, 4096, ACL_HOST_REG_MAPPED));
    OK(aclrtMallocPhysical(&physical, 2 * MIB, &prop, 0));
    OK(aclrtReserveMemAddress((void **)&mapped, 2 * MIB, 0, NULL, 0));
    OK(aclrtReserveMemAddress((void **)&reserved, 2 * MIB, 0, NULL, 0));
    OK(aclrtMapMem(mapped, 2 * MIB, 0, physical, 0));
    OK(aclrtIpcMemGetExportKey(device, 4096, key, sizeof(key), 0));
}

static void make_buffers(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    size_t size;

    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtCreateQueue(attr, &dead_queue));
    OK(acltdtDestroyQueue(dead_queue));
    OK(acltdtDestroyQueueAttr(attr));
    OK(acltdtAllocBuf(64, 0, &buffer));
    OK(acltdtAllocBuf(64, 0, &sent_buffer));
    OK(acltdtAllocBuf(64, 0, &dead_buffer));
    OK(acltdtFreeBuf(dead_buffer));
    OK(acltdtEnqueue(queue, sent_buffer, -1));
    OK(acltdtGetBufData(buffer, &buffer_data, &size));
}

static void make_all(void)
{
    npud_setup();
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&context));
    OK(make_streams());
    make_events();
    make_memory();
    make_buffers();
}

/* --- the mistakes --- */

static union {
    void *pointer;
    int32_t i32;
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    float ms;
    size_t size;
    aclrtEventRecordedStatus status;
    aclrtEventStatus event_status;
    aclrtIpcEventHandle handle;
} out;

static aclrtIpcEventHandle no_handle;

static void do_nothing(void *arg)
{
    (void)arg;
}

/* X(code, words of the sentence, function, arguments) */
#define MISTAKES(X)                                                                                \
    X(HANDLE, "this is an event: pass a stream, as aclrtCreateStream", aclrtSynchronizeStream,     \
      event)                                                                                       \
    X(HANDLE, "is no handle: it was never set, or is the address of one", aclrtSynchronizeStream,  \
      &stream)                                                                                     \
    X(HANDLE, "a stream that was destroyed, or one of another process", aclrtSynchronizeStream,    \
      dead_stream)                                                                                 \
    X(HANDLE, "this is a context: pass a stream", aclrtDestroyStream, context)                     \
    X(HANDLE, "this is an event: pass a stream", aclrtRecordEvent, event, event)                   \
    X(HANDLE, "this is a stream: pass an event, as aclrtCreateEvent", aclrtRecordEvent, stream,    \
      stream)                                                                                      \
    X(HANDLE, "this is a stream: pass an event", aclrtStreamWaitEvent, event, stream)              \
    X(HANDLE, "this is a notify: pass an event", aclrtStreamWaitEvent, stream, notify)             \
    X(HANDLE, "this is a stream: pass an event", aclrtSynchronizeEvent, stream)                    \
    X(HANDLE, "an event that was destroyed", aclrtSynchronizeEvent, dead_event)                    \
    X(HANDLE, "this is a notify: pass an event", aclrtDestroyEvent, notify)                        \
    X(HANDLE, "this is a context: pass an event", aclrtQueryEventStatus, context, &out.status)     \
    X(HANDLE, "this is an event: pass a notify, as aclrtCreateNotify", aclrtRecordNotify, event,   \
      stream)                                                                                      \
    X(HANDLE, "this is a count notify: pass a notify", aclrtWaitAndResetNotify, count_notify,      \
      stream, 0)                                                                                   \
    X(HANDLE, "this is a notify: pass a count notify, as aclrtCntNotifyCreate",                    \
      aclrtCntNotifyReset, notify, stream)                                                         \
    X(HANDLE, "this is a stream: pass a notify", aclrtDestroyNotify, stream)                       \
    X(PARAM, "this is a stream: pass a context, as aclrtCreateContext", aclrtSetCurrentContext,    \
      stream)                                                                                      \
    X(ACL_ERROR_RT_CONTEXT_NULL, "this is an event: pass a context", aclrtDestroyContext, event)   \
    X(ACL_ERROR_RT_CONTEXT_NULL, "primary context of a device: use aclrtResetDevice",              \
      aclrtDestroyContext, context)                                                                \
    X(HANDLE, "this is an event: pass a stream", aclrtMemsetAsync, device, 64, 0, 64, event)       \
    X(ACL_ERROR_RT_STREAM_CONTEXT, "make that one current first (aclrtSetCurrentContext)",         \
      aclrtMemsetAsync, device, 64, 0, 64, other_stream)                                           \
    X(PARAM, "a default stream cannot be destroyed: it goes with", aclrtDestroyStream,             \
      default_stream)                                                                              \
    X(ACL_ERROR_RT_STREAM_NO_CB_REG, "call aclrtSubscribeReport first", aclrtLaunchCallback,       \
      do_nothing, NULL, ACL_CALLBACK_BLOCK, stream)                                                \
    X(PARAM, "fn is NULL", aclrtLaunchCallback, NULL, NULL, ACL_CALLBACK_BLOCK, stream)            \
    X(ACL_ERROR_RT_THREAD_SUBSCRIBE, "call aclrtSubscribeReport with", aclrtProcessReport, 10)     \
    X(ACL_ERROR_RT_INTERNAL_ERROR, "never recorded: call aclrtRecordEvent first",                  \
      aclrtEventElapsedTime, &out.ms, gate, gate)                                                  \
    X(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "make it by aclrtCreateEvent", aclrtEventElapsedTime,  \
      &out.ms, untimed, untimed)                                                                   \
    X(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "but with one of aclrtCreateEvent", aclrtQueryEvent, ipc,  \
      &out.event_status)                                                                           \
    X(HANDLE, "this is a stream: pass a handle of physical memory", aclrtFreePhysical, stream)     \
    X(HANDLE, "this is an event: pass a memory pool, as aclrtMemPoolCreate", aclrtMemPoolDestroy,  \
      event)                                                                                       \
    X(HANDLE, "this is a stream: pass a model", aclmdlRIExecuteAsync, stream, stream)              \
    X(HANDLE, "this is an event: pass a model", aclmdlRIDestroy, event)                            \
    X(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "call aclmdlRICaptureBegin first", aclmdlRICaptureEnd,     \
      stream, &out.pointer)                                                                        \
    X(HANDLE, "this is an event: pass a binary, as aclrtBinaryLoadFromFile", aclrtBinaryUnLoad,    \
      event)                                                                                       \
    X(HANDLE, "this is a stream: pass a binary", aclrtBinaryGetFunction, stream, "kernel",         \
      &out.pointer)                                                                                \
    X(PARAM, "/nowhere/k.o cannot be read", aclrtBinaryLoadFromFile, "/nowhere/k.o", NULL,         \
      &out.pointer)                                                                                \
    X(PARAM, "this is a stream: pass a buffer, as acltdtAllocBuf", acltdtEnqueue, queue, stream,   \
      -1)                                                                                          \
    X(QUEUE, "has been destroyed, or this process has not attached it", acltdtEnqueue, dead_queue, \
      buffer, -1)                                                                                  \
    X(PARAM, "was enqueued: it belongs to its receiver now", acltdtEnqueue, queue, sent_buffer,    \
      -1)                                                                                          \
    X(PARAM, "no queue has id 7777: ids are 0 to", acltdtDequeue, 7777, &out.pointer, 0)           \
    X(PARAM, "this is an event: pass a buffer", acltdtFreeBuf, event)                              \
    X(PARAM, "pass one that acltdtAllocBuf or acltdtDequeue", acltdtFreeBuf, buffer_data)          \
    X(PARAM, "was freed, or enqueued, before", acltdtFreeBuf, dead_buffer)                         \
    X(PARAM, "is more than the 64 bytes that the buffer has room", acltdtSetBufDataLen, buffer,    \
      4 * MIB)                                                                                     \
    X(ACL_ERROR_RT_INTERNAL_ERROR, "there is no such process", acltdtGrantQueue, queue, 999999999, \
      2, 0)                                                                                        \
    X(QUEUE, "attached by aclnpudAttachQueueOfUser", acltdtAttachQueue, dead_queue, 0, &out.u32)   \
    X(PARAM, "is pinned host memory: call aclrtFreeHost", aclrtFree, pinned)                       \
    X(PARAM, "inside of an allocation: pass its beginning, 0x", aclrtFree, device + 64)            \
    X(PARAM, "memory of malloc() is freed by free()", aclrtFree, heap)                             \
    X(PARAM, "was freed already", aclrtFree, freed)                                                \
    X(PARAM, "registered: call aclrtHostUnregister", aclrtFree, registered)                        \
    X(PARAM, "call aclrtUnmapMem and aclrtFreePhysical", aclrtFree, mapped)                        \
    X(PARAM, "call acltdtFreeBuf with the buffer", aclrtFree, buffer_data)                         \
    X(PARAM, "is not the start of an allocation of aclrtMalloc", aclrtFree, stream)                \
    X(PARAM, "is device memory: call aclrtFree", aclrtFreeHost, device)                            \
    X(PARAM, "is managed memory: call aclrtFree", aclrtFreeHost, managed)                          \
    X(PARAM, "inside of an allocation: pass its beginning", aclrtFreeHost, pinned + 64)            \
    X(PARAM, "is device memory: call aclrtFree", aclrtFreeHostWithDevSync, device)                 \
    X(PARAM, "is pinned host memory: call aclrtFreeHost", aclrtFreeWithDevSync, pinned)            \
    X(ACL_ERROR_RT_MEMORY_ALLOCATION, "17592186044416 bytes on device 0, which has", aclrtMalloc,  \
      &out.pointer, (size_t)1 << 44, 0)                                                            \
    X(ACL_ERROR_RT_MEMORY_ALLOCATION, "npuctl sessions shows", aclrtMalloc, &out.pointer,          \
      (size_t)1 << 44, 0)                                                                          \
    X(ACL_ERROR_RT_MEMORY_ALLOCATION, "no pinned host memory of", aclrtMallocHost, &out.pointer,   \
      (size_t)1 << 60)                                                                             \
    X(NULL_ARG, "size is 0", aclrtMalloc, &out.pointer, 0, 0)                                      \
    X(NULL_ARG, "devPtr is NULL", aclrtMalloc, NULL, 64, 0)                                        \
    X(PARAM, "count 128 is more than destMax 64", aclrtMemcpy, device, 64, pinned, 128,            \
      ACL_MEMCPY_HOST_TO_DEVICE)                                                                   \
    X(PARAM, "dst: 8192 bytes at offset 0 leave the allocation of 4096", aclrtMemcpy, device,      \
      8192, pinned, 8192, ACL_MEMCPY_HOST_TO_DEVICE)                                               \
    X(PARAM, "is in memory that was freed", aclrtMemcpy, freed, 64, pinned, 64,                    \
      ACL_MEMCPY_HOST_TO_DEVICE)                                                                   \
    X(PARAM, "devPtr: 8192 bytes at offset 0 leave the allocation", aclrtMemset, device, 8192, 0,  \
      8192)                                                                                        \
    X(PARAM, "count 128 is more than maxCount 64", aclrtMemset, device, 64, 0, 128)                \
    X(ACL_ERROR_RT_INVALID_DEVICEID, "no device 7: devices are numbered from 0", aclrtSetDevice,   \
      7)                                                                                           \
    X(ACL_ERROR_RT_INVALID_DEVICEID, "no device -1", aclrtResetDevice, -1)                         \
    X(PARAM, "allowed are ACL_EVENT_SYNC", aclrtCreateEventExWithFlag, &out.pointer, 0x10000000)   \
    X(PARAM, "made by aclrtCreateEventExWithFlag with ACL_EVENT_IPC", aclrtIpcGetEventHandle,      \
      event, &out.handle)                                                                          \
    X(PARAM, "pass all 64 bytes of aclrtIpcGetEventHandle", aclrtIpcOpenEventHandle, no_handle,    \
      &out.pointer)                                                                                \
    X(PARAM, "not the key of memory that this npud gave out", aclrtIpcMemImportByKey,              \
      &out.pointer, "no key", 0)                                                                   \
    X(PARAM, "not the key of memory that this npud gave out", aclrtIpcMemClose, "no key")          \
    X(PARAM, "allocated with aclrtMalloc", aclrtIpcMemGetExportKey, pinned, 64, key, sizeof(key),  \
      0)                                                                                           \
    X(PARAM, "not the key of a notify", aclrtNotifyImportByKey, &out.pointer, "no key", 0)         \
    X(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "pass what aclrtHostRegister was given",               \
      aclrtHostUnregister, heap)                                                                   \
    X(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "call aclrtHostUnregister first",                  \
      aclrtHostRegisterV2, registered, 4096, ACL_HOST_REG_MAPPED)                                  \
    X(PARAM, "or call aclrtHostRegister first", aclrtValueWait, heap, 1, 0, stream)                \
    X(PARAM, "must be positive or -1", aclrtSynchronizeStreamWithTimeout, stream, -5)              \
    X(PARAM, "is not the start of what aclrtMapMem has mapped", aclrtUnmapMem, reserved)           \
    X(PARAM, "not the start of addresses of aclrtReserveMemAddress", aclrtReleaseMemAddress,       \
      device)                                                                                      \
    X(QUEUE, "call aclrtUnmapMem for each first", aclrtReleaseMemAddress, mapped)                  \
    X(PARAM, "call aclrtMapMem first", aclrtMemset, reserved, 64, 0, 64)                           \
    X(NULL_ARG, "pass another one", aclrtDeviceEnablePeerAccess, 0, 0)                             \
    X(PARAM, "there is no attribute 9999: pass one of aclrtDevAttr", aclrtGetDeviceInfo, 0,        \
      (aclrtDevAttr)9999, &out.i64)                                                                \
    X(PARAM, "memory of aclrtMalloc is freed by aclrtFree", aclrtMemPoolFreeAsync, device, stream) \
    X(ACL_ERROR_REPEAT_INITIALIZE, "the program may go on", aclInit, NULL)

static int wrong;

static void judge(const char *call, const char *function, int code, const char *words, int got)
{
    const char *text = aclGetRecentErrMsg();
    char begin[96];

    snprintf(begin, sizeof(begin), "[%d] %s: ", got, function);
    if (got == code && text && strncmp(text, begin, strlen(begin)) == 0 && strstr(text, words))
        return;
    fprintf(stderr, "%s(%s): %d and not %d, or no \"%s\" in: %s\n", function, call, got, code,
            words, text ? text : "no sentence");
    wrong++;
}

START_TEST(each_sentence_names_its_function_and_the_cure)
{
    make_all();
#define X(code, words, function, ...)                                                              \
    aclGetRecentErrMsg();                                                                          \
    judge(#__VA_ARGS__, #function, code, words, function(__VA_ARGS__));
    MISTAKES(X)
#undef X
    ck_assert_int_eq(wrong, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mistakes");

    tcase_add_test(suite_case(suite, "mistakes", 60, NULL, NULL),
                   each_sentence_names_its_function_and_the_cure);
    return run_suite(suite);
}
