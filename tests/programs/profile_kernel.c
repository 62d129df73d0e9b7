/* What profiles and dumps have of kernels: their names, times, arguments, and what failed. */
#include <acl/acl_dump.h>
#include <acl/acl_npud_kernel.h>
#include <acl/acl_prof.h>

#include <glob.h>
#include <string.h>
#include <time.h>

#include "expect.h"

#define WORDS 64
#define WORK  5000000 /* ns */

static char output[] = "/tmp/profile_XXXXXX";

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void fill(uint64_t *words, uint64_t value)
{
    uint64_t end = now_ns() + WORK;

    for (int i = 0; i < WORDS; i++)
        words[i] = value;
    while (now_ns() < end)
        ;
}

static void fail(uint64_t *words, uint64_t value)
{
    (void)words, (void)value;
    __builtin_trap();
}

static aclError launch(const char *name, void (*function)(uint64_t *, uint64_t), void *words,
                       uint64_t value, aclrtStream stream)
{
    const uint64_t args[] = {(uintptr_t)words, value};
    const aclnpudKernel k = {.size = sizeof(k),
                             .kind = ACL_KERNEL_TYPE_AICORE,
                             .name = name,
                             .function = (const void *)(uintptr_t)function};

    return aclnpudLaunchKernel(&k, 1, args, sizeof(args), stream);
}

/* The one file that matches, as text with zeros replaced; freed by the caller. */
static char *read_match(const char *name)
{
    char pattern[256], *text = calloc(1, 1 << 16);
    glob_t found;
    size_t size;
    FILE *f;

    snprintf(pattern, sizeof(pattern), "%s/%s", output, name);
    EXPECT(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    f = fopen(found.gl_pathv[0], "r");
    EXPECT(f);
    size = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    globfree(&found);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\0')
            text[i] = '.';
    return text;
}

static void profile_kernel(void *words, aclrtStream stream)
{
    static const char event[] = "\"cat\":\"task\",\"name\":\"fill\",\"ts\":";
    double begin, length;
    const char *at;
    char *text;

    CALL(aclprofInit(output, strlen(output)));
    CALL(aclprofStart(NULL));
    CALL(launch("fill", fill, words, 7, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclprofFinalize());
    text = read_match("PROF_*/device_0/trace_*.json");
    at = strstr(text, event);
    EXPECT(at && sscanf(at + strlen(event), "%lf,\"dur\":%lf", &begin, &length) == 2);
    EXPECT(length >= WORK / 1e3);
    free(text);
}

static void dump_arguments(void *words, aclrtStream stream)
{
    CALL(aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, output));
    CALL(launch("fill", fill, words, 0x6b6b6b, stream));
    CALL(launch("fill", fill, words, 0x6d6d6d, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
    char *text = read_match("fill.16.args");

    EXPECT(strstr(text, "kkk") && !strstr(text, "mmm")); /* the first of its size */
    free(text);
}

static int told;

/* The dump is there when the program is told. */
static void look_at_dump(aclrtExceptionInfo *info)
{
    char *text = read_match("extra-info/data-dump/0/exception_info.*");

    (void)info;
    EXPECT(strstr(text, "\"kernel\":\"fail\"") && strstr(text, "\"block\":0"));
    EXPECT(strstr(text, "qqq"));         /* an argument */
    EXPECT(strstr(text, "mmm.....mmm")); /* the memory that another one is an address of */
    free(text);
    told++;
}

int main(void)
{
    char command[64];
    aclrtStream stream;
    void *words;

    EXPECT(mkdtemp(output));
    setenv("NPU_COLLECT_PATH", output, 1);
    setenv("ASCEND_DUMP_SCENE", "aic_err_norm_dump", 1);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&words, WORDS * sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST));
    profile_kernel(words, stream);
    dump_arguments(words, stream);
    CALL(aclrtSetExceptionInfoCallback(look_at_dump));
    CALL(launch("fail", fail, words, 0x717171, stream));
    EXPECT(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    EXPECT(told == 1);
    CALL(aclrtSetExceptionInfoCallback(NULL));
    CALL(aclrtFree(words));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", output);
    return system(command) != 0;
}
