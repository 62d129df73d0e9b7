/* What is kept of queues and attachments, and how they come back: a part of queue.h. */
#include "daemon/buffers/queue.h"

#include <stddef.h>
#include <utlist.h>

#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/route_bell.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/record.h"
#include "daemon/kept/restored.h"

static struct restored restored;

/* --- queues --- */

#define QUEUE_MEMBERS(DO)                                                                          \
    DO##DERIVED(serial, o->serial);                                                                \
    DO##SAME(before, before);                                                                      \
    DO##DERIVED(ring, queue_ring_record(&o->ring));                                                \
    DO##DERIVED(id, o->id);                                                                        \
    DO##DERIVED(uid, o->user->uid);                                                                \
    DO##DERIVED(creator, o->creator ? o->creator->peer_id : PEER_NPUD);                            \
    DO##SAME(puts_gone, puts.gone);                                                                \
    DO##SAME(takes_gone, takes.gone);                                                              \
    DO##SAME(puts_pid, puts.pid);                                                                  \
    DO##SAME(takes_pid, takes.pid);                                                                \
    DO##SAME(ends, ends);                                                                          \
    DO##DERIVED(ends_in_turn, o->end.listed);                                                      \
    DO##DERIVED(ended_by, (uint16_t)(o->ended_by ? o->ended_by->peer_id : PEER_NPUD));             \
    DO##BYTES(name, name);                                                                         \
    DO##SAME(channel, channel.device);

RECORD(static, record_of_queue, QUEUE, struct queue, kept, struct queue_record, QUEUE_MEMBERS)

bool queue_keep(struct queue *queue)
{
    queue_ring_keep(&queue->ring);
    return record_of_queue_keep(queue);
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
        !record_of_queue_back(server, queue, cell, &r) ||
        (queue->channel.device != 0 && !queue->ends && !channel_name_list(user, &queue->channel)))
        return false;
    /* The one that was made last is the last one here. */
    user->next_queue = (r.id + 1) % QUEUE_IDS;
    queue->creator = r.creator != PEER_NPUD ? peer_session(server, r.creator) : NULL;
    queue->ended_by = r.ended_by != PEER_NPUD ? peer_session(server, r.ended_by) : NULL;
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
    struct queue *queue, *next;

    restored_forget(&restored);
    DL_FOREACH (server->queues->all, queue) {
        queue_routed(queue);
        DL_FOREACH2 (queue->attached, attach, qnext) {
            queue_count_again(attach);
            queue_attach_trace(attach);
        }
        /* Its own job was to end it, and may not have been listed yet. */
        if ((queue->ends && !queue->ended_by) || (!queue->attached && !queue->grants))
            job_list(&queue->end);
    }
    DL_FOREACH_SAFE (server->queues->all, queue, next)
        if (queue->bell_lost && queue->route && !queue->ends)
            queue_move_or_destroy(queue);
}

/* --- attachments --- */

#define ATTACH_MEMBERS(DO)                                                                         \
    DO##DERIVED(serial, o->serial);                                                                \
    DO##DERIVED(peer, o->peer->number);                                                            \
    DO##DERIVED(id, o->id);                                                                        \
    DO##DERIVED(rights, o->rights);                                                                \
    DO##SAME(counted, counted);                                                                    \
    DO##SAME(spoils, spoils);                                                                      \
    DO##SAME(leaving, told);                                                                       \
    DO##SAME(idle, idle);                                                                          \
    DO##DERIVED(bell_key, route_bell_key(o));

RECORD(, queue_attach, QUEUE_ATTACH, struct queue_attach, kept, struct queue_attach_record,
       ATTACH_MEMBERS)

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
    if (!attach || !queue_attach_back(server, attach, cell, &r))
        return false;
    user_charge_again(&attach->charge, peer->session->user, RESOURCE_TABLE_MEMORY, sizeof(*attach),
                      false);
    attach->leaving = attach->told;
    if (!route_bell_restore(attach, r.bell_key))
        return false;
    /* Those that are leaving stand behind the others: queue_sweep_attachment(). */
    if (!attach->leaving && peer->attached->prev->prev->leaving && peer->attached != attach) {
        DL_DELETE(peer->attached, attach);
        DL_PREPEND(peer->attached, attach);
    }
    return true;
}
