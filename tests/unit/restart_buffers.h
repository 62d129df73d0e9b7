/*
 * Shared buffers over the end of npud: clients that the test plays, each with a process of its own,
 * that ask by their sockets; their messages, which have numbers; and all that there is, as text, to
 * compare one run with another.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <utlist.h>

#include "daemon/base/pidfd.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"
#include "daemon/buffers/router.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/unit/restart.h"

#include "tests/unit/messages.h"

/* --- clients --- */

#define CLIENTS 4

static struct client {
    int fd;
    pid_t pid; /* 0: it has ended */
    pid_t process;
    uint64_t last_id;
    uint32_t peer;
    bool asks; /* a request that is not answered */
} client[CLIENTS];

#define OWNER  (&client[0])
#define READER (&client[1])
#define WRITER (&client[2])
#define OTHER  (&client[3])

/* The answer that was read last. */
static struct {
    int32_t error;
    uint32_t id, number, rights;
    int32_t status;
    unsigned n_fds, copies;
    int fd[3];
} answer;

static inline pid_t start_process(void)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(0, ~0u, 0);
    for (;;)
        pause();
}

static inline struct session *session_of(const struct client *c)
{
    return peer_session(&server, c->peer);
}

/* npud gives a process whose socket is closed some milliseconds to die. */
static inline bool one_is_dying(void)
{
    struct session *s;

    DL_FOREACH (server.sessions, s)
        if (s->state == SESSION_DYING)
            return true;
    return false;
}

static inline void turns(void *arg)
{
    (void)arg;
    npud_turn();
    while (one_is_dying())
        schedule_round(&server.schedule, server.base, true);
    npud_turn();
}

static inline void put_request(struct client *c, Npud__Request *request)
{
    request->id = ++c->last_id;
    ck_assert_int_eq(packet_send_message(c->fd, &request->base, NULL, 0, 0), 0);
    c->asks = true;
}

static inline void note_answer(const Npud__Reply *reply)
{
    answer.error = reply->error;
    if (reply->body_case == NPUD__REPLY__BODY_SEGMENT) {
        answer.id = reply->segment->id;
        answer.number = (uint32_t)reply->segment->number;
    } else if (reply->body_case == NPUD__REPLY__BODY_QUEUE) {
        answer.id = reply->queue->queue;
        answer.number = reply->queue->number;
        answer.rights = reply->queue->rights;
    } else if (reply->body_case == NPUD__REPLY__BODY_ROUTES) {
        answer.status = reply->routes->routes[0]->status;
    }
}

/* One, or the same one twice. */
static inline void read_answer(struct client *c)
{
    struct packet packet;

    for (unsigned i = 0; i < answer.n_fds; i++)
        close(answer.fd[i]);
    memset(&answer, 0, sizeof(answer));
    while (packet_recv(c->fd, &packet, MSG_DONTWAIT) > 0) {
        Npud__Reply *reply = npud__reply__unpack(NULL, packet.size, packet.data);

        ck_assert_ptr_nonnull(reply);
        ck_assert_uint_eq(reply->id, c->last_id);
        note_answer(reply);
        npud__reply__free_unpacked(reply, NULL);
        for (unsigned i = 0; i < answer.n_fds; i++)
            close(answer.fd[i]);
        answer.n_fds = packet.n_fds;
        for (unsigned i = 0; i < packet.n_fds; i++)
            answer.fd[i] = packet_take_fd(&packet, i);
        packet_deinit(&packet);
        answer.copies++;
    }
    c->asks = answer.copies == 0;
}

static inline int32_t ask(struct client *c, Npud__Request *request)
{
    put_request(c, request);
    npud_turn();
    read_answer(c);
    ck_assert_uint_eq(answer.copies, 1);
    return answer.error;
}

#define MAKE_REQUEST(name, NAME, Type)                                                             \
    Npud__##Type name = NPUD__##NAME##__INIT;                                                      \
    Npud__Request request = NPUD__REQUEST__INIT;                                                   \
    request.name = &name;                                                                          \
    request.body_case = NPUD__REQUEST__BODY_##NAME

