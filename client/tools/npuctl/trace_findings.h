/* A report of npu-check, as far as a trace can show it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A task, by its process and npud's slot of its stream. */
struct trace_act {
    bool known;
    int32_t pid;
    uint32_t slot;
    uint64_t position;
};

struct trace_finding {
    char *title; /* "race: write and read of ..." */
    struct trace_act first, second;
};

/** The findings in the file, n of them. NULL, after a message, if it is none that has findings. */
struct trace_finding *trace_findings_read(const char *path, size_t *n);
void trace_findings_free(struct trace_finding *list, size_t n);
