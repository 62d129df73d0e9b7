/*
 * What the files say of processes, streams and places: tables that only grow by what programs
 * create, filled while records are read (read.c) and used by the model and the reports.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A mapped file of a process. */
struct world_module {
    uint64_t start, end, bias;
    char *path;
};

struct world_process {
    int32_t pid;
    char program[65];
    char *file;    /* of the directory */
    bool ended;    /* by exit(3) or an exec(3) */
    bool lost;     /* it ended otherwise, within a session: what that left is no fault */
    bool failed;   /* its file could not grow */
    uint64_t left; /* lost: objects that it had, and that npud has taken back */
    struct world_module *modules;
    size_t n_modules;
};

struct world_stream {
    uint32_t process;
    int32_t id; /* as npuctl shows it */
    uint32_t device;
    uint32_t slot;
    bool is_default;
};

/** A call stack, once per process and content. */
struct world_place {
    uint32_t process;
    uint32_t n;
    uint64_t *frames; /* innermost first */
    /* A place of an interpreted program that has called, or NULL. */
    char *source_file, *source_function;
    uint32_t source_line;
};

struct world {
    struct world_process *processes;
    size_t n_processes;
    struct world_stream *streams;
    size_t n_streams;
    struct world_place *places;
    size_t n_places;
    char **texts;
    size_t n_texts;
};
