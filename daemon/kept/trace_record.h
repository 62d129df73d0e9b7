/*
 * What is kept of the trace, and of the rings that it is written into. What stands in a ring is not
 * in the records: entries are stored one by one (proto/shm/trace_ring.h), and an npud that ends
 * loses those that its threads were about to write.
 */
#pragma once

#include <stdint.h>

#define TRACE_RECORD_RINGS 17 /* npud's own one, and one of each engine */

struct trace_record {
    /* kept */
    uint64_t begun_ns, ended_ns; /* CLOCK_MONOTONIC */
    uint32_t number;
    uint32_t refused; /* processes of which there is no ring */
    uint8_t on;
    uint8_t unused[7];
    struct {
        uint64_t key; /* 0: there is no such ring */
        uint64_t from;
    } own[TRACE_RECORD_RINGS];
    uint64_t entries; /* that each ring of this trace has at least */
    uint64_t more[3];
};

struct trace_client_record {
    /* kept */
    uint64_t session;
    uint64_t key;
    uint64_t from;
    int32_t pid;
    uint32_t uid;
    char program[64];
    uint8_t ended;
    uint8_t unused[7];
    uint64_t more[2];
};
