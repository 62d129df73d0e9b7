#include "tests/common/checked.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITERS 4096

static char directory[64];

const char *checked_make_directory(void)
{
    snprintf(directory, sizeof(directory), "/tmp/npud-checked-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(setenv("NPUD_CHECK", directory, 1), 0);
    return directory;
}

/* Calls fn for each file's path. */
static size_t each_file(void (*fn)(const char *path, void *context), void *context)
{
    DIR *d = opendir(directory);
    struct dirent *entry;
    char path[512];
    size_t n = 0;

    ck_assert_ptr_nonnull(d);
    while ((entry = readdir(d))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        fn(path, context);
        n++;
    }
    closedir(d);
    return n;
}

static void remove_file(const char *path, void *context)
{
    (void)context;
    unlink(path);
}

void checked_remove_directory(void)
{
    each_file(remove_file, NULL);
    ck_assert_int_eq(rmdir(directory), 0);
    unsetenv("NPUD_CHECK");
}

struct reading {
    checked_fn *fn;
    void *context;
    struct checked_file file;
    uint64_t last_ns[WRITERS], chunks[WRITERS];
};

static void read_chunk(struct reading *r, const unsigned char *chunk)
{
    const struct check_chunk *head = (const struct check_chunk *)(const void *)chunk;
    uint32_t thread = head->thread;
    const struct check_record *record;

    if (thread == 0)
        return; /* its process was killed just then */
    ck_assert_uint_lt(head->writer, WRITERS);
    ck_assert_uint_eq(head->number, r->chunks[head->writer]);
    r->chunks[head->writer]++;
    r->file.chunks++;
    for (size_t at = sizeof(*head); at < CHECK_CHUNK; at += record->words * sizeof(uint64_t)) {
        record = (const struct check_record *)(const void *)(chunk + at);
        if (record->kind == CHECK_NONE)
            break;
        ck_assert_uint_lt(record->kind, CHECK_KINDS);
        ck_assert_uint_ge(record->words, sizeof(*record) / sizeof(uint64_t));
        ck_assert_uint_le(at + record->words * sizeof(uint64_t), CHECK_CHUNK);
        ck_assert_uint_ge(record->ns, r->last_ns[head->writer]);
        r->last_ns[head->writer] = record->ns;
        if (record->kind == CHECK_THREAD)
            thread = (uint32_t)((const struct check_object *)record)->object;
        if (r->fn)
            r->fn(r->context, &r->file, thread, record);
    }
}

static void read_one(const char *path, void *context)
{
    struct reading *r = context;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const struct check_head *head;
    const unsigned char *map;
    struct stat st;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size % CHECK_CHUNK, 0);
    ck_assert_uint_gt((uint64_t)st.st_size, 0);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    ck_assert(map != MAP_FAILED);
    head = (const struct check_head *)(const void *)map;
    ck_assert(head->magic == CHECK_MAGIC && head->version == CHECK_VERSION);
    *r = (struct reading){
        .fn = r->fn, .context = r->context, .file = {head->pid, head->ended, head->failed, 0}};
    for (uint64_t at = CHECK_CHUNK; at < (uint64_t)st.st_size; at += CHECK_CHUNK)
        read_chunk(r, map + at);
    munmap((void *)map, (size_t)st.st_size);
}

size_t checked_read(checked_fn *fn, void *context, struct checked_file *last)
{
    struct reading *r = calloc(1, sizeof(*r));
    size_t n;

    ck_assert_ptr_nonnull(r);
    r->fn = fn;
    r->context = context;
    n = each_file(read_one, r);
    if (last)
        *last = r->file;
    free(r);
    return n;
}
