/* Which segments the readers of a queue may map: the last part of queue.h. */
#include "daemon/buffers/queue.h"

#include <assert.h>
#include <stddef.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

#define MAP_WORDS (SEGMENT_IDS / 64)

#define MAP_BYTES (offsetof(struct queue_map_record, word) + MAP_WORDS * sizeof(struct map_word))

/* --- what a queue allows --- */

static size_t write_record(const struct kept *kept, void *record)
{
    const struct queue *queue =
        (const struct queue *)((const char *)kept - offsetof(struct queue, map_kept));

    ((struct queue_map_record *)record)->serial = queue->serial;
    return offsetof(struct queue_map_record, word);
}

static void use_record(struct queue *queue)
{
    queue->map_allowed = ((struct queue_map_record *)kept_record(&queue->map_kept))->word;
}

bool queue_allow_map_prepare(struct queue *queue)
{
    if (__builtin_expect(!queue->map_allowed, 0) &&
        kept_make(&queue->map_kept, KEPT_QUEUE_MAP, MAP_BYTES, write_record))
        use_record(queue);
    return queue->map_allowed != NULL;
}

/* The segment that a set bit stands for. NULL: it has gone, and the id may be another's. */
static struct segment *segment_of_bit(const struct queue *queue, uint32_t word, unsigned bit)
{
    struct segment *segment = segment_find(queue->server, word * 64 + bit);

    return segment && segment->view.number <= queue->map_allowed[word].newest ? segment : NULL;
}

/* Nothing is done when a segment goes: all queues of all users would have to be asked. */
static void clear_gone(struct queue *queue, uint32_t word)
{
    uint64_t gone = 0;

    for (uint64_t remaining = queue->map_allowed[word].bits; remaining != 0;
         remaining &= remaining - 1)
        if (!segment_of_bit(queue, word, (unsigned)__builtin_ctzll(remaining)))
            gone |= remaining & -remaining;
    queue->map_allowed[word].bits &= ~gone;
}

bool queue_allows_map(const struct queue *queue, const struct segment *segment)
{
    uint32_t id = segment->view.id;
    const struct map_word *word = queue->map_allowed ? &queue->map_allowed[id / 64] : NULL;

    return word && word->bits >> id % 64 & 1 && segment->view.number <= word->newest;
}

/* --- the rights of sessions that map segments, counted --- */

/* The owner needs no right; nor does a process that only outlives its session. */
static bool needs_right(const struct segment_map *map)
{
    return map->peer->session && map->peer->session != map->segment->pool->session;
}

/* To map it, from the moment on when the session gets a right, until it loses it. */
static bool may_map(const struct queue_attach *attach, const struct segment *segment)
{
    (void)segment;
    return attach->rights & QUEUE_TAKE;
}

/* In n_rights of the session's mapping: the other rights change in steps. */
static bool is_counted(const struct queue_attach *attach, const struct segment *segment)
{
    return segment->view.id / 64 < attach->counted;
}

/* Of few queues that allow the segment, or of the session's own queues, which are many then. */
static uint32_t count_rights(const struct session *session, const struct segment *segment,
                             bool (*counts)(const struct queue_attach *attach,
                                            const struct segment *segment))
{
    const struct queue_attach *attach;
    uint32_t n = 0;

    if (segment->n_allowed_by > SEGMENT_ALLOWED_BY) {
        DL_FOREACH (session->peer->attached, attach)
            n += counts(attach, segment) && queue_allows_map(attach->queue, segment);
        return n;
    }
    for (uint32_t i = 0; i < segment->n_allowed_by; i++) {
        attach = queue_attachment_to(session, segment->allowed_by[i]);
        n += attach && counts(attach, segment);
    }
    return n;
}

bool queue_session_may_map(struct session *session, struct segment *segment)
{
    return session->peer && count_rights(session, segment, may_map) > 0;
}

void queue_segment_mapped(struct segment_map *map)
{
    if (needs_right(map))
        map->n_rights = count_rights(map->peer->session, map->segment, is_counted);
}

static void add_right(struct segment_map *map)
{
    if (map->n_rights++ == 0)
        segment_map_set_lost(map, false);
}

/* The segment may go. */
static void remove_right(struct segment_map *map)
{
    assert(map->n_rights > 0);
    if (--map->n_rights > 0)
        return;
    segment_map_set_lost(map, true);
    /* Its owner puts nothing there any more: if nothing is there, it goes. */
    segment_give_back(map->segment);
}

/* The queue allows the segment from now on: to its readers, of which some map it already. */
static void add_right_of_readers(struct queue *queue, struct segment *segment)
{
    struct segment_map *map;

    DL_FOREACH (segment->maps, map) {
        struct queue_attach *attach =
            needs_right(map) ? queue_attachment(map->peer->session, queue) : NULL;

        if (attach && is_counted(attach, segment))
            add_right(map);
    }
}

static void note_allowed(const struct queue *queue, struct segment *segment)
{
    if (segment->n_allowed_by < SEGMENT_ALLOWED_BY)
        segment->allowed_by[segment->n_allowed_by] = queue->serial;
    if (segment->n_allowed_by <= SEGMENT_ALLOWED_BY)
        segment->n_allowed_by++;
}

