/* What npud is asked or told, and what npuctl makes of the answer. */
#pragma once

#include "client/tools/npuctl/task.h"
#include "client/tools/npuctl/socket.h"

/** Carries the task out, and prints the result. */
enum status ask_npud(const struct task *task);

/**
 * A report on an open connection. On STATUS_OK the caller frees it; else a sentence was printed.
 */
enum status ask_report(struct connection *c, Npud__AdminRequest__Topic topic,
                       Npud__Report **report);
