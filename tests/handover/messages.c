#include "messages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "tests/common/share_cast.h"

#define HELD    8u /* messages that a thread keeps */
#define CHAIN   4u
#define LARGEST 300000u
#define MARK    UINT32_C(0x6d657373)
#define GHOSTLY 20u /* calls that a thread goes on to make when its session has ended */

struct board *board;
struct part part_next;
const char *const character_name[CHARACTERS] = {"puts forever", "takes forever", "puts small",
                                                "takes small", "mixes"};

/* In the user data of each buffer: what its data are. */
struct content_label {
    uint32_t mark, check;
    uint64_t size, seed;
};

/* In that of the head before it: what the message is. */
struct label {
    uint32_t mark, number, life, queue, members, check;
    uint64_t total;
    struct content_label content;
};
_Static_assert(sizeof(struct label) <= 96, "it fits into the user data");
#define CONTENT_AT offsetof(struct label, content)

static _Thread_local struct {
    uint32_t life;
    uint64_t rng;
    acltdtBuf held[HELD];
    unsigned n_held;
    unsigned ghostly;
    bool over;
    uint8_t *room;
    uint32_t *last[QUEUES]; /* number taken last, by queue and life of the sender */
} me;

static struct {
    struct part part;
    _Atomic uint32_t rights[QUEUES];
} process;

/* --- labels --- */

static uint32_t label_check(const struct label *l)
{
    uint64_t x = content_word(l->number * UINT64_C(0x100000001) + l->life, l->queue);

    return (uint32_t)(content_word(x ^ l->members, 1) ^ l->total) | 1;
}

static uint32_t content_check_of(const struct content_label *c)
{
    return (uint32_t)content_word(c->seed, c->size) | 1;
}

static bool label_is_whole(const struct label *l)
{
    return l->mark == MARK && l->check == label_check(l) && l->number > 0 && l->number < ENTRIES &&
           l->life < LIVES && l->queue < QUEUES;
}

static struct content_label content_label_new(size_t size)
{
    struct content_label c = {.mark = MARK, .size = size, .seed = draw_random(&me.rng)};

    c.check = content_check_of(&c);
    return c;
}

/* --- results --- */

/* What a call may return beside 0 and the usual code. */
static void check_code(aclError r, uint32_t queue, aclError usual)
{
    uint32_t rights = 0;

    if (r == 0 || r == usual)
        return;
    if (life_ends() &&
        (r == ACL_ERROR_RT_SOCKET_CLOSE || atomic_load(&self->ending) == FINALIZED)) {
        me.ghostly++;
        return;
    }
    if (r == ACL_ERROR_RT_MEMORY_ALLOCATION && atomic_load(&board->short_of_memory))
        return;
    if (r == ACL_ERROR_RT_DRV_INTERNAL_ERROR && atomic_load(&stage->stop)) {
        me.over = true; /* the queue was destroyed */
        return;
    }
    /* One right was taken away, or all of them. */
    HOLDS(r == ACL_ERROR_RT_NO_PERMISSION || r == ACL_ERROR_RT_DRV_INTERNAL_ERROR,
          "queue %u: %d: %s", queue, r, aclGetRecentErrMsg());
    r = CALL(queue, 0, acltdtAttachQueue(queue_id(queue), 0, &rights));
    HOLDS(r == 0 || r == ACL_ERROR_RT_NO_PERMISSION || life_ends() ||
              (atomic_load(&stage->stop) && r == ACL_ERROR_RT_DRV_INTERNAL_ERROR),
          "attach queue %u: %d: %s", queue, r, aclGetRecentErrMsg());
    atomic_store(&process.rights[queue], r == 0 ? rights : 0);
}

/* A call on a buffer that this thread owns. */
static bool check_success(aclError r, const char *what)
{
    HOLDS(r == 0 || life_ends(), "%s: %d: %s", what, r, aclGetRecentErrMsg());
    HOLDS(r == 0 || r == ACL_ERROR_RT_SOCKET_CLOSE || atomic_load(&self->ending) == FINALIZED,
          "%s after the end of the session: %d: %s", what, r, aclGetRecentErrMsg());
    if (r != 0)
        me.ghostly++;
    return r == 0;
}
#define FINE(call) check_success(CALL(-1, 0, call), #call)

/* --- making and checking messages --- */

bool messages_few_sizes;

