/* From files to findings: what npu-check does before it writes reports. */
#pragma once

#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/world.h"

struct checker_options {
    unsigned kinds; /* bits 1 << enum finding_kind; 0: all */
    bool host_seen; /* --check-host=seen */
};

struct checker_numbers {
    uint64_t records;
    uint64_t malformed; /* threads whose records ended with something malformed */
};

/**
 * Reads the files of the directory into the zeroed *w and *found. False and errno: the directory
 * cannot be read. Without memory the program ends (need.h). `numbers` may be NULL.
 */
bool checker_run(const char *directory, const struct checker_options *options, struct world *w,
                 struct findings *found, struct checker_numbers *numbers);
void world_deinit(struct world *w);
