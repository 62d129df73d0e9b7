/*
 * A process that has one of everything that npud keeps for a session, with tasks under way, threads
 * that sleep, and messages that wait.
 */
#pragma once

#include "acl/acl.h"

/** main() of an actor: does one step, in which all of it is made, and waits. */
int own_all_main(int fd, void *spoiled);
