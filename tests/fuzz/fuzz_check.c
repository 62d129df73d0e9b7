/*
 * npu-check with files of checked processes that say anything: it ends, its reports have no byte
 * that a terminal would obey, are JSON where they say so, and suppressions that it writes match.
 */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <unistd.h>

#include "check_files.h"
#include "client/tools/npu-check/checker.h"
#include "client/tools/npu-check/reports.h"
#include "client/tools/npu-check/suppress.h"

static char folder[64];
static int directory;

static void remove_folder(void)
{
    char path[80];

    for (const char *name = "0123s"; *name; name++) {
        snprintf(path, sizeof(path), "%s/%c", folder, *name);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0])
        return;
    snprintf(folder, sizeof(folder), "%s/fuzz_check.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    MUST(mkdtemp(folder));
    directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    MUST(directory >= 0);
    atexit(remove_folder);
}

static void check_text(const struct report *r)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    MUST(f);
    report_write_text(r, f);
    fclose(f);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        MUST(c == '\n' || (c >= ' ' && c != 0x7f));
    }
    free(text);
}

static void check_json(char *text)
{
    cJSON *parsed = cJSON_Parse(text);

    MUST(parsed);
    cJSON_Delete(parsed);
    free(text);
}

static void check_suppressions(const struct report *r)
{
    struct suppression *all = NULL;
    char path[80];

    snprintf(path, sizeof(path), "%s/s", folder);
    MUST(suppressions_write(r, path));
    MUST(suppressions_read(&all, path));
    unlink(path);
    for (size_t i = 0; i < r->findings->n; i++)
        MUST(suppressions_match(all, r->symbols, &r->findings->list[i]));
    suppressions_free(all);
}

/* The first byte says how it is called. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t how = take_u8(&in);
    struct checker_options options = {.host_seen = how & 1};
    struct world world = {0};
    struct findings findings = {0};
    struct report r = {.world = &world, .findings = &findings, .verbose = how & 2};

    make_folder();
    check_files_write(&in, directory);
    MUST(checker_run(folder, &options, &world, &findings, NULL));
    r.symbols = symbols_make(&world);
    check_text(&r);
    check_json(report_make_json(&r));
    check_json(report_make_sarif(&r));
    check_suppressions(&r);
    symbols_free(r.symbols);
    findings_deinit(&findings);
    world_deinit(&world);
    return 0;
}
