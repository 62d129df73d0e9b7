#include "tests/common/raw_share.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An answer without error, or NULL: then there are no descriptors either. */
static Npud__Reply *obtain_answer(struct raw *r, Npud__Request *q, int *fds, unsigned n)
{
    Npud__Reply *reply = raw_ask_fds(r, q, fds, n);

    if (!reply || reply->error == 0)
        return reply;
    npud__reply__free_unpacked(reply, NULL);
    for (unsigned i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return NULL;
}

static bool succeed_in_request(struct raw *r, Npud__Request *q)
{
    Npud__Reply *reply = obtain_answer(r, q, NULL, 0);

    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    return reply != NULL;
}

/* --- segments --- */

static bool take_segment(struct raw *r, Npud__Request *q, struct raw_segment *s)
{
    int fd[2];
    Npud__Reply *reply = obtain_answer(r, q, fd, 2);
    struct segment_view *v = &s->view;

    memset(s, 0, sizeof(*s));
    if (!reply)
        return false;
    v->id = reply->segment->id;
    v->number = reply->segment->number;
    v->stride = reply->segment->stride;
    v->n_data = reply->segment->n_data;
    v->n_refs = reply->segment->n_refs;
    npud__reply__free_unpacked(reply, NULL);
    s->size = segment_size(v->n_data, v->n_refs, v->stride);
    s->map = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
    s->fd = fd[0];
    s->news_fd = fd[1];
    v->news = mmap(NULL, SEGMENT_PAGE, PROT_READ, MAP_SHARED, fd[1], 0);
    if (s->map == MAP_FAILED || v->news == MAP_FAILED)
        return false;
    segment_view_place(v, s->map, true);
    return true;
}

bool raw_create_segment(struct raw *r, uint64_t stride, uint32_t count, struct raw_segment *s)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateSegment in = NPUD__CREATE_SEGMENT__INIT;

    in.stride = stride;
    in.count = count;
    q.create_segment = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_SEGMENT;
    return take_segment(r, &q, s);
}

bool raw_map_segment(struct raw *r, uint32_t id, struct raw_segment *s)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__MapSegment in = NPUD__MAP_SEGMENT__INIT;

    in.segment = id;
    q.map_segment = &in;
    q.body_case = NPUD__REQUEST__BODY_MAP_SEGMENT;
    return take_segment(r, &q, s);
}

void raw_unmap_segment(struct raw_segment *s)
{
    if (s->map && s->map != MAP_FAILED) {
        munmap(s->map, s->size);
        munmap(s->view.news, SEGMENT_PAGE);
        close(s->fd);
        close(s->news_fd);
    }
    memset(s, 0, sizeof(*s));
}

bool raw_trim(struct raw *r, uint32_t id)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__TrimSegment in = NPUD__TRIM_SEGMENT__INIT;

    in.segment = id;
    q.trim_segment = &in;
    q.body_case = NPUD__REQUEST__BODY_TRIM_SEGMENT;
    return succeed_in_request(r, &q);
}

/* --- queues --- */

static void *map_as(int fd, size_t size, bool writable)
{
    return mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
}

static bool take_queue(struct raw *r, Npud__Request *request, struct raw_queue *q)
{
    int fd[QUEUE_FILES];
    Npud__Reply *reply = obtain_answer(r, request, fd, QUEUE_FILES);

    memset(q, 0, sizeof(*q));
    if (!reply)
        return false;
    q->id = reply->queue->queue;
    q->rights = reply->queue->rights;
    q->view.depth = reply->queue->depth;
    q->view.mask = queue_slots(q->view.depth) - 1;
    q->view.number = reply->queue->number;
    npud__reply__free_unpacked(reply, NULL);
    memcpy(q->fd, fd, sizeof(fd));
    q->view.put = map_as(fd[0], queue_put_size(q->view.depth), q->rights & QUEUE_PUT);
    q->view.take = map_as(fd[1], queue_take_size(), q->rights & QUEUE_TAKE);
    q->view.news = map_as(fd[2], QUEUE_NEWS_SIZE, false);
    return q->view.put != MAP_FAILED && q->view.take != MAP_FAILED && q->view.news != MAP_FAILED;
}

