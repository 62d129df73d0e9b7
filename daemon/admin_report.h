/* What npuctl can ask for (the topics of npud.proto), and what a report on each says. Control thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/admin_rows.h"

struct server;

/** A report while it is made: serialised messages Report in a memfd, one per slice. Its owner opens and closes the memfd. */
struct admin_report {
    unsigned topic;
    int fd;        /* the memfd; -1: none */
    uint64_t size; /* bytes written */
    struct progress progress;
};

/** Does this npud know that topic? Any number may be asked about. */
bool admin_report_has_topic(unsigned topic);

/** Append a slice. 1 when there is more to come, 0 when the report is complete, or -errno. */
int admin_report_append_slice(struct server *server, struct admin_report *report);