static inline void begin_client(unsigned i)
{
    struct client *c = &client[i];
    struct client_process process = {.uid = 1000};
    struct session *session;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    *c = (struct client){.fd = ends[0], .pid = start_process()};
    c->process = c->pid;
    process.pid = c->pid;
    process.pidfd = pidfd_open_process(c->pid);
    session = session_new_for(&server, ends[1], &process);
    ck_assert_ptr_nonnull(session);
    c->peer = session->peer_id;
    kept_commit();
    MAKE_REQUEST(hello, HELLO, Hello);
    hello.protocol = PROTOCOL;
    hello.program = (char *)"restarted";
    ck_assert_int_eq(ask(c, &request), 0);
}

/* The first npud, with all clients. */
static inline void begin_clients(void)
{
    restart_start(NULL);
    for (unsigned i = 0; i < CLIENTS; i++)
        begin_client(i);
}

static inline void kill_process(struct client *c)
{
    if (c->pid == 0)
        return;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    c->pid = 0;
}

static inline void hang_up(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static inline void await_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ck_assert_int_eq(poll(&p, 1, (int)(GUARD_NS / NSEC_PER_MSEC)), 1);
}

/* The kernel may tell npud of the end of a process, or of a connection, some time after it. */
static inline void await_ends(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct session *s = session_of(&client[i]);

        if (s && client[i].pid == 0)
            await_readable(s->pidfd);
        if (s && client[i].fd < 0)
            await_readable(s->socket);
    }
}

/* Processes die, with their sockets. */
static inline void end_clients(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        kill_process(&client[i]);
        hang_up(&client[i]);
    }
}

/* --- requests: put_...() sends, and the others take the answer, too --- */

static inline void put_create_segment(struct client *c, uint64_t stride, uint32_t count)
{
    MAKE_REQUEST(create_segment, CREATE_SEGMENT, CreateSegment);
    create_segment.stride = stride;
    create_segment.count = count;
    put_request(c, &request);
}

static inline void put_map_segment(struct client *c, uint32_t id)
{
    MAKE_REQUEST(map_segment, MAP_SEGMENT, MapSegment);
    map_segment.segment = id;
    put_request(c, &request);
}

static inline void put_trim_segment(struct client *c, uint32_t id)
{
    MAKE_REQUEST(trim_segment, TRIM_SEGMENT, TrimSegment);
    trim_segment.segment = id;
    put_request(c, &request);
}

static inline void put_create_queue(struct client *c, uint32_t depth)
{
    MAKE_REQUEST(create_queue, CREATE_QUEUE, CreateQueue);
    create_queue.name = (char *)"kept";
    create_queue.depth = depth;
    put_request(c, &request);
}

static inline void put_destroy_queue(struct client *c, uint32_t queue)
{
    MAKE_REQUEST(destroy_queue, DESTROY_QUEUE, DestroyQueue);
    destroy_queue.queue = queue;
    put_request(c, &request);
}

static inline void put_grant_queue(struct client *c, uint32_t queue, pid_t pid, uint32_t rights)
{
    MAKE_REQUEST(grant_queue, GRANT_QUEUE, GrantQueue);
    grant_queue.queue = queue;
    grant_queue.pid = pid;
    grant_queue.rights = rights;
    put_request(c, &request);
}

static inline void put_attach_queue(struct client *c, uint32_t queue)
{
    MAKE_REQUEST(attach_queue, ATTACH_QUEUE, AttachQueue);
    attach_queue.queue = queue;
    put_request(c, &request);
}

static inline void put_open_channel(struct client *c, const char *name)
{
    MAKE_REQUEST(open_channel, OPEN_CHANNEL, OpenChannel);
    open_channel.device = 1;
    open_channel.name = (char *)name;
    open_channel.depth = 16;
    put_request(c, &request);
}

static inline void put_close_channel(struct client *c, uint32_t queue)
{
    MAKE_REQUEST(close_channel, CLOSE_CHANNEL, CloseChannel);
    close_channel.queue = queue;
    put_request(c, &request);
}

static inline void put_allow_map(struct client *c, uint32_t number, uint32_t segment)
{
    MAKE_REQUEST(allow_map, ALLOW_MAP, AllowMap);
    allow_map.number = number;
    allow_map.segment = segment;
    put_request(c, &request);
}

static inline void put_bell(struct client *c, uint32_t number)
{
    MAKE_REQUEST(queue_bell, QUEUE_BELL, QueueBell);
    queue_bell.number = number;
    put_request(c, &request);
}

