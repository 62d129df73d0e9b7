/* Rows of the library as a whole: what it is, kernels, and what no library can answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

void check_library(struct check *c)
{
    unsigned known, found;
    const char *absent;

    CHECK_DO(c, "open", check_open(c));
    found = c->vendor->symbols(c->library, &known, &absent);
    check_say(c, CHECK_YES, "%u of %u symbols", found, known);
    if (*absent)
        check_add(c, "; absent: %s", absent);
    check_value(c, "symbols", "", found);
    check_value(c, "symbols known", "", known);
}

/* The capabilities that it lacks, in words. Not descriptors: numbers and keys do as well. */
static void add_absent(struct check *c, uint64_t capabilities)
{
    static const char *const names[] = {"share", NULL,    "register", "set",  "reduce",
                                        "word",  "abort", "kernel",   "peer", "health"};
    const char *before = "; absent: ";

    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (!names[i] || capabilities & UINT64_C(1) << i)
            continue;
        check_add(c, "%s%s", before, names[i]);
        before = ", ";
    }
}

void check_device(struct check *c)
{
    struct executor_device_info info;
    struct utsname host;
    uint32_t n = 0;

    CHECK_DO(c, "devices", c->vendor->device_count(c->library, &n));
    CHECK_DO(c, "info", c->vendor->device_info(c->library, c->device, &info));
    uname(&host);
    check_say(c, CHECK_YES, "%u; number %u: %s, %.1f of %.1f GiB free, %s, Linux %.24s", n,
              c->device, info.name, (double)info.free / (1 << 30), (double)info.memory / (1 << 30),
              info.version, host.release);
    add_absent(c, info.capabilities);
    check_value(c, "devices", "", n);
    check_value(c, "memory", "bytes", (double)info.memory);
    check_value(c, "free", "bytes", (double)info.free);
    check_value(c, "granularity", "bytes", (double)info.granularity);
    check_value(c, "capabilities", "", (double)info.capabilities);
}

/* --- a kernel --- */

static void *read_file(const char *path, uint64_t *size)
{
    FILE *f = fopen(path, "re");
    struct stat st;
    char *bytes = NULL;

    if (f && fstat(fileno(f), &st) == 0 && st.st_size > 0)
        bytes = malloc((size_t)st.st_size + 1);
    if (bytes && fread(bytes, 1, (size_t)st.st_size, f) == (size_t)st.st_size) {
        bytes[st.st_size] = '\0'; /* PTX is a text */
        *size = (uint64_t)st.st_size;
    } else {
        free(bytes);
        bytes = NULL;
    }
    if (f)
        fclose(f);
    return bytes;
}

static void launch(struct check *c, void *function, struct vendor_memory *memory)
{
    const struct vendor_launch one = {
        .blocks = {1, 1, 1},
        .threads = {1, 1, 1},
        .arguments = &memory->address,
        .bytes = sizeof(memory->address),
    };
    double times[50];

    for (unsigned i = 0; i < 50; i++) {
        const uint64_t from = clock_ns();

        CHECK_DO(c, "launch", c->vendor->launch(c->lane, function, &one));
        CHECK_DO(c, "kernel", check_sync(c));
        times[i] = check_us(from);
    }
    check_say(c, CHECK_YES, "launch to done %.1f us", check_median(times, 50));
    check_value(c, "launch to done", "us", times[25]);
}

void check_kernel(struct check *c)
{
    struct vendor_memory memory;
    void *binary, *function, *bytes;
    uint64_t size;

    if (!c->kernel_file) {
        check_say(c, CHECK_NOT_KNOWN, "none was given: --kernel FILE:NAME");
        return;
    }
    CHECK_NEED(c, launch);
    bytes = read_file(c->kernel_file, &size);
    if (!bytes) {
        check_say(c, CHECK_NOT_KNOWN, "%.200s cannot be read", c->kernel_file);
        return;
    }
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, 4096, &memory));
    CHECK_DO(c, "load", c->vendor->binary_load(c->library, c->device, bytes, size, 0, &binary));
    CHECK_DO(c, "name", c->vendor->function(c->library, binary, c->kernel_name, &function));
    launch(c, function, &memory);
    free(bytes);
}

void check_npud_killed(struct check *c)
{
    check_say(c, CHECK_NOT_KNOWN,
              "takes an npud with this library, and --check-backend asks the library alone");
}
