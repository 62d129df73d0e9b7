#include "tests/hostile/attack.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tests/common/harness.h"
#include "tests/hostile/row.h"

/* Shared with all hostile processes. */
static struct {
    _Atomic uint32_t standing;
    _Atomic uint64_t turns;
} * shared;

void attack_begin(void)
{
    shared = child_share(sizeof(*shared));
}

uint32_t attacks_standing(void)
{
    return atomic_load(&shared->standing);
}

uint64_t attack_turns(void)
{
    return atomic_load(&shared->turns);
}

void state_stands(void)
{
    atomic_fetch_add(&shared->standing, 1);
}

void turn_done(void)
{
    atomic_fetch_add(&shared->turns, 1);
}

struct raw *session_new(unsigned streams)
{
    struct raw *raw = calloc(1, sizeof(*raw));

    must(raw != NULL, "memory");
    raw->socket = -1;
    must(raw_open(raw) && raw_open_device(raw, 0), "session");
    while (raw->n_streams < streams)
        must(raw_create_stream(raw, 0), "stream");
    return raw;
}

void session_free(struct raw *raw)
{
    raw_close(raw);
    free(raw);
}

bool session_ask(struct raw *raw, Npud__Request *request)
{
    Npud__Reply *reply = raw_ask(raw, request, NULL);
    bool ok = reply && reply->error == 0;

    must(reply != NULL, "npud has ended the session");
    npud__reply__free_unpacked(reply, NULL);
    return ok;
}

void put_task(struct raw *raw, unsigned stream, const struct task *task)
{
    raw_put(raw, &raw->stream[stream], task);
    raw_ring(raw, &raw->stream[stream]);
}

Npud__NotifyReply notify_new(struct raw *raw, bool counts)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateNotify create = NPUD__CREATE_NOTIFY__INIT;
    Npud__NotifyReply notify;
    Npud__Reply *reply;

    create.counts = counts;
    request.create_notify = &create;
    request.body_case = NPUD__REQUEST__BODY_CREATE_NOTIFY;
    reply = raw_ask(raw, &request, NULL);
    must(reply && reply->error == 0, "notify");
    notify = *reply->notify;
    npud__reply__free_unpacked(reply, NULL);
    return notify;
}
