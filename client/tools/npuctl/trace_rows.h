/* Events of a trace, as npud sends them, as rows. */
#pragma once

#include <stdbool.h>

#include "proto/wire/npud.pb-c.h"

/**
 * In place of each row with raw events come rows of these. What the events say may be anything.
 * False: no memory; the report is to be freed as ever.
 */
bool trace_rows_expand(Npud__Report *report);