static inline void put_bind(struct client *c, uint32_t source, uint32_t destination)
{
    Npud__Route route = NPUD__ROUTE__INIT, *list[] = {&route};
    MAKE_REQUEST(bind_routes, BIND_ROUTES, BindRoutes);

    route.source = source;
    route.destination = destination;
    bind_routes.routes = list;
    bind_routes.n_routes = 1;
    put_request(c, &request);
}

static inline void put_unbind(struct client *c, uint32_t source, uint32_t destination)
{
    Npud__Route route = NPUD__ROUTE__INIT, *list[] = {&route};
    MAKE_REQUEST(unbind_routes, UNBIND_ROUTES, UnbindRoutes);

    route.source = source;
    route.destination = destination;
    unbind_routes.routes = list;
    unbind_routes.n_routes = 1;
    put_request(c, &request);
}

/** What npud has answered already, maybe twice: without error. */
static inline void expect_answer(struct client *c)
{
    read_answer(c);
    ck_assert_uint_ge(answer.copies, 1);
    ck_assert_msg(answer.error == 0, "error %d", answer.error);
}

/** The answer to what was put: without error. */
static inline void expect_done(struct client *c)
{
    npud_turn();
    expect_answer(c);
}

static inline void expect_owner(void)
{
    expect_answer(OWNER);
}

/* --- queues and messages --- */

static inline struct queue *queue_with_id(uint32_t id)
{
    struct user *user = user_find(&server.users, 1000);
    struct queue *queue = user ? queue_of_user(user, id) : NULL;

    ck_assert_ptr_nonnull(queue);
    return queue;
}

static inline struct queue_view *ring_of(uint32_t id)
{
    return &queue_with_id(id)->ring.view;
}

static inline uint32_t make_segment_of(struct client *c, uint32_t count)
{
    put_create_segment(c, 64, count);
    expect_done(c);
    ck_assert_uint_eq(answer.n_fds, 2);
    return answer.id;
}

static inline uint32_t make_queue_of(struct client *c, uint32_t depth)
{
    put_create_queue(c, depth);
    expect_done(c);
    ck_assert_uint_eq(answer.n_fds, 3);
    return answer.id;
}

/* The client may use the queue with these rights. */
static inline void share_queue(struct client *owner, uint32_t queue, struct client *with,
                               uint32_t rights)
{
    put_grant_queue(owner, queue, with->pid, rights);
    expect_done(owner);
    put_attach_queue(with, queue);
    expect_done(with);
}

static inline void allow_map(struct client *c, uint32_t queue, uint32_t segment)
{
    put_allow_map(c, ring_of(queue)->number, segment);
    expect_done(c);
}

static inline void map_segment(struct client *c, uint32_t segment)
{
    put_map_segment(c, segment);
    expect_done(c);
}

static inline void ring_bell(uint32_t queue)
{
    struct relay *relay = queue_with_id(queue)->route;

    if (relay)
        relay_make_ready(relay);
}

/* A chain of two buffers, the head of which has this number. Returns its ref. */
static inline uint32_t make_message(struct client *c, uint32_t segment, uint64_t number)
{
    struct session *s = session_of(c);
    struct segment *seg = segment_find(&server, segment);
    uint32_t ref = make_buffer(s, seg), second = make_buffer(s, seg);
    struct mbuf *m = find_buffer(ref), *n = find_buffer(second);
    uint64_t w = atomic_load(&n->word);

    atomic_store(&m->user_set, 1);
    memset(m->user, 0, sizeof(m->user));
    memcpy(m->user, &number, sizeof(number));
    atomic_store(&n->word, mbuf_word_member(mbuf_generation(w) + 1, ref));
    atomic_store(&n->next, 0);
    atomic_store(&m->next, second);
    atomic_store(&m->tail, second);
    atomic_store(&m->count, 2);
    return ref;
}

static inline bool put_number(struct client *c, uint32_t queue, uint32_t segment, uint64_t number)
{
    uint32_t ref = make_message(c, segment, number);
    bool put = put_message(ring_of(queue), session_of(c), ref) == QUEUE_OK;

    if (!put)
        ck_abort_msg("message %llu does not fit", (unsigned long long)number);
    return put;
}

