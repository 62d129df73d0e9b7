/*
 * Connections of npuctl that are told what happens, as it happens: sessions come and go, programs
 * die or are refused, devices are lost. What the log calls an event, an error or a warning is told
 * (base/log.h), whatever its level: one call says both. npud never waits for a monitor, and keeps
 * nothing for one that does not read, but how much it has missed. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event;
struct server;

struct monitor {
    int socket;            /* its owner's */
    struct event *on_room; /* there is room in the socket again; NULL: it is no monitor */
    uint64_t unsaid;       /* happenings that it has not been told */
    struct monitor *prev, *next;
};

/** From now on the socket is told. 0, -EUSERS: there are too many monitors, or -ENOMEM. */
int monitor_begin(struct monitor *monitor, struct server *server, int socket);
/** Safe on a monitor that is all zero. */
void monitor_end(struct monitor *monitor);

static inline bool monitor_is_on(const struct monitor *monitor)
{
    return monitor->on_room != NULL;
}
