/*
 * How the cost of an operation grows with the number of things that are alive. It is measured
 * beside three numbers of them; the exponent is the slope of log(time) over log(number): 0 is
 * flat, 1 is linear..
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

#define GROWTH_SIZES 3
#define GROWTH_MAX   0.2 /* the budget of an exponent */

/** What is alive, and what the operation needs beside it. */
struct field {
    union thing {
        void *p;
        uint32_t id;
    } * things;
    unsigned n, turn;
    aclrtContext context;
    aclrtStream stream, held;
    aclrtEvent event, gate;
    void *memory, *pool;
    uint32_t queue;
    char key[65];
    char host[4096];
};

/** Things of one kind, and what there is beside them; set_up and tear_down may be NULL. */
struct kind {
    void (*add)(struct field *f, union thing *thing);
    void (*remove)(struct field *f, union thing *thing);
    void (*set_up)(struct field *f);
    void (*tear_down)(struct field *f);
};

struct operation {
    const char *name, *what;
    const struct kind *kind;
    unsigned sizes[GROWTH_SIZES]; /* how many are alive; rising */
    unsigned acts;                /* per sample */
    void (*act)(struct field *f);
    bool per_thing; /* it visits all that are alive: the time is that of one */
};

/** Measure it and emit the row: the ratio is the exponent. */
void growth_run(const struct operation *o);
