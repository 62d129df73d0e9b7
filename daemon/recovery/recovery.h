/*
 * What an npud does that takes over from another one: it restores its tables from the records in
 * kept memory, and the descriptors from the keeper. One thread; engines and sockets do not run yet.
 *
 * Kind by kind, in the order of kept/kinds.h: restore() of a module makes its object again, as its
 * constructor has made it, with the same numbers, and charges its user, also beyond a limit that
 * was lowered. Nothing is told to clients meanwhile. When all objects are there, the modules finish
 * what the npud before had begun: sessions that were ending end, and those whose process has died;
 * streams come back to the task at their head; words in shared memory that wake sleepers are stored
 * again.
 */
#pragma once

struct server;

/**
 * kept_begin_from(), blame_begin() and npud_begin() were called. 0 or a negative errno after a line
 * in the log: the tables cannot be restored, and nothing can be served from them.
 */
int recovery_run(struct server *server);
