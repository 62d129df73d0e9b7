/*
 * What npuctl can ask for (the topics of npud.proto), and what a report on each says. Control
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/admin/report_rows.h"

struct server;

/**
 * A report while it is made: serialised messages Report in a memfd, one per slice. Its owner opens
 * and closes the memfd.
 */
struct admin_report {
    unsigned topic;
    int fd;        /* the memfd; -1: none */
    uint64_t size; /* bytes written */
    struct progress progress;
};

/** Begin a report on a topic that there is. 0, or -errno; the caller closes report->fd. */
int report_open(struct server *server, struct admin_report *report, unsigned topic);

/**
 * Call it when the report is complete: from then on its size cannot change for a process that maps
 * it. 0 or -errno.
 */
int report_seal(const struct admin_report *report);

/**
 * The waits of one user's processes, and the deadlocks that they are in or behind, complete. 0 or
 * -errno; the caller closes report->fd.
 */
int report_own_waits(struct server *server, struct admin_report *report, uid_t uid);

/** Does this npud know that topic? Any number may be asked about. */
bool report_has_topic(unsigned topic);

/** Append a slice. 1 when there is more to come, 0 when the report is complete, or -errno. */
int report_append_slice(struct server *server, struct admin_report *report);
