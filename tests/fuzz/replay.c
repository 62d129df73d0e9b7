/*
 * Feeds files to a fuzz target without libFuzzer: those named as arguments, or the kept corpus of
 * the target, which is tests/fuzz/corpus/NAME for fuzz_NAME. Prints one "ok" line per input, as
 * tests/run-all.sh counts them.
 */
#include <dirent.h>

#include "fuzz.h"

#define SIZE_MAX_INPUT (1 << 20)

static int replay_file(const char *path)
{
    static uint8_t buf[SIZE_MAX_INPUT];
    FILE *f = fopen(path, "re");
    uint8_t *data;
    size_t size;

    if (!f) {
        printf("not ok %s: %m\n", path);
        return 1;
    }
    size = fread(buf, 1, sizeof(buf), f);
    fclose(f);
    /* Of its exact size, so that a sanitizer sees reads beyond its end. */
    data = malloc(size ? size : 1);
    MUST(data);
    memcpy(data, buf, size);
    printf("# %s\n", path); /* named before it can crash */
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    printf("ok %s\n", path);
    return 0;
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static int replay_corpus(const char *program)
{
    const char *name = strrchr(program, '/');
    struct dirent **list;
    char path[512];
    int n, failed = 0;

    name = name ? name + 1 : program;
    if (strncmp(name, "fuzz_", 5) == 0)
        name += 5;
    snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", name);
    n = scandir(path, &list, is_visible, alphasort);
    if (n <= 0) {
        printf("not ok %s: no corpus there (run me from the top of the source tree)\n", path);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "tests/fuzz/corpus/%s/%s", name, list[i]->d_name);
        failed |= replay_file(path);
        free(list[i]);
    }
    free(list);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc < 2)
        return replay_corpus(argv[0]);
    for (int i = 1; i < argc; i++)
        failed |= replay_file(argv[i]);
    return failed;
}
