/*
 * Suppressions: findings that are known and are not to be told, in a text file in the spirit of
 * valgrind's (npu-check(1)).
 */
#pragma once

#include "client/tools/npu-check/reports.h"

struct suppression;

/**
 * Adds those of a file to *all, which is NULL at first. False: it cannot be read, or something is
 * wrong in it; a message has been printed.
 */
bool suppressions_read(struct suppression **all, const char *path);
void suppressions_free(struct suppression *all);

bool suppressions_match(const struct suppression *all, struct symbols *symbols,
                        const struct finding *x);

/** One for each finding that is not suppressed. False: the file cannot be written (errno). */
bool suppressions_write(const struct report *r, const char *path);
