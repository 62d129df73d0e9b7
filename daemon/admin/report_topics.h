/*
 * What a report on each topic says: rows[0] is the topic's own list; few topics have a second one.
 * Each function fills in what there is from rows->progress on, until the slice is over
 * (report_rows.h). Control thread.
 */
#pragma once

#include "daemon/admin/report_rows.h"

#define TOPIC_LISTS 2

typedef void report_fill_fn(struct server *server, struct rows *rows);

/* report_host.c */
report_fill_fn report_status;
report_fill_fn report_devices;
report_fill_fn report_sessions;
report_fill_fn report_limits;
report_fill_fn report_rules;

/* report_objects.c */
report_fill_fn report_streams;
report_fill_fn report_events;
report_fill_fn report_memory;
report_fill_fn report_notifies;

/* report_buffers.c */
report_fill_fn report_queues;
report_fill_fn report_routes;
report_fill_fn report_grants;
report_fill_fn report_pools;

/* report_trace.c */
report_fill_fn report_trace;

/* report_waits.c */
report_fill_fn report_waits;
