#include "daemon/buffers/peer.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/kept/buffers_record.h"
#include "daemon/kept/record.h"
#include "proto/shm/mbuf_shm.h"

static bool run_tell(struct job *job);

int peers_init(struct peers *peers, struct job_owner *owner)
{
    peers->tell = (struct job){run_tell, "news of segments", owner};
    /* A megabyte of which only the pages with sessions in them are ever touched. */
    peers->by_number = calloc(PEER_MAX + 1, sizeof(struct peer_slot));
    return peers->by_number ? 0 : -ENOMEM;
}

void peers_deinit(struct peers *peers)
{
    assert(!peers->to_tell);
    job_cancel(&peers->tell);
    free(peers->by_number);
    *peers = (struct peers){0};
}

static bool take_number(struct session *session, uint32_t range)
{
    struct server *server = session->server;

    for (uint32_t i = 0; i < range; i++) {
        struct peer_slot *n;

        server->last->peer = server->last->peer % range + 1;
        n = &server->peers->by_number[server->last->peer];
        if (n->session || n->left)
            continue;
        n->session = session;
        session->peer_id = (uint32_t)server->last->peer;
        KILL_HERE(PEER_NUMBERED);
        return true;
    }
    return false;
}

/*
 * Numbers are used again as late as possible, but while few are in use from 1 again after 1023: a
 * few pages of the table serve most hosts.
 */
bool peer_give_id(struct session *session)
{
    return (session->server->n_sessions < 512 && take_number(session, 1023)) ||
           take_number(session, PEER_MAX);
}

void peer_restore_id(struct session *session, uint32_t number)
{
    session->peer_id = number;
    session->server->peers->by_number[number].session = session;
}

struct session *peer_session(struct server *server, uint32_t number)
{
    return number <= PEER_MAX ? server->peers->by_number[number].session : NULL;
}

struct peer *peer_left(struct server *server, uint32_t number)
{
    return number <= PEER_MAX ? server->peers->by_number[number].left : NULL;
}

void peer_tell_no_more(struct peer *peer)
{
    if (peer->to_be_told)
        DL_DELETE2(peer->server->peers->to_tell, peer, told_prev, told_next);
    peer->to_be_told = false;
}

static bool run_tell(struct job *job)
{
    struct peers *peers = (struct peers *)((char *)job - offsetof(struct peers, tell));

    while (peers->to_tell) {
        struct peer *peer = peers->to_tell;

        peer_tell_no_more(peer);
        session_tell_retired(peer->session);
        if (schedule_late(&peer->server->schedule))
            break;
    }
    return peers->to_tell != NULL;
}

void peer_tell_retired(struct peer *peer)
{
    struct peers *peers = peer->server->peers;

    if (!peer->session)
        return;
    if (!schedule_late(&peer->server->schedule)) {
        session_tell_retired(peer->session);
        return;
    }
    if (!peer->to_be_told)
        DL_APPEND2(peers->to_tell, peer, told_prev, told_next);
    peer->to_be_told = true;
    job_list(&peers->tell);
}

struct peer *peer_get(struct session *session)
{
    if (!session->peer) {
        session->peer = calloc(1, sizeof(*session->peer));
        if (session->peer)
            *session->peer = (struct peer){
                .server = session->server, .session = session, .number = session->peer_id};
    }
    return session->peer;
}

/* --- over the end of npud --- */

#define PEER_MEMBERS(DO)                                                                           \
    DO##FIND(survivor, survivor, session_id, survivor_by_session(r->survivor));                    \
    DO##SAME(number, number);

RECORD(, peer, PEER, struct peer, kept, struct peer_record, PEER_MEMBERS)

bool peer_restore(struct server *server, struct kept_cell *cell,
                  bool (*exited)(struct survivor_part *part))
{
    struct peer_record r;
    struct peer *peer;

    kept_read(cell, &r, sizeof(r));
    if (r.number > PEER_MAX)
        return false;
    /* The end of its session has not come to its end: all of it is done again. */
    if (peer_session(server, r.number)) {
        kept_discard(cell);
        return true;
    }
    peer = calloc(1, sizeof(*peer));
    if (!peer || !peer_back(server, peer, cell, &r))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): npud ends if it cannot restore */
        return false;
    peer->server = server;
    server->peers->by_number[r.number].left = peer;
    survivor_add(peer->survivor, &peer->left, exited);
    return true;
}

struct peer *peer_restored(struct server *server, uint32_t number)
{
    struct session *session = peer_session(server, number);

    return session ? peer_get(session) : peer_left(server, number);
}