static inline uint64_t number_of(uint32_t ref)
{
    uint64_t number;

    memcpy(&number, find_buffer(ref)->user, sizeof(number));
    return number;
}

/* What it holds is freed, as a client does it. */
static inline void drop_message(uint32_t ref)
{
    uint32_t second = atomic_load(&find_buffer(ref)->next);
    bool full = false;

    ck_assert_ptr_nonnull(find_buffer(second));
    ck_assert_uint_eq(mbuf_state(find_buffer(second)->word), MBUF_MEMBER);
    ck_assert_uint_eq(mbuf_head(find_buffer(second)->word), ref);
    mbuf_drop(&segment_find(&server, second >> 16)->view, find_buffer(second), &full);
    mbuf_drop(&segment_find(&server, ref >> 16)->view, find_buffer(ref), &full);
}

/* The number of the next message, which is freed; 0: there is none. */
static inline uint64_t take_number(struct client *c, uint32_t queue)
{
    uint32_t ref = take_message(ring_of(queue), session_of(c));
    uint64_t number;

    if (ref == 0)
        return 0;
    number = number_of(ref);
    drop_message(ref);
    ring_bell(queue);
    return number;
}

/* Messages first to last, in this order, and no other. npud delivers meanwhile. */
static inline void take_numbers(struct client *c, uint32_t queue, uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++) {
        uint64_t number = take_number(c, queue);

        npud_turn();
        if (number == 0)
            number = take_number(c, queue);
        npud_turn();
        ck_assert_msg(number == n, "message %llu of queue %u is %llu", (unsigned long long)n, queue,
                      (unsigned long long)number);
    }
    ck_assert_uint_eq(take_number(c, queue), 0);
    npud_turn();
    ck_assert_uint_eq(take_number(c, queue), 0);
}

/* --- all of it, as text --- */

#define DUMP_LINES 4096
#define DUMP_LINE  160
struct dump {
    unsigned n;
    char line[DUMP_LINES][DUMP_LINE];
};

static inline __attribute__((format(printf, 2, 3))) void dump_line(struct dump *d,
                                                                   const char *format, ...)
{
    va_list args;

    ck_assert_uint_lt(d->n, DUMP_LINES);
    va_start(args, format);
    vsnprintf(d->line[d->n++], DUMP_LINE, format, args);
    va_end(args);
}

static inline int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The client with this process; -1: none. */
static inline int who(pid_t pid)
{
    for (int i = 0; i < CLIENTS; i++)
        if (client[i].process == pid)
            return i;
    return -1;
}

/* By its id, which no restart changes; -1: of a ring that has ended. */
static inline int id_of_ring(uint32_t number)
{
    struct queue *queue = queue_by_number(&server, number);

    return queue ? (int)queue->id : -1;
}

static inline void dump_slots(struct dump *d, const struct segment *s)
{
    for (uint32_t i = 0; i < segment_slots(&s->view); i++) {
        const struct mbuf *m = &s->view.mbufs[i];
        uint64_t w = atomic_load(&m->word), number;

        memcpy(&number, m->user, sizeof(number));
        if (mbuf_state(w) == MBUF_SENDING)
            dump_line(d, "slot of %d: sending, by %u to %d, %llu", who(s->pool->pid),
                      mbuf_session(w), id_of_ring(mbuf_queue(w)), (unsigned long long)number);
        else if (mbuf_state(w) == MBUF_HELD)
            dump_line(d, "slot of %d: held by %u, %llu", who(s->pool->pid), mbuf_session(w),
                      (unsigned long long)number);
        else if (mbuf_state(w) == MBUF_MEMBER)
            dump_line(d, "slot of %d: member of %llu", who(s->pool->pid),
                      (unsigned long long)number_of(mbuf_head(w)));
        else if (mbuf_state(w) != MBUF_FREE)
            dump_line(d, "slot of %d: state %d, refs %u", who(s->pool->pid), (int)mbuf_state(w),
                      mbuf_refs_count(m->refs));
    }
}

