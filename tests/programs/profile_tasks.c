/* Times of the tasks of streams are collected into files, between a start and a stop. */
#include <acl/acl_npud.h>
#include <acl/acl_prof.h>

#include <dirent.h>
#include <string.h>
#include <time.h>

#include "expect.h"

#define BYTES (1 << 20)
#define DELAY 20000 /* us */

static char folder[512]; /* of the session */

/* The one folder below `in` whose name begins so. */
static void find_folder(const char *in, const char *begin)
{
    DIR *d = opendir(in);
    struct dirent *e;
    int found = 0;

    EXPECT(d);
    while ((e = readdir(d)))
        if (strncmp(e->d_name, begin, strlen(begin)) == 0) {
            found++;
            snprintf(folder, sizeof(folder), "%s/%.200s", in, e->d_name);
        }
    closedir(d);
    EXPECT(found == 1);
}

static char *read_trace(const char *place)
{
    char path[1024], *text = calloc(1, 1 << 20);
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s/trace_%d.json", folder, place, (int)getpid());
    f = fopen(path, "r");
    EXPECT(f);
    EXPECT(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    EXPECT(text[0] == '[' && strcmp(text + strlen(text) - 3, "\n]\n") == 0);
    return text;
}

/* The first task of the stream with this name: its begin and its duration, in us. */
static void find_times(const char *text, int stream, const char *name, double *begin,
                       double *length)
{
    char pattern[128];
    const char *at;

    snprintf(pattern, sizeof(pattern),
             "\"tid\":%d,\"ph\":\"X\",\"cat\":\"task\",\"name\":\"%s\",\"ts\":", stream, name);
    at = strstr(text, pattern);
    EXPECT(at);
    EXPECT(sscanf(at + strlen(pattern), "%lf,\"dur\":%lf", begin, length) == 2);
}

static int count(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void run_tasks(aclrtStream stream, void *memory)
{
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    CALL(aclrtMemcpyAsync((char *)memory + BYTES, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE,
                          stream));
    CALL(aclnpudLaunchDelay(DELAY, 0, stream));
}

int main(void)
{
    char output[] = "/tmp/profile_XXXXXX", command[64];
    uint32_t devices[] = {0};
    double from, to, set, copy, delay, length, end;
    aclprofConfig *config;
    aclprofStepInfo *step;
    aclrtStream before, stream;
    void *memory;
    int32_t id;
    char *text;

    EXPECT(mkdtemp(output));
    CALL(aclInit(NULL));
    CALL(aclprofInit(output, strlen(output)));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&before));
    CALL(aclrtStreamGetId(before, &id));
    CALL(aclrtMalloc(&memory, 2 * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    config = aclprofCreateConfig(devices, 1, ACL_AICORE_PIPE_UTILIZATION, NULL,
                                 ACL_PROF_ACL_API | ACL_PROF_TASK_TIME | ACL_PROF_AICORE_METRICS);
    EXPECT(config);

    run_tasks(before, memory); /* not collected */
    CALL(aclrtSynchronizeStream(before));
    CALL(aclprofStart(config));
    CALL(aclprofStart(config));
    from = now_us();
    step = aclprofCreateStepInfo();
    EXPECT(step);
    CALL(aclprofGetStepTimestamp(step, ACL_STEP_START, before));
    FAILS(ACL_ERROR_INVALID_PARAM, aclprofGetStepTimestamp(step, ACL_STEP_START, before));
    run_tasks(before, memory);
    CALL(aclprofGetStepTimestamp(step, ACL_STEP_END, before));
    aclprofDestroyStepInfo(step);
    CALL(aclrtSynchronizeStream(before));
    to = now_us();
    CALL(aclrtCreateStream(&stream)); /* of a stream that is made meanwhile, too */
    for (int i = 0; i < 1500; i++)    /* more than its ring has room for */
        CALL(aclrtMemsetAsync(memory, 64, 1, 64, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyStream(stream));
    CALL(aclprofStop(config));
    run_tasks(before, memory); /* not collected any more */
    CALL(aclrtSynchronizeStream(before));
    CALL(aclprofDestroyConfig(config));
    CALL(aclprofFinalize());

    find_folder(output, "PROF_000001_");
    free(read_trace("host"));
    text = read_trace("device_0");
    EXPECT(count(text, "\"cat\":\"task\"") == 3 + 1500);
    EXPECT(count(text, "\"name\":\"step 1\"") == 2);
    find_times(text, id, "set", &set, &length);
    EXPECT(set >= from && length > 0);
    end = set + length;
    find_times(text, id, "copy", &copy, &length);
    EXPECT(copy >= end - 0.01 && length > 0);
    end = copy + length;
    find_times(text, id, "delay", &delay, &length);
    EXPECT(delay >= end - 0.01 && length >= DELAY && delay + length <= to);
    free(text);

    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(before));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", output);
    return system(command) != 0;
}
