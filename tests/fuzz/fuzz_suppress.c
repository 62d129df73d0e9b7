/*
 * Files of suppressions, whatever they say: they are read or refused, and matched with findings
 * whose names are long.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "client/tools/npu-check/suppress.h"
#include "fuzz.h"

#define NAME_SIZE 500

static char name[NAME_SIZE + 1];

static struct world_place place = {.source_file = name, .source_function = name, .source_line = 12};
static struct world_process process = {.pid = 1, .file = name};
static const struct world world = {
    .processes = &process, .n_processes = 1, .places = &place, .n_places = 1};

static void match_all(const struct suppression *all)
{
    struct symbols *symbols = symbols_make(&world);
    struct act act = {.what = ACT_WRITE, .place = 0, .stream = WORLD_NONE, .range = WORLD_NONE};

    for (enum finding_kind k = 0; k < FINDING_KINDS; k++)
        suppressions_match(all, symbols, &(struct finding){.kind = k, .first = act, .second = act});
    symbols_free(symbols);
}

/* The first byte is what the names are made of. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t letter = take_u8(&in);
    struct suppression *all = NULL;
    char path[32];
    int fd = memfd_create("suppressions", MFD_CLOEXEC);

    memset(name, letter ? letter : 'a', NAME_SIZE);
    MUST(fd >= 0 && write(fd, in.data, in.size) == (ssize_t)in.size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (suppressions_read(&all, path))
        match_all(all);
    close(fd);
    suppressions_free(all);
    return 0;
}
