/*
 * What a report on each topic says: rows[0] is the topic's own list; few topics have a second one.
 * Each function fills in what there is from rows->progress on, until the slice is over
 * (report_rows.h). Control thread.
 */
#pragma once

#include "daemon/admin/report_rows.h"

#define TOPIC_LISTS 2

/*
 * All topics, by their files. For TOPIC(name, NAME), report_name() fills the list of that name in a
 * Report; for AND(name, NAME, second), it fills a second list, too.
 */
#define TOPICS(TOPIC, AND)                                                                         \
    /* report_host.c */                                                                            \
    AND(status, STATUS, refusals)                                                                  \
    AND(devices, DEVICES, hardware)                                                                \
    TOPIC(executors, EXECUTORS)                                                                    \
    TOPIC(sessions, SESSIONS)                                                                      \
    TOPIC(limits, LIMITS)                                                                          \
    TOPIC(rules, RULES)                                                                            \
    /* report_objects.c */                                                                         \
    TOPIC(streams, STREAMS)                                                                        \
    TOPIC(events, EVENTS)                                                                          \
    TOPIC(memory, MEMORY)                                                                          \
    TOPIC(notifies, NOTIFIES)                                                                      \
    /* report_buffers.c */                                                                         \
    TOPIC(queues, QUEUES)                                                                          \
    TOPIC(routes, ROUTES)                                                                          \
    TOPIC(grants, GRANTS)                                                                          \
    TOPIC(pools, POOLS)                                                                            \
    /* report_trace.c, report_waits.c */                                                           \
    TOPIC(trace, TRACE)                                                                            \
    AND(waits, WAITS, deadlocks)

typedef void report_fill_fn(struct server *server, struct rows *rows);

#define TOPIC_FILL(name, ...) report_fill_fn report_##name;
TOPICS(TOPIC_FILL, TOPIC_FILL)
#undef TOPIC_FILL
