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

/** A report while it is made: serialised messages Report in a memfd, one per slice. */
struct admin_report {
    unsigned topic;
    int fd;        /* the memfd; -1: none */
    uint64_t size; /* bytes written */
    bool own;      /* only what concerns processes of uid */
    uid_t uid;
    struct progress progress;
};

/** Begin a report on a topic that there is. 0 or -errno. */
int report_open(struct server *server, struct admin_report *report, unsigned topic);

/**
 * Begin one of one user's processes alone, for which topic_is_own(); deadlocks are those that they
 * are in or behind. 0 or -errno.
 */
int report_open_own(struct server *server, struct admin_report *report, unsigned topic, uid_t uid);

/** Free what there is of it. Safe to repeat, and while report->fd is -1. */
void report_close(struct admin_report *report);

/**
 * Call it when the report is complete: from then on its size cannot change for a process that maps
 * it. 0 or -errno.
 */
int report_seal(const struct admin_report *report);

/** Does this npud know that topic? Any number may be asked about. */
bool report_has_topic(unsigned topic);

/** Append a slice. 1 when there is more to come, 0 when the report is complete, or -errno. */
int report_append_slice(struct server *server, struct admin_report *report);
