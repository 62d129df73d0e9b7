/* What is kept of the list of processes that may import something: core/importers.h. */
#pragma once

#include <stdint.h>

struct importers_record {
    /* kept */
    uint64_t object; /* its number */
    uint64_t n;
    struct {
        uint64_t process; /* no other has it; 0: the first one that imports */
        int32_t pid;
        uint32_t unused;
    } pid[];
};
