/*
 * Grants: rights to a queue of a process that has not attached to it yet. Bound to the process, by
 * its pidfd, and not to its pid: it ends with the process. Attaching turns it into an attachment
 * (queue.h), with the same rights. Control thread.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/core/user.h"
#include "daemon/core/cause.h"
#include "daemon/kept/kept.h"

struct peer;
struct queue;
struct queues;
struct server;
struct session;

#define GRANTS_MAX 1024u /* of one queue, not attached */

struct grant {
    struct queue *queue;
    pid_t pid;
    int pidfd;
    uint32_t rights;
    struct event *on_death;
    struct job ended;        /* its process has ended */
    struct charge charge_fd; /* the queue's user pays */
    struct kept kept;
    struct grant *prev, *next; /* queue->grants */
};

/**
 * Give, or take away (rights 0), what the process with this pid may do: an attachment of its is
 * changed, else its grant.
 */
enum cause grant_set(struct queue *queue, pid_t pid, uint32_t rights);

/** What the session's process was granted of the queue, or NULL. */
struct grant *grant_find(struct session *session, struct queue *queue);

/** The grant is used up, or taken back. The caller tells the queue (queue_party_left()). */
void grant_free(struct grant *grant);
/** All is there: threads that may wait for a grant look again. */
void grants_finish_restoring(struct server *server);

/* --- sessions whose threads may wait for a grant --- */

/** What it does later is the owner's. */
void grants_init(struct queues *queues, struct job_owner *owner);
void grants_deinit(struct queues *queues);

/** The session was told that it has no grant: threads of it may wait for one. */
void grant_asked(struct session *session);

/** The session ends: it asks no more. */
void grant_asks_no_more(struct peer *peer);

/** Let threads of the process with this pid look again. */
void grant_tell_process(struct queues *queues, pid_t pid);

/** Let all that ask look again, soon: as many as a thousand sessions may ask. */
void grant_tell_all(struct queues *queues);
