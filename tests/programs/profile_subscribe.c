/* A program subscribes to a model, and reads from a pipe how long each of its operators took. */
#include <acl/acl_npud_kernel.h>
#include <acl/acl_prof.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "expect.h"

#define TIMES   3    /* executions */
#define WORK_US 5000 /* of `work` */
#define READ    4    /* records at once */
#define MAX     (2 * TIMES)

struct record {
    char type[ACL_PROF_MAX_OP_TYPE_LEN], name[ACL_PROF_MAX_OP_NAME_LEN];
    uint64_t start, end, duration;
    size_t model;
    int thread;
};

static struct record operators[MAX + 1];
static int n_operators;

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void work(uint64_t *word)
{
    uint64_t end = now_us() + WORK_US;

    while (now_us() < end)
        ;
    ++*word;
}

static void add_one(uint64_t *word)
{
    ++*word;
}

static void launch(const char *name, void (*function)(uint64_t *), void *word, aclrtStream stream)
{
    const uint64_t args[] = {(uintptr_t)word};
    const aclnpudKernel k = {.size = sizeof(k),
                             .kind = ACL_KERNEL_TYPE_AICORE,
                             .name = name,
                             .function = (const void *)(uintptr_t)function};

    CALL(aclnpudLaunchKernel(&k, 1, args, sizeof(args), stream));
}

/* --- the reader --- */

static void look_at(const char *records, size_t size, uint32_t i)
{
    struct record *o = &operators[n_operators++];
    const char *thread = aclprofGetOpAttriValue(records, size, i, ACL_SUBSCRIBE_ATTRI_THREADID);
    size_t length;

    EXPECT(n_operators <= MAX);
    CALL(aclprofGetOpTypeLen(records, size, i, &length));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpType(records, size, i, o->type, length - 1));
    CALL(aclprofGetOpType(records, size, i, o->type, length));
    CALL(aclprofGetOpNameLen(records, size, i, &length));
    CALL(aclprofGetOpName(records, size, i, o->name, length));
    o->start = aclprofGetOpStart(records, size, i);
    o->end = aclprofGetOpEnd(records, size, i);
    o->duration = aclprofGetOpDuration(records, size, i);
    o->model = aclprofGetModelId(records, size, i);
    EXPECT(aclprofGetOpFlag(records, size, i) == ACL_SUBSCRIBE_OP);
    EXPECT(thread && (o->thread = atoi(thread)) > 0);
}

static void *read_records(void *arg)
{
    int fd = *(int *)arg;
    size_t record, got = 0;
    uint32_t n;
    char *records;
    ssize_t r;

    CALL(aclprofGetOpDescSize(&record));
    records = malloc(READ * record);
    while ((r = read(fd, records + got, READ * record - got)) > 0) {
        got += (size_t)r;
        if (got % record != 0)
            continue;
        CALL(aclprofGetOpNum(records, got, &n));
        EXPECT(n == got / record);
        for (uint32_t i = 0; i < n; i++)
            look_at(records, got, i);
        FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetOpNameLen(records, got, n, &record));
        CALL(aclprofGetOpDescSize(&record));
        got = 0;
    }
    EXPECT(r == 0 && got == 0);
    free(records);
    return NULL;
}

/* --- the model --- */

static aclmdlRI capture(void *word, aclrtStream stream)
{
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch("work", work, word, stream);
    launch("add_one", add_one, word, stream);
    CALL(aclmdlRICaptureEnd(stream, &model));
    return model;
}

static void expect_operators(uint32_t model, uint64_t from, uint64_t to)
{
    EXPECT(n_operators == MAX);
    for (int i = 0; i < MAX; i++) {
        const struct record *o = &operators[i];

        EXPECT(strcmp(o->type, i % 2 ? "add_one" : "work") == 0);
        EXPECT(strcmp(o->name, i % 2 ? "add_one_1" : "work_0") == 0);
        EXPECT(o->model == model);
        EXPECT(o->start >= from && o->end <= to && o->duration == o->end - o->start);
        EXPECT(o->duration >= (i % 2 ? 0 : WORK_US));
        from = o->end;
    }
}

int main(void)
{
    aclprofSubscribeConfig *config;
    uint32_t id, other;
    uint64_t from, to, *word;
    aclrtStream stream;
    pthread_t reader;
    aclmdlRI model;
    int fds[2];

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc((void **)&word, sizeof(*word), ACL_MEM_MALLOC_HUGE_FIRST));
    model = capture(word, stream);
    CALL(aclmdlRIGetId(model, &id));
    CALL(aclmdlRIExecuteAsync(model, stream)); /* no record of this one */
    CALL(aclrtSynchronizeStream(stream));

    EXPECT(pipe(fds) == 0);
    EXPECT(pthread_create(&reader, NULL, read_records, &fds[0]) == 0);
    config = aclprofCreateSubscribeConfig(1, ACL_AICORE_NONE, &fds[1]);
    EXPECT(config);
    CALL(aclprofModelSubscribe(id, config));
    FAILS(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, aclprofModelSubscribe(id, config));
    FAILS(ACL_ERROR_PROF_API_CONFLICT, aclprofInit("/tmp", 4));
    other = id + 1;
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelSubscribe(other, config));
    from = now_us();
    for (int i = 0; i < TIMES; i++)
        CALL(aclmdlRIExecuteAsync(model, stream));
    launch("no_operator", add_one, word, stream); /* of no model */
    CALL(aclrtSynchronizeStream(stream));
    to = now_us();
    CALL(aclprofModelUnSubscribe(id));
    FAILS(ACL_ERROR_INVALID_MODEL_ID, aclprofModelUnSubscribe(id));
    CALL(aclprofDestroySubscribeConfig(config));
    close(fds[1]);
    EXPECT(pthread_join(reader, NULL) == 0);
    close(fds[0]);
    expect_operators(id, from, to);

    CALL(aclmdlRIExecuteAsync(model, stream)); /* nor of this one */
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclmdlRIDestroy(model));
    CALL(aclrtFree(word));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    return 0;
}
