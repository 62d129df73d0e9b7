/* What is kept of administrators' commands: one record. */
#pragma once

#include <stdint.h>

#define COMMANDS_MAX 64 /* a repeated one comes right after a restart */

/* A command that npud has carried out. All zero: none. */
struct command {
    uint64_t token;
    uint64_t rule; /* the answer: the rule that it has set */
    uint32_t uid;  /* of the administrator */
    uint32_t
        asks; /* of an upgrade: how often the supervisor was asked for it. 0: another command */
};

struct commands_record {
    uint64_t n; /* so far: the latest one is at (n - 1) % COMMANDS_MAX */
    struct command last[COMMANDS_MAX];
};
