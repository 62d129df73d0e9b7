/*
 * What npud tells the service manager: ready, alive, ending. systemd reads these messages when it
 * gets to it, and its socket can be full: a thread sends them.
 */
#pragma once

/** Starts the thread, if a manager wants to be told. 0 or -ENOMEM. */
int service_manager_start(void);

/** Sends what is left, but does not wait for long, and ends the thread. Safe without a start. */
void service_manager_stop(void);

/** Sends a message of sd_notify(3). Any thread; never waits. Nothing happens without a manager. */
void service_manager_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
