/* `npuctl graph`: processes, queues and IPC events, and who waits for whom. */
#pragma once

#include "client/tools/npuctl/task.h"

/** Writes it in the language of Graphviz's dot, or has dot draw it. */
enum status draw_run(const struct task *task);
