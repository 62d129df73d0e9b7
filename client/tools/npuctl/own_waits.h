/* `npuctl waits` of a user that may use npud and not administer it: at the clients' socket. */
#pragma once

#include "client/tools/npuctl/command.h"

/** Asks for the waits of the user's own processes, and prints them. */
enum status own_waits_ask(const struct task *task);