static size_t draw_any_size(void)
{
    static const uint32_t most[] = {8, 200, 200, 4096, 9000, 70000, LARGEST};
    unsigned k = draw_below(&me.rng, 24);

    if (k < 7)
        return 1 + draw_below(&me.rng, most[k]);
    if (k < 12) /* around powers of two */
        return (1u << (1 + draw_below(&me.rng, 17))) - 1 + draw_below(&me.rng, 3);
    return 1 + draw_below(&me.rng, 64);
}

static size_t draw_size(void)
{
    size_t size = draw_any_size(), few = 128;

    if (!messages_few_sizes)
        return size;
    while (few < size)
        few *= 4;
    return few < LARGEST ? few : LARGEST;
}

/* NULL: there is no memory, or no session any more. */
static acltdtBuf buffer_new(size_t size)
{
    struct content_label c = content_label_new(size);
    acltdtBuf buf;
    size_t room;
    void *data;
    aclError r = CALL(-1, 0, acltdtAllocBuf(size, draw_below(&me.rng, 2), &buf));

    if (r == ACL_ERROR_RT_MEMORY_ALLOCATION && atomic_load(&board->short_of_memory))
        return NULL;
    if (!check_success(r, "acltdtAllocBuf") || !FINE(acltdtGetBufData(buf, &data, &room)))
        return NULL;
    HOLDS(room == size, "a buffer of %zu bytes has %zu", size, room);
    content_fill(data, size, c.seed);
    if (!FINE(acltdtSetBufDataLen(buf, size)) ||
        !FINE(acltdtSetBufUserData(buf, &c, sizeof(c), CONTENT_AT)))
        return NULL;
    return buf;
}

static acltdtBuf message_new(void)
{
    bool small = process.part.character == PUTS_SMALL;
    unsigned n = small || draw_chance(&me.rng, 85) ? 1 : 2 + draw_below(&me.rng, CHAIN - 1);
    acltdtBuf head = buffer_new(small ? 1 + draw_below(&me.rng, 200) : draw_size());

    for (unsigned i = 1; i < n && head; i++) {
        acltdtBuf member = buffer_new(draw_size());

        if (member && !FINE(acltdtAppendBufChain(head, member)))
            return NULL;
    }
    return head;
}

/* A difference counts only while the session of this process lives. */
#define WHOLE(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            HOLDS(life_ends(), __VA_ARGS__);                                                       \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool buffer_is_whole(acltdtBuf buf, uint64_t *total)
{
    struct content_label c;
    size_t room, length;
    int64_t at;
    void *data;

    if (!FINE(acltdtGetBufData(buf, &data, &room)) || !FINE(acltdtGetBufDataLen(buf, &length)) ||
        !FINE(acltdtGetBufUserData(buf, &c, sizeof(c), CONTENT_AT)))
        return false;
    WHOLE(c.mark == MARK && c.check == content_check_of(&c), "label of the data has changed");
    WHOLE(length == c.size && room >= c.size, "%zu bytes in %zu, not %llu", length, room,
          (unsigned long long)c.size);
    at = content_wrong(data, length, length, c.seed);
    WHOLE(at < 0, "byte %lld of %zu has changed", (long long)at, length);
    *total += length;
    return true;
}

/* All its buffers; members and total as its label says, unless NULL. */
static bool message_is_whole(acltdtBuf head, const struct label *l)
{
    uint64_t total = 0;
    acltdtBuf buf;
    uint32_t n;

    if (!FINE(acltdtGetBufChainNum(head, &n)))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!FINE(acltdtGetBufFromChain(head, i, &buf)) || !buffer_is_whole(buf, &total))
            return false;
    if (!l)
        return true;
    WHOLE(n == l->members && total == l->total, "message %u: %u buffers, %llu bytes, not %u, %llu",
          l->number, n, (unsigned long long)total, l->members, (unsigned long long)l->total);
    return true;
}

static bool message_measure(acltdtBuf head, struct label *l)
{
    acltdtBuf buf;
    size_t length;

    l->total = 0;
    if (!FINE(acltdtGetBufChainNum(head, &l->members)))
        return false;
    for (uint32_t i = 0; i < l->members; i++) {
        if (!FINE(acltdtGetBufFromChain(head, i, &buf)) || !FINE(acltdtGetBufDataLen(buf, &length)))
            return false;
        l->total += length;
    }
    return true;
}

static void drop_buffer(unsigned i)
{
    message_is_whole(me.held[i], NULL);
    FINE(acltdtFreeBuf(me.held[i]));
    me.held[i] = me.held[--me.n_held];
}

/* --- the board --- */