bool queue_allow_map(struct queue *queue, struct segment *segment)
{
    uint32_t id = segment->view.id;
    struct map_word *word;

    if (!queue_allow_map_prepare(queue))
        return false;
    if (queue_allows_map(queue, segment))
        return true;
    word = &queue->map_allowed[id / 64];
    clear_gone(queue, id / 64);
    /* Each of these stores leaves what is right. */
    kept_order();
    word->newest = queue->server->last->segment;
    kept_order();
    KILL_HERE(ALLOW_HALF);
    word->bits |= UINT64_C(1) << id % 64;
    KILL_HERE(ALLOW_NOTED);
    note_allowed(queue, segment);
    add_right_of_readers(queue, segment);
    return true;
}

/* The peer's mapping of the segment that a set bit stands for, if it needs a right. */
static struct segment_map *map_of_bit(const struct queue_attach *attach, uint32_t word,
                                      unsigned bit)
{
    struct segment *segment = segment_of_bit(attach->queue, word, bit);
    struct segment_map *map = segment ? segment_find_map(attach->peer->session, segment) : NULL;

    return map && needs_right(map) ? map : NULL;
}

static void spoil_passed_on(struct segment_map *map)
{
    if (!map->passed_on)
        return;
    segment_spoil(map->segment);
    segment_give_back(map->segment);
}

/* Call change() for each segment of this word that the queue allows and its reader maps. */
static void change_rights(const struct queue_attach *attach, uint32_t word,
                          void (*change)(struct segment_map *map))
{
    uint64_t remaining = attach->queue->map_allowed[word].bits;

    for (; remaining != 0; remaining &= remaining - 1) {
        struct segment_map *map = map_of_bit(attach, word, (unsigned)__builtin_ctzll(remaining));

        if (map)
            change(map);
    }
}

static bool all_counted(const struct queue_attach *attach)
{
    return attach->counted == (attach->rights & QUEUE_TAKE ? MAP_WORDS : 0);
}

/* One word more, or less. False: there is none in it. */
static bool count_word(struct queue_attach *attach)
{
    bool more = attach->rights & QUEUE_TAKE;
    uint32_t word = more ? attach->counted : attach->counted - 1;
    bool any = attach->queue->map_allowed && attach->queue->map_allowed[word].bits != 0;

    if (any && more)
        change_rights(attach, word, add_right);
    if (any && !more && attach->spoils)
        change_rights(attach, word, spoil_passed_on);
    if (any && !more)
        change_rights(attach, word, remove_right);
    attach->counted = more ? word + 1 : word;
    return any;
}

/* False: the step is over before all of them are counted. */
static bool count_some(struct queue_attach *attach)
{
    while (!all_counted(attach))
        if (count_word(attach) && schedule_late(&attach->queue->server->schedule))
            break;
    return all_counted(attach);
}

static bool run_count(struct job *job)
{
    struct queue_attach *attach =
        (struct queue_attach *)((char *)job - offsetof(struct queue_attach, count));

    kept_touch(&attach->kept);
    return !count_some(attach);
}

static void list_count(struct queue_attach *attach)
{
    attach->count.run = run_count;
    attach->count.what = "rights to segments";
    attach->count.owner = &attach->queue->user->payer->schedule.leftovers;
    job_list(&attach->count);
}

/* Now, and the rest in steps of the queue's user. */
static bool begin_to_count(struct queue_attach *attach)
{
    kept_touch(&attach->kept);
    if (count_some(attach)) {
        job_cancel(&attach->count);
        return true;
    }
    list_count(attach);
    return false;
}

void queue_take_came(struct queue_attach *attach)
{
    attach->spoils = false;
    begin_to_count(attach);
}

bool queue_take_gone(struct queue_attach *attach, bool spoils)
{
    attach->spoils |= spoils;
    return begin_to_count(attach);
}

bool queue_reader_ended(struct peer *peer)
{
    struct sweep_position *at = &peer->sweep;
    struct segment_map *map;

    if (!at->begun)
        *at = (struct sweep_position){.begun = true, .map = peer->maps};
    map = at->map;
    if (map) {
        at->map = map->hh.next; /* giving the segment back unmaps it */
        spoil_passed_on(map);
        return false;
    }
    *at = (struct sweep_position){0};
    return true;
}

bool queue_pass_on(struct session *session, struct segment *segment)
{
    struct segment_map *map = segment_find_map(session, segment);

    if (segment->pool->session == session)
        return true;
    if (!map || map->lost)
        return false;
    if (!map->passed_on)
        kept_touch(&map->kept);
    map->passed_on = true;
    return true;
}

/* --- over the end of npud --- */

bool queue_map_restore(struct server *server, struct kept_cell *cell)
{
    struct queue_map_record r;
    struct queue *queue;

    (void)server;
    kept_read(cell, &r, sizeof(r));
    queue = queue_restored(r.serial);
    if (!queue || queue->map_allowed || !kept_bind(&queue->map_kept, cell, MAP_BYTES, write_record))
        return false;
    use_record(queue);
    for (uint32_t word = 0; word < MAP_WORDS; word++)
        for (uint64_t remaining = queue->map_allowed[word].bits; remaining != 0;
             remaining &= remaining - 1) {
            struct segment *segment =
                segment_of_bit(queue, word, (unsigned)__builtin_ctzll(remaining));

            if (segment)
                note_allowed(queue, segment);
        }
    return true;
}

void queue_count_again(struct queue_attach *attach)
{
    if (!all_counted(attach))
        list_count(attach);
}
