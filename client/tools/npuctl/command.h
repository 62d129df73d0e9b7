/* The commands of npuctl: their table, and what each makes of its words. */
#pragma once

#include "client/tools/npuctl/task.h"

/** All commands. */
extern const struct command commands[];
extern const size_t commands_n;

/** Fills the task from the words after the options. The answer is that of `parse`. */
const char *command_parse(char **words, int n, struct task *task, const char **about);
