/* `npuctl top`: what the devices do, and for whom. */
#pragma once

#include <stdio.h>

#include "client/tools/npuctl/task.h"

/** Rows are sorted by this, the largest first; by number they are sorted upwards. */
enum top_order { TOP_BY_SESSION, TOP_BY_RATE, TOP_BY_BLOCKED, TOP_BY_MEMORY };

/** Two looks at npud, and what is shown of them. */
struct top;

/**
 * Asks npud once more: rates are over the time since the last call. At first *top is NULL. On an
 * error nothing changes, and a sentence is on stderr.
 */
enum status top_refresh(struct top **top, const char *path);
void top_free(struct top *top);
/** As text. filter: only sessions, queues and streams of programs with this text in their name. */
void top_print(FILE *f, struct top *top, enum top_order order, const char *filter);

/** With --once, prints; else shows it live. */
enum status top_run(const struct task *task);
