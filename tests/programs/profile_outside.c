/* Profiling that the configuration of aclInit asks for. */
#include <acl/acl_prof.h>

#include <glob.h>
#include <string.h>

#include "expect.h"

static char output[] = "/tmp/profile_XXXXXX";

static void write_config(const char *path, const char *format)
{
    FILE *f = fopen(path, "w");

    EXPECT(f);
    fprintf(f, format, output);
    fclose(f);
}

static int count_events(const char *what)
{
    char pattern[128], line[4096];
    glob_t found;
    FILE *f;
    int n = 0;

    snprintf(pattern, sizeof(pattern), "%s/PROF_*/*/trace_*.json", output);
    if (glob(pattern, 0, NULL, &found) != 0)
        return -1;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        f = fopen(found.gl_pathv[i], "r");
        EXPECT(f);
        while (fgets(line, sizeof(line), f))
            n += strstr(line, what) != NULL;
        fclose(f);
    }
    globfree(&found);
    return n;
}

int main(void)
{
    static const char *const bad[] = {
        "{\"profiler\": 1}",
        "{\"profiler\": {\"switch\": \"yes\"}}",
        "{\"profiler\": {\"switch\": \"on\", \"task_time\": \"l4\"}}",
        "{\"profiler\": {\"switch\": \"on\", \"msproftx\": 1}}",
        "{\"profiler\": {\"switch\": \"on\", \"storage_limit\": \"100MB\"}}",
        "{\"profiler\": {\"switch\": \"on\", \"output\": 7}}",
    };
    char path[64], command[64];
    aclrtStream stream;
    void *memory, *stamp;

    EXPECT(mkdtemp(output));
    snprintf(path, sizeof(path), "%s/acl.json", output);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_config(path, bad[i]);
        FAILS(ACL_ERROR_INVALID_PROFILING_CONFIG, aclInit(path));
    }
    EXPECT(count_events("task") == -1);

    write_config(path, "{\"profiler\": {\"switch\": \"on\", \"output\": \"%s\", \"task_time\": "
                       "\"l1\", \"msproftx\": \"on\", \"storage_limit\": \"200MB\", "
                       "\"aic_metrics\": \"PipeUtilization\"}}");
    CALL(aclInit(path));
    FAILS(ACL_ERROR_PROF_ALREADY_RUN, aclprofInit(output, strlen(output)));
    FAILS(ACL_ERROR_PROF_ALREADY_RUN, aclprofStart(NULL));
    FAILS(ACL_ERROR_PROF_ALREADY_RUN, aclprofStop(NULL));
    CALL(aclprofFinalize());
    CALL(aclrtSetDevice(1));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
    CALL(aclrtSynchronizeStream(stream));
    stamp = aclprofCreateStamp();
    EXPECT(stamp);
    CALL(aclprofSetStampTraceMessage(stamp, "seen", 4));
    CALL(aclprofMark(stamp));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(1));
    CALL(aclFinalize());
    EXPECT(count_events("\"cat\":\"task\"") == 1);
    EXPECT(count_events("\"name\":\"seen\"") == 1);

    /* Nothing is collected after it, and the program may begin by itself. */
    CALL(aclprofInit(output, strlen(output)));
    CALL(aclprofFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", output);
    return system(command) != 0;
}
