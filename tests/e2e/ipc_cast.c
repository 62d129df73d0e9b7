#include "ipc_cast.h"

#include "cells.h"

static const struct {
    unsigned n;
    struct ref ref[HANDLES_MAX];
} casts[ACTORS_MAX + 1] = {
    [1] = {3,
           {{.who = 0, .name = "creator"},
            {.who = 0, .name = "its own export"},
            {.who = 0, .name = "its own export again"}}},
    [2] = {4,
           {{.who = 0, .name = "creator"},
            {.who = 0, .name = "creator's own export"},
            {.who = 1, .name = "opener"},
            {.who = 1, .name = "opener's own export"}}},
    [3] = {5,
           {{.who = 0, .name = "creator"},
            {.who = 0, .name = "creator's own export"},
            {.who = 1, .name = "opener 1"},
            {.who = 1, .name = "opener 1's own export"},
            {.who = 2, .name = "opener 2"}}},
};

void cast_start(struct cast *c, unsigned processes, const char *const *args)
{
    npud_start(args);
    event_actors_start(processes);
    cells_processes(processes);
    c->processes = processes;
    c->n = casts[processes].n;
}

void cast_end(struct cast *c)
{
    (void)c;
    event_actors_end();
    npud_teardown();
}

void cast_open(struct cast *c)
{
    aclrtIpcEventHandle handle;

    DONE(ref_create(0, 0, &c->ref[0]));
    DONE(ref_export(&c->ref[0], &handle));
    for (unsigned i = 1; i < c->n; i++) {
        unsigned who = casts[c->processes].ref[i].who;

        /* A second handle is opened from what its process exported itself. */
        if (who == c->ref[i - 1].who)
            DONE(ref_export(&c->ref[i - 1], &handle));
        DONE(ref_open(who, (int)who % DEVICES, &handle, &c->ref[i]));
    }
    for (unsigned i = 0; i < c->n; i++)
        c->ref[i].name = casts[c->processes].ref[i].name;
}

void cast_close(struct cast *c, unsigned first)
{
    for (unsigned i = 0; i < c->n; i++) {
        struct ref *ref = &c->ref[(first + i) % c->n];

        if (ref->event)
            DONE(ref_destroy(ref));
        ref->event = NULL;
    }
}
