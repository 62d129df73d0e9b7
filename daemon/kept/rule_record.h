/* What is kept of a rule of fault injection. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct rule_record {
    /* kept: as in struct inject_spec */
    uint64_t id;
    uint64_t ops;
    uint64_t session;
    uint64_t nth, count;
    uint64_t seed;
    double probability;
    int32_t device, stream;
    int32_t code;
    uint8_t action;
    uint8_t has_kind; /* it is for the ops of one name */
    uint8_t at_once;
    uint8_t unused[1];
    uint64_t more[4];
    /* live, under inject->lock */
    struct rule_live {
        _Atomic uint64_t matched; /* tasks it was for, while it was not used up */
        _Atomic uint64_t hits;
        _Atomic uint64_t lost; /* 1 + the device that it has lost; 0: none */
    } live;
};