static inline void dump_pools(struct dump *d)
{
    struct segment_map *map;
    struct segment *s;
    struct pool *pool;

    DL_FOREACH (server.pools->list, pool) {
        dump_line(d, "pool of %d%s: %u segments", who(pool->pid), pool->session ? "" : ", orphan",
                  pool->n_segments);
        DL_FOREACH (pool->segments, s) {
            const struct segment_news *news = s->view.news;

            dump_line(d,
                      "segment of %d: %llu bytes, %u maps, %u lost, %u left, draining %u, dead %u, "
                      "spoiled %d",
                      who(pool->pid), (unsigned long long)s->size, s->n_maps, s->n_lost, s->n_left,
                      news->draining, news->dead, s->spoiled);
            DL_FOREACH (s->maps, map)
                dump_line(d, "map of %d by %u: rights %u, lost %d, left %d, passed on %d",
                          who(pool->pid), map->peer->number, map->left ? 0 : map->n_rights,
                          map->lost, map->left, map->passed_on);
            dump_slots(d, s);
        }
    }
}

static inline unsigned count_allowed(const struct queue *queue)
{
    struct segment *s;
    struct pool *pool;
    unsigned n = 0;

    DL_FOREACH (server.pools->list, pool)
        DL_FOREACH (pool->segments, s)
            n += queue_allows_map(queue, s);
    return n;
}

static inline void dump_queues(struct dump *d)
{
    struct queue_attach *attach;
    struct queue *queue;
    struct grant *grant;

    DL_FOREACH (server.queues->all, queue) {
        const struct queue_news *news = queue->ring.view.news;

        dump_line(d,
                  "queue %u %s: depth %u, creator %u, puts %u %u %d, takes %u %u %d, allows %u, "
                  "rest %d, ends %d",
                  queue->id, queue->name, queue->ring.view.depth,
                  queue->creator ? queue->creator->peer_id : 0, queue->puts.n, queue->puts.gone,
                  who(queue->puts.pid), queue->takes.n, queue->takes.gone, who(queue->takes.pid),
                  count_allowed(queue), queue->rest != NULL, queue->ends);
        dump_line(d, "news of queue %u: state %u, puts %u %u %d %u, takes %u %u %d %u", queue->id,
                  news->state, news->puts.n, news->puts.gone, who(news->puts.pid),
                  news->puts.routed, news->takes.n, news->takes.gone, who(news->takes.pid),
                  news->takes.routed);
        dump_line(d, "fill of queue %u: %u, taken %llu", queue->id, queue_fill(&queue->ring.view),
                  (unsigned long long)queue_messages(queue));
        DL_FOREACH2 (queue->attached, attach, qnext)
            dump_line(d, "attached to %u: %u as %u, rights %u, leaving %d", queue->id,
                      attach->peer->number, attach->id, attach->rights, attach->leaving);
        DL_FOREACH (queue->grants, grant)
            dump_line(d, "grant of %u: to %d, rights %u", queue->id, who(grant->pid),
                      grant->rights);
    }
}

static inline void dump_routes(struct dump *d)
{
    struct route *route;

    DL_FOREACH (server.router->all, route) {
        const struct route_name *name = &route->name;

        dump_line(d, "route %u to %u: state %d, binder %u, ends %d%d", name->source,
                  name->destination, (int)route->state, route->binder ? route->binder->number : 0,
                  route->source != NULL, route->destination != NULL);
        for (uint32_t i = 0; i < route->backlog.n; i++) {
            const struct message *m =
                route->backlog.item[(route->backlog.first + i) & (route->backlog.size - 1)];

            dump_line(d, "backlog %u to %u, %05u: message %llu, routes %u", name->source,
                      name->destination, i, (unsigned long long)number_of(m->ref), m->n_routes);
        }
    }
}

/* What is free has been given back: when npud looks is not the same after a restart. */
static inline void look_at_pools(void)
{
    struct pool *pool;

    DL_FOREACH (server.pools->list, pool)
        job_list(&pool->job);
    npud_turn();
}

/* How much room a backlog has depends on what it had. */
static inline uint64_t bytes_of_backlogs(void)
{
    struct route *route;
    uint64_t bytes = 0;

    DL_FOREACH (server.router->all, route)
        bytes += route->backlog.charge.amount;
    return bytes;
}

