/* What npud --check-backend prints: a table as rows come to their end, and all of it as JSON. */
#pragma once

#include <stdbool.h>

#include "daemon/executor/check_row.h"

void check_print_row(const struct check_row *row, const struct check_result *result);

/** results: of all rows, NULL where one was not asked. False: the file cannot be written. */
bool check_write_json(const struct check *c, const struct check_result *const *results,
                      double seconds, bool holds);
