/*
 * One dump on its way: into a file, or in pieces to the function of the program that
 * acldumpRegCallback was given. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_dump.h"

#define DUMP_PIECE (1u << 20) /* bytes of data that a piece has at most */

struct dump_file {
    int fd; /* -1: pieces */
    int32_t (*callback)(const acldumpChunk *piece, int32_t size);
    acldumpChunk *piece; /* with DUMP_PIECE bytes behind it */
    bool failed;
};

/** The program's function; NULL: none. For acldumpRegCallback alone. */
void dump_file_set_callback(int32_t (*callback)(const acldumpChunk *piece, int32_t size));

/** path: folders that are missing are made for a file. False: it cannot be made. */
bool dump_file_begin(struct dump_file *f, const char *path);
void dump_file_put(struct dump_file *f, const void *bytes, size_t size);
void dump_file_print(struct dump_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** False: not all was written, or taken. */
bool dump_file_end(struct dump_file *f);

/** Each folder of the path before its last slash that is missing. 0, or an errno. */
int dump_make_folders(const char *path);
