/*
 * Descriptors that npud holds open for an administrator. When npud has no other descriptor left, it
 * still answers npuctl, which asks why no client gets in any more. Control thread.
 */
#pragma once

#include <stdbool.h>

/* A connection of npuctl and the report it asks for. */
#define SPARE_FDS 2

struct spare_fds {
    int fd[SPARE_FDS]; /* -1: given up */
};

#define SPARE_FDS_NULL                                                                             \
    {                                                                                              \
        {                                                                                          \
            -1, -1                                                                                 \
        }                                                                                          \
    }

/** Hold what was given up again, as far as descriptors last. Costs nothing while all are held. */
void spare_fds_fill(struct spare_fds *spare);

/** Give one up: the next descriptor that is opened takes its place. False: none is left. */
bool spare_fds_give_up(struct spare_fds *spare);

void spare_fds_deinit(struct spare_fds *spare);