static inline void dump_all(struct dump *d)
{
    struct user *user;

    look_at_pools();
    user = user_find(&server.users, 1000);
    d->n = 0;
    dump_pools(d);
    dump_queues(d);
    dump_routes(d);
    /* What clients have not read is not known to a later npud: the kernel knows. */
    for (int i = 0; user && i < RESOURCE_COUNT; i++)
        if (i != RESOURCE_UNREAD_FDS)
            dump_line(d, "%s: %llu", resource_names[i],
                      (unsigned long long)(user->used[i] -
                                           (i == RESOURCE_TABLE_MEMORY ? bytes_of_backlogs() : 0)));
    dump_line(d, "sessions %u, descriptors kept %u", server.n_sessions, restart_fds());
    qsort(d->line, d->n, DUMP_LINE, compare_lines);
}

static inline void compare_dumps(const struct dump *a, const struct dump *b, const char *what)
{
    for (unsigned i = 0; i < a->n || i < b->n; i++) {
        const char *x = i < a->n ? a->line[i] : "nothing", *y = i < b->n ? b->line[i] : "nothing";

        if (strcmp(x, y) == 0)
            continue;
        ck_abort_msg("%s:\n  %s\nis\n  %s", what, x, y);
    }
}

/* npud is replaced so often, and all is as it was. */
static inline void expect_the_same(unsigned times)
{
    static struct dump before, after;

    dump_all(&before);
    for (unsigned i = 0; i < times; i++) {
        restart_npud();
        npud_turn();
        dump_all(&after);
        compare_dumps(&before, &after, "restarted");
    }
}

/* Each buffer is back in its pool. */
static inline void expect_no_buffer(void)
{
    static struct dump d;

    d.n = 0;
    dump_pools(&d);
    for (unsigned i = 0; i < d.n; i++)
        ck_assert_msg(strncmp(d.line[i], "slot", 4) != 0, "%s", d.line[i]);
}

/* --- a step that is cut short at each place --- */

struct cut_short {
    void (*begin)(void); /* what there is before */
    void (*act)(void);   /* requests are put, clients die */
    void (*done)(void);  /* answers are taken */
    void (*end)(void);   /* what comes later, the same as ever; or NULL */
};

static inline void nothing(void)
{
}

static inline void end_all(void)
{
    end_clients();
    npud_turn();
    ck_assert_uint_eq(server.n_sessions, 0);
    restart_stop();
}

static unsigned first_hits[RESTART_PLACES], killed;

/* A run that is cut short at this place, when it is passed for this time; 0: not at all. */
static inline void run_cut(const struct cut_short *cut, unsigned place, unsigned pass,
                           struct dump *dump)
{
    begin_clients();
    cut->begin();
    cut->act();
    await_ends();
    /* How often a place is passed depends on how long steps take. */
    killed += restart_kill(place, pass, turns, NULL);
    /* Also one that ends as soon as it has come. */
    if (pass % 2 == 1)
        restart_npud();
    if (pass == 0)
        memcpy(first_hits, restart_hits, sizeof(first_hits));
    npud_turn();
    cut->done();
    npud_turn();
    dump_all(dump);
    if (cut->end)
        cut->end();
    end_all();
}

/* Of a place: the first ones, and some of the others. */
#define PASSES_MAX 24

static inline unsigned next_pass(unsigned pass)
{
    return pass < 3 || getenv("NPUD_TEST_LONG") ? pass + 1 : pass + 10;
}

/* Each place, each time that it is passed: the end is that of a run without. */
static inline void cut_short(const struct cut_short *cut)
{
    static struct dump undisturbed, now;
    unsigned hits[RESTART_PLACES];
    char what[64];

    run_cut(cut, 0, 0, &undisturbed);
    /* Once more: how often is each place passed? */
    run_cut(cut, 0, 0, &now);
    compare_dumps(&undisturbed, &now, "without a restart");
    memcpy(hits, first_hits, sizeof(hits));
    for (unsigned place = 0; place < RESTART_PLACES; place++)
        for (unsigned pass = 1; pass <= hits[place] && pass <= PASSES_MAX; pass = next_pass(pass)) {
            run_cut(cut, place, pass, &now);
            snprintf(what, sizeof(what), "place %u, pass %u", place, pass);
            compare_dumps(&undisturbed, &now, what);
        }
    ck_assert_uint_ge(killed, 3); /* the places of an answer, or more */
}
