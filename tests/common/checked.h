/*
 * What checked processes have written (proto/shm/check_file.h), for tests: an own reading of the
 * format, which is not that of npu-check.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/shm/check_file.h"

/** A directory for the files, named in NPUD_CHECK from here on. Asserts. */
const char *checked_make_directory(void);

/** Remove it with all that is in it. */
void checked_remove_directory(void);

/** Of one file. */
struct checked_file {
    int32_t pid;
    bool ended, failed;
    size_t chunks;
};

/** Called for each record. thread: that has written it, as the file says. */
typedef void checked_fn(void *context, const struct checked_file *file, uint32_t thread,
                        const struct check_record *r);

/**
 * Read all files of the directory; fn may be NULL. Asserts that each is well-formed: whole chunks,
 * each of a thread, records that end within their chunk, times that do not go back within a writer.
 * Returns how many files there are; the last one's head is in *last.
 */
size_t checked_read(checked_fn *fn, void *context, struct checked_file *last);
