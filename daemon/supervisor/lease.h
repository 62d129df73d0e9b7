/*
 * Where the lease comes from: the keeper's service, if there is one, or a keeper of our own. A
 * keeper of our own lives in the control group of npud: what kills all of that kills it as well.
 */
#pragma once

#include <stdbool.h>

#include "daemon/supervisor/child.h"

#define LEASE_SOCKET "/run/npud/keeper.sock"

/**
 * A new lease. service: ask npud-keeper.socket first. keeper: the process, if it is our own, else
 * CHILD_NULL. The lease (its socket is not the keeper's then), or -errno after a line in the log.
 */
int lease_open(struct child *keeper, const char *keeper_path, bool service);
