/*
 * What the program calls is what it called: functions of the program in front of the library's, as
 * tools put them there, see no calls of the library itself; and each sentence names the function
 * that the program has called.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/harness.h"

/* --- in front of the library's --- */

static unsigned calls; /* of all hooks */

/* The library's function of this name. A pointer to data is none to a function in C. */
#define NEXT(name)                                                                                 \
    __typeof__(name) *next;                                                                        \
    void *found = dlsym(RTLD_NEXT, #name);                                                         \
                                                                                                   \
    calls++;                                                                                       \
    memcpy(&next, &found, sizeof(next))

aclError aclrtSetDevice(int32_t deviceId)
{
    NEXT(aclrtSetDevice);
    return next(deviceId);
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    NEXT(aclrtCreateStream);
    return next(stream);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    NEXT(aclrtCreateStreamWithConfig);
    return next(stream, priority, flag);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    NEXT(aclrtStreamWaitEvent);
    return next(stream, event);
}

aclError aclrtSynchronizeDevice(void)
{
    NEXT(aclrtSynchronizeDevice);
    return next();
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer)
{
    NEXT(aclGetDataBufferSizeV2);
    return next(dataBuffer);
}

/* A call of the library that must make none of these. */
#define ALONE(call)                                                                                \
    do {                                                                                           \
        unsigned before_ = calls;                                                                  \
        call;                                                                                      \
        ck_assert_msg(calls == before_, "%s: %u calls of other functions", #call,                  \
                      calls - before_);                                                            \
    } while (0)

START_TEST(hooks_see_the_calls_of_the_program_alone)
{
    aclrtStreamConfigHandle *config;
    aclrtStream stream, other;
    aclDataBuffer *buffer;
    aclrtEvent event;
    void *memory;

    session_open();
    ck_assert_uint_gt(calls, 0); /* they are in front */
    ALONE(OK(aclrtCreateStreamV2(&stream, NULL)));
    OK(aclrtDestroyStream(stream));
    config = aclrtCreateStreamConfigHandle();
    ALONE(OK(aclrtCreateStreamV2(&stream, config)));
    OK(aclrtDestroyStreamConfigHandle(config));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(event, stream));
    ALONE(OK(aclrtStreamWaitEventWithFlag(other, event, UINT32_MAX, 0)));
    OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    ALONE(OK(aclrtFreeWithDevSync(memory)));
    OK(aclrtMallocHost(&memory, 64));
    ALONE(OK(aclrtFreeHostWithDevSync(memory)));
    buffer = aclCreateDataBuffer(NULL, 7);
    ALONE(ck_assert_uint_eq(aclGetDataBufferSize(buffer), 7));
    OK(aclDestroyDataBuffer(buffer));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    session_close();
}
END_TEST

/* A call before which no device was set sets that of the configuration. */
static void *call_by_default(void *arg)
{
    void *memory;

    (void)arg;
    ALONE(OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
    OK(aclrtFree(memory));
    return NULL;
}

static void init_with(const char *config)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/acl.json", npud.dir);
    write_text_file(path, config);
    OK(aclInit(path));
}

START_TEST(a_default_device_is_set_without_a_call)
{
    init_with("{\"defaultDevice\":{\"default_device\":\"0\"}}");
    thread_call(call_by_default, NULL);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* --- sentences --- */

/* The function that is called, and what it is called with. */
#define NAMES_ITSELF(function, ...)                                                                \
    do {                                                                                           \
        const char *m_;                                                                            \
                                                                                                   \
        ck_assert_int_ne(function(__VA_ARGS__), 0);                                                \
        m_ = aclGetRecentErrMsg();                                                                 \
        ck_assert_msg(m_ &&strstr(m_, #function ":"), "%s: %s", #function, m_ ? m_ : "nothing");   \
    } while (0)

static void *call_without_a_context(void *arg)
{
    aclrtStream stream = arg;

    NAMES_ITSELF(aclrtCreateStream, &stream);
    NAMES_ITSELF(aclrtCreateStreamWithConfig, &stream, 0, 0);
    NAMES_ITSELF(aclrtCreateStreamV2, &stream, NULL);
    NAMES_ITSELF(aclrtSynchronizeDevice);
    NAMES_ITSELF(aclrtFreeWithDevSync, &stream);
    NAMES_ITSELF(aclrtFreeHostWithDevSync, &stream);
    return NULL;
}

START_TEST(sentences_name_what_was_called)
{
    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    size_t flags = ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_FAST_SYNC;
    aclrtStream stream = NULL;
    aclrtEvent event;

    session_open();
    thread_call(call_without_a_context, NULL);
    NAMES_ITSELF(aclrtCreateStream, NULL);
    NAMES_ITSELF(aclrtCreateStreamWithConfig, NULL, 0, 0);
    NAMES_ITSELF(aclrtCreateStreamV2, NULL, NULL);
    NAMES_ITSELF(aclrtCreateStreamWithConfig, &stream, 0, (uint32_t)flags);
    OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_FLAG, &flags, sizeof(flags)));
    NAMES_ITSELF(aclrtCreateStreamV2, &stream, config);
    OK(aclrtCreateEvent(&event));
    NAMES_ITSELF(aclrtStreamWaitEvent, NULL, event);
    NAMES_ITSELF(aclrtStreamWaitEventWithFlag, NULL, event, UINT32_MAX, 0);
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStreamConfigHandle(config));
    session_close();
}
END_TEST

static void *call_with_a_bad_default(void *arg)
{
    aclrtStream stream;
    void *memory;

    (void)arg;
    NAMES_ITSELF(aclrtCreateStream, &stream);
    NAMES_ITSELF(aclrtMalloc, &memory, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    NAMES_ITSELF(aclrtSynchronizeDevice);
    return NULL;
}

/* npud is not there when aclInit looks, and so a device that is none is found out later. */
START_TEST(sentences_name_what_was_called_with_a_default_device)
{
    char *socket = strdup(getenv("NPUD_SOCKET"));

    ck_assert_int_eq(setenv("NPUD_SOCKET", "/nowhere", 1), 0);
    init_with("{\"defaultDevice\":{\"default_device\":\"7\"}}");
    ck_assert_int_eq(setenv("NPUD_SOCKET", socket, 1), 0);
    free(socket);
    thread_call(call_with_a_bad_default, NULL);
    OK(aclFinalize());
}
END_TEST

static aclError refuse(void *data)
{
    (void)data;
    return ACL_ERROR_FAILURE;
}

START_TEST(sentences_of_callbacks_name_what_was_called)
{
    uint64_t refs;

    OK(aclInit(NULL));
    OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, refuse, NULL));
    NAMES_ITSELF(aclFinalize);
    NAMES_ITSELF(aclFinalizeReference, &refs);
    OK(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, refuse));
    OK(aclFinalize());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call names");
    TCase *t = suite_case(suite, "calls", 60, npud_setup, npud_teardown);

    tcase_add_test(t, hooks_see_the_calls_of_the_program_alone);
    tcase_add_test(t, a_default_device_is_set_without_a_call);
    t = suite_case(suite, "sentences", 60, npud_setup, npud_teardown);
    tcase_add_test(t, sentences_name_what_was_called);
    tcase_add_test(t, sentences_name_what_was_called_with_a_default_device);
    tcase_add_test(t, sentences_of_callbacks_name_what_was_called);
    return run_suite(suite);
}
