/*
 * The daemon as a whole: what the control thread holds. What is above core is here by pointer only:
 * daemon/npud.c owns it.
 */
#pragma once

#include <sys/types.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/schedule.h"
#include "daemon/base/spare_fds.h"
#include "daemon/base/subuid.h"
#include "daemon/core/user.h"
#include "daemon/core/batch_job.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/server_record.h"

struct admin;
struct answer;
struct commands;
struct config;
struct devices;
struct inject;
struct ipc_events;
struct listener;
struct notifies;
struct peers;
struct pools;
struct queues;
struct rest;
struct router;
struct session;
struct memory_exports;
struct survivor;
struct trace;

struct server {
    struct config *config;
    struct event_base *base;
    struct users users;
    struct batch_jobs batch_jobs;
    struct subuids subuids; /* users.subuids, once it was read */
    struct devices *devices;
    struct ipc_events *ipc;
    struct inject *inject;
    struct notifies *notifies;
    struct memory_exports *memory_exports;
    struct peers *peers;
    struct pools *pools;
    struct queues *queues;
    struct router *router;
    struct trace *trace;
    struct session *sessions;
    struct survivor *survivors; /* survivor.h */
    uint32_t n_sessions;
    uint64_t sessions_gone; /* so far */
    uint64_t deaths;        /* of these, with their process */
    uint64_t restarts;      /* as in its record */
    struct kept kept;
    struct last_numbers *last; /* in its record */
    uint64_t since_ns;
    uint64_t fds;          /* that npud may have open */
    uint64_t instance;     /* random: tells capabilities of this npud from those of another */
    gid_t admin_gid;       /* of [npud] admin_group; -1: none */
    bool any_uid;          /* [ipc] scope: users may open what others have made */
    uint32_t linger_max;   /* [ipc] linger_max, as far as descriptors allow */
    uint64_t submit_ns;    /* [ipc] submit_ms */
    bool ending;           /* npud ends: no client is to have anything new */
    char *check_directory; /* where new sessions write what they do; NULL: nowhere */

    struct listener *clients;
    struct listener *admins;
    struct spare_fds spare;
    struct admin *admin_list;
    struct commands *commands; /* of administrators: admin/commands.h */

    struct answer *answers; /* that could not be sent yet: control/answer.c */
    struct event *on_retry;
    struct job retry;
    uint64_t retry_ns; /* from one try to the next */

    struct rest *rests; /* users that are not heard for a while: control/rest.h */

    struct held_request *asleep; /* until something is closed: control/held_request.h */
    struct job freed;
    bool freed_awaited; /* the job is sent then, or was, and has not run */

    struct schedule schedule;
};

/**
 * Note what npud itself has to share among users: descriptors, mappings, ids. At the start, when
 * the number of its own descriptors and mappings is known.
 */
void server_count_resources(struct server *server);

/** Make the record of npud itself: before anything is numbered. 0 or -ENOMEM. */
int server_keep(struct server *server);
/** npud has ended in order: there is nothing for a later one. */
void server_forget(struct server *server);

/** Put the live keys of server->config into force. Control thread. */
void server_configure(struct server *server);