/* 0: there are no numbers left. */
static uint32_t note_trying(uint32_t queue)
{
    uint32_t number;

    if (atomic_load_explicit(&board->next, memory_order_relaxed) >= ENTRIES - 2 * LIVES)
        return 0;
    number = atomic_fetch_add(&board->next, 1) + 1;
    atomic_store(&board->entry[number].sent, FATE_TRIED | queue << 3 | me.life << 8);
    return number;
}

static void note_tried(uint32_t number, uint32_t queue, aclError r, bool ended_before)
{
    enum fate fate = r == 0 ? FATE_PUT : FATE_KEPT;

    if (ended_before || life_ends())
        fate = FATE_UNKNOWN;
    atomic_store(&board->entry[number].sent, fate | queue << 3 | me.life << 8);
    if (r == 0)
        atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

static void note_order(const struct label *l, uint32_t queue)
{
    if (atomic_load(&board->queue[queue].single)) {
        uint32_t last = atomic_exchange(&board->last[queue][l->life], l->number);

        /* If it ends since it has taken this, another may have taken and told of more by now. */
        HOLDS(last < l->number || life_ends(), "queue %u: message %u of life %u comes after %u",
              queue, l->number, l->life, last);
        return;
    }
    if (!me.last[queue])
        me.last[queue] = calloc(LIVES, sizeof(uint32_t));
    HOLDS(me.last[queue][l->life] < l->number, "queue %u: message %u of life %u comes after %u",
          queue, l->number, l->life, me.last[queue][l->life]);
    me.last[queue][l->life] = l->number;
}

static void note_arrived(const struct label *l, uint32_t queue)
{
    struct queue_note *q = &board->queue[queue];
    uint32_t from = atomic_load(&q->source) ? atomic_load(&q->source) - 1 : queue;
    struct entry *e = &board->entry[l->number];
    uint32_t sent = atomic_load(&e->sent);
    uint16_t expected = 0;

    HOLDS((sent & 7) != FATE_NONE && (sent & 7) != FATE_KEPT,
          "queue %u: message %u arrives, and its fate is %u", queue, l->number, sent & 7);
    HOLDS(l->queue == from && (sent >> 3 & 31) == from && sent >> 8 == l->life,
          "message %u of life %u for queue %u arrives in queue %u", l->number, l->life, l->queue,
          queue);
    if (!atomic_compare_exchange_strong(&e->got[atomic_load(&q->place)], &expected,
                                        (uint16_t)(1 + me.life))) {
        HOLDS(atomic_load(&stage->life[expected - 1].ending) != GOES_ON,
              "queue %u: message %u of life %u comes twice: life %u had it", queue, l->number,
              l->life, expected - 1);
        atomic_fetch_add(&q->in_hand, 1); /* what that life had was another message */
    }
    note_order(l, queue);
    atomic_fetch_add_explicit(&self->moves, 1, memory_order_relaxed);
}

static void begin_take(uint32_t queue)
{
    atomic_store(&board->taking[me.life], queue + 1);
}

/*
 * A message was taken by a thread whose session ends. Its memory may be in use for another message
 * already: then it counts as lost in its hands.
 */
static void note_ghostly(const struct label *l, uint32_t queue)
{
    struct queue_note *q = &board->queue[queue];
    uint16_t expected = 0;
    uint32_t sent = label_is_whole(l) ? atomic_load(&board->entry[l->number].sent) : 0;

    if ((sent & 7) == FATE_NONE || (sent & 7) == FATE_KEPT || (sent >> 3 & 31) != queue ||
        sent >> 8 != l->life ||
        !atomic_compare_exchange_strong(&board->entry[l->number].got[0], &expected,
                                        (uint16_t)(1 + me.life)))
        atomic_fetch_add(&q->in_hand, 1);
}

/* A message was taken. False: the session ends, and what it is cannot be told. */
static bool check_taken(const struct label *l, uint32_t queue)
{
    if (life_ends()) {
        note_ghostly(l, queue);
        return false;
    }
    HOLDS(label_is_whole(l) || life_ends(), "queue %u: the label of a message has changed", queue);
    if (!label_is_whole(l)) {
        note_ghostly(l, queue);
        return false;
    }
    note_arrived(l, queue);
    return true;
}

static void end_take(void)
{
    atomic_store(&board->taking[me.life], 0);
}

void messages_bury(uint32_t life)
{
    uint32_t queue = atomic_exchange(&board->taking[life], 0);

    if (queue)
        atomic_fetch_add(&board->queue[queue - 1].in_hand, 1);
    atomic_store(&board->putting[life], 0);
    atomic_store(&board->forever[life], 0);
}

/* --- what a thread does --- */

static void do_put(uint32_t queue, unsigned i, int32_t limit)
{
    bool ended = life_ends();
    struct label l = {.mark = MARK, .life = me.life, .queue = queue};
    aclError r;

    if (!message_measure(me.held[i], &l) || (l.number = note_trying(queue)) == 0)
        return;
    l.check = label_check(&l);
    if (!FINE(acltdtSetBufUserData(me.held[i], &l, CONTENT_AT, 0))) {
        note_tried(l.number, queue, 1, ended);
        return;
    }
    atomic_store(&board->putting[me.life], limit == WITHOUT_END ? queue + 1 : 0);
    r = CALL(queue, limit, acltdtEnqueue(queue_id(queue), me.held[i], limit));
    note_tried(l.number, queue, r, ended);
    atomic_store(&board->putting[me.life], 0);
    if (r == 0)
        me.held[i] = me.held[--me.n_held];
    check_code(r, queue, ACL_ERROR_RT_QUEUE_FULL);
}

static void do_put_new(uint32_t queue, int32_t limit)
{
    acltdtBuf buf = me.n_held < HELD ? message_new() : NULL;

    if (buf)
        me.held[me.n_held++] = buf;
    if (me.n_held > 0)
        do_put(queue, me.n_held - 1, limit);
}

static void do_put_data(uint32_t queue, int32_t limit)
{
    bool ended = life_ends();
    size_t size = process.part.character == PUTS_SMALL ? 1 + draw_below(&me.rng, 200) : draw_size();
    struct label l = {.mark = MARK,
                      .life = me.life,
                      .queue = queue,
                      .members = 1,
                      .total = size,
                      .content = content_label_new(size)};
    aclError r;

    content_fill(me.room, size, l.content.seed);
    l.number = note_trying(queue);
    if (l.number == 0)
        return;
    l.check = label_check(&l);
    atomic_store(&board->putting[me.life], limit == WITHOUT_END ? queue + 1 : 0);
    r = CALL(queue, limit,
             acltdtEnqueueData(queue_id(queue), me.room, size, &l, sizeof(l), limit, 0));
    note_tried(l.number, queue, r, ended);
    atomic_store(&board->putting[me.life], 0);
    check_code(r, queue, ACL_ERROR_RT_QUEUE_FULL);
}

/* Takes a message. It is kept if there is room for it and it is whole. */
static aclError do_take(uint32_t queue, int32_t limit)
{
    struct label l = {0};
    acltdtBuf buf;
    aclError r;

    begin_take(queue);
    r = CALL(queue, limit, acltdtDequeue(queue_id(queue), &buf, limit));
    if (r == 0) {
        FINE(acltdtGetBufUserData(buf, &l, sizeof(l), 0));
        if (check_taken(&l, queue))
            message_is_whole(buf, &l);
    }
    end_take();
    if (r == 0 && me.n_held < HELD && process.part.character == MIXES)
        me.held[me.n_held++] = buf;
    else if (r == 0)
        FINE(acltdtFreeBuf(buf));
    check_code(r, queue, ACL_ERROR_RT_QUEUE_EMPTY);
    return r;
}

static void do_take_data(uint32_t queue, int32_t limit)
{
    size_t room = draw_chance(&me.rng, 30) ? 1 + draw_below(&me.rng, 300) : LARGEST, size, have;
    struct label l = {0};
    aclError r;

    begin_take(queue);
    r = CALL(queue, limit,
             acltdtDequeueData(queue_id(queue), me.room, room, &size, &l, sizeof(l), limit));
    if (r == 0 && check_taken(&l, queue)) {
        HOLDS(size == l.total || life_ends(), "queue %u: message %u has %zu bytes, not %llu", queue,
              l.number, size, (unsigned long long)l.total);
        have = size < room ? size : room;
        if (have > l.content.size)
            have = l.content.size; /* the rest is of other buffers of the chain */
        HOLDS(content_wrong(me.room, have, l.content.size, l.content.seed) < 0 || life_ends(),
              "queue %u: message %u is not what was put", queue, l.number);
    }
    end_take();
    check_code(r, queue, ACL_ERROR_RT_QUEUE_EMPTY);
}

static int32_t draw_limit(void)
{
    static const int32_t limits[] = {0, 0, 0, 0, 1, 10};

    return limits[draw_below(&me.rng, 6)];
}

static void do_append(void)
{
    unsigned i = draw_below(&me.rng, me.n_held), j = draw_below(&me.rng, me.n_held);
    uint32_t a, b;

    if (i == j || !FINE(acltdtGetBufChainNum(me.held[i], &a)) ||
        !FINE(acltdtGetBufChainNum(me.held[j], &b)) || a + b > CHAIN)
        return;
    if (FINE(acltdtAppendBufChain(me.held[i], me.held[j])))
        me.held[j] = me.held[--me.n_held];
}

static void do_refer(void)
{
    if (FINE(acltdtCopyBufRef(me.held[draw_below(&me.rng, me.n_held)], &me.held[me.n_held])))
        me.n_held++;
}

static bool has_right(uint32_t queue, uint32_t right)
{
    struct queue_note *q = &board->queue[queue];

    if (!atomic_load(&q->exists) || !(atomic_load(&process.rights[queue]) & right))
        return false;
    if (right == PUT)
        return !atomic_load(&q->source);
    return !atomic_load(&q->routes) && !atomic_load(&q->single);
}

static void do_mixed(void)
{
    uint32_t queue = draw_below(&me.rng, QUEUES);
    unsigned what = draw_below(&me.rng, 100);

    if (what < 30 && me.n_held > 0 && has_right(queue, PUT))
        do_put(queue, draw_below(&me.rng, me.n_held), draw_limit());
    else if (what < 60 && me.n_held < HELD && has_right(queue, TAKE))
        do_take(queue, draw_limit());
    else if (what < 64 && has_right(queue, PUT))
        do_put_data(queue, draw_limit());
    else if (what < 68 && has_right(queue, TAKE))
        do_take_data(queue, draw_limit());
    else if (what < 78)
        me.n_held < HELD &&has_right(queue, PUT) ? do_put_new(queue, draw_limit()) : (void)0;
    else if (what < 84 && me.n_held > 0 && me.n_held < HELD)
        do_refer();
    else if (what < 90 && me.n_held > 1)
        do_append();
    else if (me.n_held > 0)
        drop_buffer(draw_below(&me.rng, me.n_held));
}

/* Its right is taken away: look for it from time to time. */
static void regain_right(uint32_t queue)
{
    stage_rest(1);
    check_code(ACL_ERROR_RT_NO_PERMISSION, queue, 0);
}

static void do_put_any(uint32_t queue, int32_t limit)
{
    if (!(atomic_load(&process.rights[queue]) & PUT))
        regain_right(queue);
    else if (draw_chance(&me.rng, 30))
        do_put_data(queue, limit);
    else
        do_put_new(queue, limit);
}

static void do_take_any(uint32_t queue, int32_t limit)
{
    bool has = atomic_load(&process.rights[queue]) & TAKE;

    atomic_store(&board->forever[me.life], has && limit == WITHOUT_END ? queue + 1 : 0);
    if (!has)
        regain_right(queue);
    else if (draw_chance(&me.rng, 30))
        do_take_data(queue, limit);
    else
        do_take(queue, limit);
}

static void do_one_thing(void)
{
    switch (process.part.character) {
    case PUTS_FOREVER:
        do_put_any(process.part.queue, WITHOUT_END);
        break;
    case TAKES_FOREVER:
        do_take_any(process.part.queue, WITHOUT_END);
        break;
    case PUTS_SMALL:
        do_put_any(process.part.queue, draw_limit());
        break;
    case TAKES_SMALL:
        do_take_any(process.part.queue, draw_limit());
        break;
    default:
        do_mixed();
    }
}

/* Those that take without end leave when their queue is destroyed, and not before. */
static bool is_over(void)
{
    return me.over || me.ghostly > GHOSTLY ||
           (atomic_load(&stage->stop) &&
            (process.part.character != TAKES_FOREVER ||
             !(atomic_load(&process.rights[process.part.queue]) & TAKE)));
}

static void thread_of(uint32_t life, uint64_t seed)
{
    me.life = life;
    me.rng = seed;
    me.room = malloc(LARGEST + 8);
    life_begin(life);
}

static void *thread_main(void *arg)
{
    struct player *p = ((void **)arg)[0];
    uint32_t i = (uint32_t)(uintptr_t)((void **)arg)[1];

    thread_of(p->first + i, p->seed + i);
    while (!is_over())
        if (atomic_load(&stage->hold) && process.part.character != TAKES_FOREVER &&
            !atomic_load(&stage->stop))
            stage_rest(1);
        else
            do_one_thing();
    atomic_store(&board->forever[me.life], 0);
    while (me.n_held > 0)
        drop_buffer(0);
    life_over();
    return NULL;
}

static bool attach_all(void)
{
    for (uint32_t q = 0; q < QUEUES; q++) {
        uint32_t rights = 0;
        aclError r = ACL_ERROR_RT_NO_PERMISSION;

        if (!atomic_load(&board->queue[q].exists))
            continue;
        while (r == ACL_ERROR_RT_NO_PERMISSION && !atomic_load(&stage->stop) && !life_ends())
            r = CALL(q, 1000, acltdtAttachQueue(queue_id(q), 1000, &rights));
        if (life_ends() || atomic_load(&stage->stop))
            return false;
        HOLDS(r == 0, "attach queue %u: %d: %s", q, r, aclGetRecentErrMsg());
        atomic_store(&process.rights[q], rights);
    }
    return true;
}

/* Ways to leave: in good order, without a word, or beside calls of other threads. */
static void leave_session(void)
{
    atomic_store(&self->over, 0);
    CALL(-1, 0, aclFinalize());
}

int messages_main(struct player *p)
{
    void *arg[THREADS][2];
    pthread_t thread[THREADS];

    process.part = part_next;
    thread_of(p->first, p->seed);
    WELL(-1, aclInit(NULL));
    if (draw_chance(&me.rng, 50))
        CALL(-1, 0, aclrtSetDevice(0));
    if (attach_all()) {
        for (unsigned i = 0; i < p->n; i++) {
            arg[i][0] = p;
            arg[i][1] = (void *)(uintptr_t)i;
            HOLDS(pthread_create(&thread[i], NULL, thread_main, arg[i]) == 0, "no thread");
        }
        for (unsigned i = 0; i < p->n; i++)
            pthread_join(thread[i], NULL);
    }
    if (draw_chance(&me.rng, 70))
        leave_session();
    return 0;
}

unsigned messages_drain(uint32_t life, uint32_t queue)
{
    unsigned n = 0;

    if (!self) {
        thread_of(life, life);
        process.part.character = TAKES_SMALL;
    }
    while (do_take(queue, 0) == 0)
        n++;
    return n;
}

/* --- accounts --- */

/* Is a message missing that was due in queue q? */
static bool is_missing(const struct entry *e, uint32_t q)
{
    uint32_t sent = atomic_load_explicit(&e->sent, memory_order_relaxed);
    uint32_t source = atomic_load_explicit(&board->queue[q].source, memory_order_relaxed);

    return (sent & 7) == FATE_PUT && (sent >> 3 & 31) == (source ? source - 1 : q) &&
           !atomic_load_explicit(&board->queue[q].routes, memory_order_relaxed) &&
           !atomic_load_explicit(&e->got[board->queue[q].place], memory_order_relaxed);
}

void messages_missing(uint32_t missing[QUEUES])
{
    uint32_t n = atomic_load(&board->next);

    memset(missing, 0, QUEUES * sizeof(*missing));
    for (uint32_t i = 1; i <= n; i++)
        for (uint32_t q = 0; q < QUEUES; q++)
            missing[q] += is_missing(&board->entry[i], q);
}

static void tell_missing(uint32_t number, uint32_t queue)
{
    const struct entry *e = &board->entry[number];
    uint32_t life = e->sent >> 8;
    const struct life *l = &stage->life[life];

    fprintf(stderr, "message %u in queue %u is missing; of life %u (%s)%s%s; got %u %u %u\n",
            number, queue, life, l->role, l->over ? ", over" : "",
            l->ending == SESSION_ENDED ? ", session ended" : "", e->got[0], e->got[1], e->got[2]);
}

void messages_tell_missing(unsigned most)
{
    uint32_t n = atomic_load(&board->next);

    for (uint32_t i = 1; i <= n; i++)
        for (uint32_t q = 0; q < QUEUES; q++)
            if (is_missing(&board->entry[i], q) && most > 0) {
                tell_missing(i, q);
                most--;
            }
}

void messages_check_kept(void)
{
    uint32_t n = atomic_load(&board->next);

    for (uint32_t i = 1; i <= n; i++) {
        struct entry *e = &board->entry[i];

        ck_assert_msg((e->sent & 7) != FATE_KEPT || !(e->got[0] | e->got[1] | e->got[2]),
                      "message %u was not put, but has arrived", i);
    }
}
