/* The screen of `npuctl top`. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Shows it until q is pressed, or npud cannot be reached. Needs a terminal. */
enum status top_show(const char *path);
