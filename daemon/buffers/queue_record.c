/* What is kept of queues and attachments, and how they come back: a part of queue.h. */
#include "daemon/buffers/queue.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "daemon/buffers/peer.h"
#include "daemon/buffers/route_bell.h"
#include "daemon/kept/restored.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

static struct restored restored;

/* --- queues --- */

static size_t write_queue(const struct kept *kept, void *record)
{
    const struct queue *queue =
        (const struct queue *)((const char *)kept - offsetof(struct queue, kept));
    struct queue_record *r = record;

    *r = (struct queue_record){.serial = queue->serial,
                               .before = queue->before,
                               .ring = queue_ring_record(&queue->ring),
                               .id = queue->id,
                               .uid = queue->user->uid,
                               .creator = queue->creator ? queue->creator->peer_id : PEER_NPUD,
                               .puts_gone = queue->puts.gone,
                               .takes_gone = queue->takes.gone,
                               .puts_pid = queue->puts.pid,
                               .takes_pid = queue->takes.pid,
                               .ends = queue->ends,
                               .ends_in_turn = queue->end.listed,
                               .ended_by = queue->ended_by ? queue->ended_by->peer_id : PEER_NPUD};
    memcpy(r->name, queue->name, sizeof(r->name));
    return sizeof(*r);
}

bool queue_keep(struct queue *queue)
{
    queue_ring_keep(&queue->ring);
    return kept_make(&queue->kept, KEPT_QUEUE, sizeof(struct queue_record), write_queue);
}

static void charge_again(struct queue *queue)
{
    user_charge_again(&queue->charge, queue->user, RESOURCE_QUEUES, 1, false);
    user_charge_again(&queue->charge_fds, queue->user, RESOURCE_FDS, QUEUE_FILES, true);
    user_charge_again(&queue->charge_memory, queue->user, RESOURCE_TABLE_MEMORY,
                      queue_table_bytes(queue->ring.view.depth), false);
}

bool queue_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_record r;
    struct queue *queue;
    struct user *user;

    kept_read(cell, &r, sizeof(r));
    user = user_ref(&server->users, r.uid);
    if (!user || r.id >= QUEUE_IDS || queue_of_user(user, r.id))
        return false;
    queue = queue_make(server, user, r.id, r.serial);
    if (!queue || !restored_add(&restored, r.serial, queue) ||
        !queue_ring_restore(&queue->ring, &r.ring) ||
        !kept_bind(&queue->kept, cell, sizeof(r), write_queue))
        return false;
    /* The one that was made last is the last one here. */
    user->next_queue = (r.id + 1) % QUEUE_IDS;
    queue->before = r.before;
    queue->creator = r.creator != PEER_NPUD ? peer_session(server, r.creator) : NULL;
    queue->puts = (struct queue_party){.gone = r.puts_gone, .pid = r.puts_pid};
    queue->takes = (struct queue_party){.gone = r.takes_gone, .pid = r.takes_pid};
    queue->ends = r.ends;
    queue->ended_by = r.ended_by != PEER_NPUD ? peer_session(server, r.ended_by) : NULL;
    snprintf(queue->name, sizeof(queue->name), "%.127s", r.name);
    server->queues->by_number[queue->ring.view.number] = queue;
    charge_again(queue);
    if (r.ends_in_turn)
        job_list(&queue->end);
    return true;
}

struct queue *queue_restored(uint64_t serial)
{
    return restored_find(&restored, serial);
}

void queues_finish_restoring(struct server *server)
{
    struct queue_attach *attach;
    struct queue *queue;

    restored_forget(&restored);
    DL_FOREACH (server->queues->all, queue) {
        queue_routed(queue);
        DL_FOREACH2 (queue->attached, attach, qnext) {
            queue_count_again(attach);
            queue_attach_trace(attach);
        }
        if (!queue->attached && !queue->grants)
            job_list(&queue->end);
    }
}

/* --- attachments --- */

static size_t write_attach(const struct kept *kept, void *record)
{
    const struct queue_attach *attach =
        (const struct queue_attach *)((const char *)kept - offsetof(struct queue_attach, kept));

    *(struct queue_attach_record *)record =
        (struct queue_attach_record){.serial = attach->serial,
                                     .peer = attach->peer->number,
                                     .id = attach->id,
                                     .rights = attach->rights,
                                     .counted = attach->counted,
                                     .spoils = attach->spoils,
                                     .leaving = attach->told,
                                     .idle = attach->idle,
                                     .bell_key = route_bell_key(attach)};
    return sizeof(struct queue_attach_record);
}

bool queue_attach_keep(struct queue_attach *attach)
{
    return kept_make(&attach->kept, KEPT_QUEUE_ATTACH, sizeof(struct queue_attach_record),
                     write_attach);
}

bool queue_attach_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_attach_record r;
    struct queue_attach *attach;
    struct queue *queue;
    struct peer *peer;

    kept_read(cell, &r, sizeof(r));
    queue = queue_restored(r.serial);
    peer = peer_restored(server, r.peer);
    attach = queue && peer && peer->session ? queue_attach_make(peer, queue, r.id, r.rights) : NULL;
    if (!attach || !kept_bind(&attach->kept, cell, sizeof(r), write_attach))
        return false;
    user_charge_again(&attach->charge, peer->session->user, RESOURCE_TABLE_MEMORY, sizeof(*attach),
                      false);
    attach->leaving = attach->told = r.leaving;
    attach->idle = r.idle;
    attach->counted = r.counted;
    attach->spoils = r.spoils;
    if (!route_bell_restore(attach, r.bell_key))
        return false;
    /* Those that are leaving stand behind the others: queue_sweep_attachment(). */
    if (!attach->leaving && peer->attached->prev->prev->leaving && peer->attached != attach) {
        DL_DELETE(peer->attached, attach);
        DL_PREPEND(peer->attached, attach);
    }
    return true;
}
