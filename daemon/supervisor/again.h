/*
 * The supervisor executes itself again after an upgrade: from then on it is of the version of its
 * server. Its processes and descriptors stay; which is which stands in the environment.
 */
#pragma once

#include <stdbool.h>

#include "daemon/supervisor/supervisor.h"

/** Executes the installed supervisor in place of this one. Returns if that fails, after a line in
 * the log; and with s->again still set if there is no server that serves, which the next one would
 * wait for without an end, or if it has been killed, which the next one would not know. */
void supervisor_execute_again(struct supervisor *s);

/** Has a supervisor executed itself again? Then s has what it had. At the start. */
bool supervisor_is_again(struct supervisor *s);
