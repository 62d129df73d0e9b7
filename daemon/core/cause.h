/*
 * Why npud refuses something. A module that has the objects returns a cause; the handler of the
 * request makes the ACL error and the sentence of it, by the table in core/refuse.c.
 */
#pragma once

enum cause {
    CAUSE_NONE = 0, /* not refused */

    /* npud itself has no more */
    CAUSE_MEMORY,
    CAUSE_DESCRIPTORS,

    /* the user has as many as the configuration allows */
    CAUSE_USER_DESCRIPTORS,
    CAUSE_USER_BUFFERS,
    CAUSE_USER_QUEUES,
    CAUSE_USER_ROUTES,

    CAUSE_SEGMENT_SIZE,
    CAUSE_SEGMENT_MEMORY,
    CAUSE_SEGMENTS_OF_POOL,
    CAUSE_SEGMENT_IDS,

    CAUSE_QUEUE_DEPTH,
    CAUSE_QUEUE_NAME,
    CAUSE_QUEUE_IDS,
    CAUSE_QUEUE_RINGS,
    CAUSE_QUEUE_NOT_ATTACHED,
    CAUSE_QUEUE_NOT_MANAGED,
    CAUSE_QUEUE_ROUTED,
    CAUSE_QUEUE_NOT_ROUTED,

    CAUSE_GRANT_PID,
    CAUSE_GRANT_NO_PROCESS,
    CAUSE_GRANTS_OF_QUEUE,

    CAUSE_NOT_AN_EVENTFD,
    CAUSE_EVENT_FD_NUMBER,
    CAUSE_EVENT_FDS_OF_SESSION,
    CAUSE_EVENT_FD_KERNEL,

    CAUSE_ROUTE_BROKEN,
    CAUSE_ROUTE_TO_ITSELF,
    CAUSE_ROUTE_FROM_DESTINATION,
    CAUSE_ROUTE_TO_SOURCE,
    CAUSE_ROUTE_OF_OTHERS,
};
