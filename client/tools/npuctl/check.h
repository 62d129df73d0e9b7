/* The command check: processes of services write down what they do (docs/checking.md). */
#pragma once

#include "client/tools/npuctl/task.h"

/** Parses the words after `check`; see struct command. */
const char *check_parse(char **words, int n, struct task *task, const char **about);
