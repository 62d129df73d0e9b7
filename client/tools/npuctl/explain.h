/*
 * `npuctl explain`: the waits of all processes, each followed from process to process to what it
 * ends in.
 */
#pragma once

#include "client/tools/npuctl/task.h"

/** Asks npud, looks at processes in /proc, and prints. */
enum status explain_run(const struct task *task);
