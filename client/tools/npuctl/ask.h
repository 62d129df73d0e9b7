/* A question to npud at its administrators' socket. */
#pragma once

#include "client/tools/npuctl/command.h"

/** Asks or tells npud what the task says, and prints the answer. */
enum status ask_npud(const struct task *task);