bool raw_create_queue(struct raw *r, uint32_t depth, struct raw_queue *queue)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateQueue in = NPUD__CREATE_QUEUE__INIT;

    in.name = (char *)"raw";
    in.depth = depth;
    q.create_queue = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_QUEUE;
    return take_queue(r, &q, queue);
}

bool raw_attach_queue(struct raw *r, uint32_t owner, uint32_t id, struct raw_queue *queue)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__AttachQueue in = NPUD__ATTACH_QUEUE__INIT;

    in.queue = id;
    in.of_user = true;
    in.owner = owner;
    in.local = QUEUE_IDS + id;
    q.attach_queue = &in;
    q.body_case = NPUD__REQUEST__BODY_ATTACH_QUEUE;
    return take_queue(r, &q, queue);
}

void raw_unmap_queue(struct raw_queue *q)
{
    munmap(q->view.put, queue_put_size(q->view.depth));
    munmap(q->view.take, queue_take_size());
    munmap(q->view.news, QUEUE_NEWS_SIZE);
    for (int i = 0; i < QUEUE_FILES; i++)
        close(q->fd[i]);
    memset(q, 0, sizeof(*q));
}

bool raw_destroy_queue(struct raw *r, uint32_t id)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__DestroyQueue in = NPUD__DESTROY_QUEUE__INIT;

    in.queue = id;
    q.destroy_queue = &in;
    q.body_case = NPUD__REQUEST__BODY_DESTROY_QUEUE;
    return succeed_in_request(r, &q);
}

bool raw_grant(struct raw *r, uint32_t id, int32_t pid, uint32_t rights)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__GrantQueue in = NPUD__GRANT_QUEUE__INIT;

    in.queue = id;
    in.pid = pid;
    in.rights = rights;
    q.grant_queue = &in;
    q.body_case = NPUD__REQUEST__BODY_GRANT_QUEUE;
    return succeed_in_request(r, &q);
}

bool raw_allow_map(struct raw *r, uint32_t number, uint32_t segment)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__AllowMap in = NPUD__ALLOW_MAP__INIT;

    in.number = number;
    in.segment = segment;
    q.allow_map = &in;
    q.body_case = NPUD__REQUEST__BODY_ALLOW_MAP;
    return succeed_in_request(r, &q);
}

bool raw_bell(struct raw *r, uint32_t number, int *fd)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__QueueBell in = NPUD__QUEUE_BELL__INIT;
    Npud__Reply *reply;

    in.number = number;
    q.queue_bell = &in;
    q.body_case = NPUD__REQUEST__BODY_QUEUE_BELL;
    reply = obtain_answer(r, &q, fd, 1);
    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    return reply != NULL;
}

bool raw_routes(struct raw *r, unsigned n, const uint32_t (*pairs)[2], bool bind)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__BindRoutes in = NPUD__BIND_ROUTES__INIT;
    Npud__UnbindRoutes out = NPUD__UNBIND_ROUTES__INIT;
    static Npud__Route route[ROUTES_MAX], *routes[ROUTES_MAX];

    for (unsigned i = 0; i < n; i++) {
        route[i] = (Npud__Route)NPUD__ROUTE__INIT;
        route[i].source = pairs[i][0];
        route[i].destination = pairs[i][1];
        routes[i] = &route[i];
    }
    in.n_routes = out.n_routes = n;
    in.routes = out.routes = routes;
    if (bind)
        q.bind_routes = &in;
    else
        q.unbind_routes = &out;
    q.body_case = bind ? NPUD__REQUEST__BODY_BIND_ROUTES : NPUD__REQUEST__BODY_UNBIND_ROUTES;
    return succeed_in_request(r, &q);
}

bool raw_route(struct raw *r, uint32_t source, uint32_t destination, bool bind)
{
    const uint32_t pair[1][2] = {{source, destination}};

    return raw_routes(r, 1, pair, bind);
}
