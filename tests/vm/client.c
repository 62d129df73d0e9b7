/*
 * The client of check-vm. usage: client count | hold | grab device|pinned|buffers | fill MIB
 *
 * count:  print how many devices there are
 * hold:   print "holding", and end with the next line of standard input, or its end
 * grab:   take MiB after MiB of this kind of memory until it is refused, without touching any, and
 *         print how many there are, error and sentence. Then for each line of standard input:
 *         "more": try one more, "less": give one back, and print the same, where 0 and "given" are
 *         no error. At its end, or "end", end in order
 * fill:   have as much device memory filled, beside some memory of its own, and print "filled"
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"

#define MIB      ((size_t)1 << 20)
#define MIBS_MAX 4096
#define OWN_MIBS 4

static void *taken[MIBS_MAX];
static char own[OWN_MIBS * MIB]; /* of which npud knows nothing */
static unsigned n;

static aclError take_device(void **memory)
{
    return aclrtMalloc(memory, MIB, ACL_MEM_MALLOC_NORMAL_ONLY);
}

static aclError take_pinned(void **memory)
{
    return aclrtMallocHost(memory, MIB);
}

static aclError take_buffer(void **memory)
{
    return aclrtAllocBuf(memory, MIB);
}

static const struct kind {
    const char *name;
    aclError (*take)(void **memory);
    aclError (*give)(void *memory);
} kinds[] = {
    {"device", take_device, aclrtFree},
    {"pinned", take_pinned, aclrtFreeHost},
    {"buffers", take_buffer, aclrtFreeBuf},
};

static bool is_ok(aclError error)
{
    if (error != ACL_SUCCESS)
        printf("%d %s\n", error, aclGetRecentErrMsg());
    return error == ACL_SUCCESS;
}

/* All up to `most`. */
static void take(const struct kind *kind, unsigned most)
{
    aclError error = ACL_SUCCESS;

    while (n < most && (error = kind->take(&taken[n])) == ACL_SUCCESS)
        n++;
    printf("%u %d %s\n", n, error, error ? aclGetRecentErrMsg() : "given");
}

static int grab(const struct kind *kind)
{
    char line[16];

    take(kind, MIBS_MAX);
    while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
        if (strcmp(line, "less\n") == 0 && n > 0 && !is_ok(kind->give(taken[--n])))
            return 1;
        take(kind, strcmp(line, "more\n") == 0 && n < MIBS_MAX ? n + 1 : n);
    }
    while (n > 0)
        if (!is_ok(kind->give(taken[--n])))
            return 1;
    return !is_ok(aclFinalize());
}

static int fill(unsigned mib)
{
    memset(own, 7, sizeof(own));
    for (; n < mib; n++)
        if (!is_ok(take_device(&taken[n])) ||
            !is_ok(aclrtMemcpy(taken[n], MIB, own + n % OWN_MIBS * MIB, MIB,
                               ACL_MEMCPY_HOST_TO_DEVICE)))
            return 1;
    puts("filled");
    return 0;
}

static int count(void)
{
    uint32_t devices;

    if (!is_ok(aclrtGetDeviceCount(&devices)))
        return 1;
    printf("%u devices\n", devices);
    return 0;
}

static int hold(void)
{
    if (!is_ok(aclrtSetDevice(0)))
        return 1;
    puts("holding");
    getchar();
    return !is_ok(aclFinalize());
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!is_ok(aclInit(NULL)))
        return 1;
    if (argc == 2 && strcmp(argv[1], "count") == 0)
        return count();
    if (argc == 2 && strcmp(argv[1], "hold") == 0)
        return hold();
    if (argc != 3 || !is_ok(aclrtSetDevice(0)))
        return 2;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(argv[1], "grab") == 0 && strcmp(argv[2], kinds[i].name) == 0)
            return grab(&kinds[i]);
    return strcmp(argv[1], "fill") == 0 ? fill((unsigned)strtoul(argv[2], NULL, 10)) : 2;
}
