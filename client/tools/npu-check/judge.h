/* The whole of reading and judging, as main() calls it. */
#pragma once

#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/world.h"

struct judge_options {
    bool kinds[FINDING_KINDS]; /* what is looked for */
    bool host_seen;            /* --host=seen: only edges between threads that npud has seen */
};

/**
 * Reads the files of a directory, and tells what is wrong. *world and *findings are empty before.
 * A directory without files is not an error. Returns 0, or -errno if the directory cannot be read.
 */
int judge_directory(const char *directory, const struct judge_options *options, struct world *world,
                    struct findings *findings);
