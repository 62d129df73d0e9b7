/* Ranges of bytes with one history, in a tree by their first byte. They do not overlap. */
#include <string.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/shadow.h"

/*
 * Reads that are kept, of actors without an order between them. Of more the oldest are forgotten,
 * and races with those are not told: else a file could ask for a time that grows as its size cubed.
 */
#define READS_MAX 1024u

struct shadow_range {
    RB_ENTRY(shadow_range) tree;
    uint64_t start, end;
    struct history write;
    union {
        struct history one;   /* n_reads 1 */
        struct history *list; /* more */
    } reads;
    uint32_t n_reads;
    bool written, freed;
};

static int compare_ranges(const struct shadow_range *a, const struct shadow_range *b)
{
    return a->start < b->start ? -1 : a->start > b->start;
}

/* RB_GENERATE_STATIC needs a macro that the header does not define. */
RB_GENERATE_INTERNAL(shadow_tree, shadow_range, tree, compare_ranges,
                     __attribute__((unused)) static)

static const struct history no_history = {.actor = ACTOR_NONE, .act = WORLD_NONE};

static struct history *reads_of(struct shadow_range *r)
{
    return r->n_reads > 1 ? r->reads.list : &r->reads.one;
}

/* n reads without a place for them are made one. */
static void set_reads(struct shadow_range *r, const struct history *list, uint32_t n)
{
    struct history *old = r->n_reads > 1 ? r->reads.list : NULL, *now = NULL;

    if (n > 1) {
        now = need_array(NULL, n, sizeof(*now));
        memcpy(now, list, n * sizeof(*now));
        r->reads.list = now;
    } else if (n == 1) {
        struct history one = *list;

        r->reads.one = one;
    }
    r->n_reads = n;
    free(old);
}

static void forget_reads(struct shadow_range *r, struct acts *acts)
{
    for (uint32_t i = 0; i < r->n_reads; i++)
        acts_unref(acts, reads_of(r)[i].act);
    set_reads(r, NULL, 0);
}

static void free_range(struct shadow *s, struct acts *acts, struct shadow_range *r)
{
    RB_REMOVE(shadow_tree, &s->ranges, r);
    if (s->latest == r)
        s->latest = NULL;
    forget_reads(r, acts);
    acts_unref(acts, r->write.act);
    free(r);
}

static struct shadow_range *new_range(struct shadow *s, uint64_t start, uint64_t end)
{
    struct shadow_range *r = need_zeroed(1, sizeof(*r));

    r->start = start;
    r->end = end;
    r->write = no_history;
    r->written = s->written;
    RB_INSERT(shadow_tree, &s->ranges, r);
    return r;
}

/* The first range that ends behind `start`, or NULL. */
static struct shadow_range *find_first(const struct shadow *s, uint64_t start)
{
    struct shadow_range key = {.start = start}, *r, *before;
    struct shadow_tree *tree = (struct shadow_tree *)&s->ranges;

    r = RB_NFIND(shadow_tree, tree, &key);
    before = r ? RB_PREV(shadow_tree, tree, r) : RB_MAX(shadow_tree, tree);
    return before && before->end > start ? before : r;
}

/* *r ends at `at`; a new range with the same history goes on from there. */
static struct shadow_range *split_range(struct shadow *s, struct acts *acts, struct shadow_range *r,
                                        uint64_t at)
{
    struct shadow_range *rest = new_range(s, at, r->end);

    r->end = at;
    rest->write = r->write;
    rest->written = r->written;
    rest->freed = r->freed;
    acts_ref(acts, rest->write.act);
    set_reads(rest, reads_of(r), r->n_reads);
    for (uint32_t i = 0; i < rest->n_reads; i++)
        acts_ref(acts, reads_of(rest)[i].act);
    return rest;
}

/* Borders at start and end; the first range at or behind `start`, or NULL. */
static struct shadow_range *cut_out(struct shadow *s, struct acts *acts, uint64_t start,
                                    uint64_t end)
{
    struct shadow_range *first = find_first(s, start), *last;

    if (first && first->start < start)
        first = split_range(s, acts, first, start);
    last = find_first(s, end);
    if (last && last->start < end)
        split_range(s, acts, last, end);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the tree owns the rest */
    return first;
}

static bool is_same_history(struct shadow_range *a, struct shadow_range *b)
{
    return memcmp(&a->write, &b->write, sizeof(a->write)) == 0 && a->written == b->written &&
           a->freed == b->freed && a->n_reads == b->n_reads &&
           memcmp(reads_of(a), reads_of(b), a->n_reads * sizeof(struct history)) == 0;
}

/* Neighbours with the same history from the one before `start` to the one behind `end`. */
static void merge_ranges(struct shadow *s, struct acts *acts, uint64_t start, uint64_t end)
{
    struct shadow_range *r = find_first(s, start > 0 ? start - 1 : 0), *next;

    for (; r && r->start <= end; r = next) {
        next = RB_NEXT(shadow_tree, &s->ranges, r);
        if (next && next->start == r->end && is_same_history(r, next)) {
            r->end = next->end;
            free_range(s, acts, next);
            next = r;
        }
    }
}

/* Of the bytes that the access has in common with the range. */
static void tell_range(const struct shadow_use *use, const struct shadow_range *r,
                       enum shadow_tells what, const struct history *with)
{
    use->tell(use->owner, what, with, r->start > use->start ? r->start : use->start,
              r->end < use->end ? r->end : use->end);
}

static void tell_conflict(const struct shadow_use *use, const struct shadow_range *r,
                          enum shadow_tells what, const struct history *with, uint32_t process)
{
    if (with->actor == ACTOR_NONE || actor_knows(use->actor, with->actor, with->epoch))
        return;
    if (process == WORLD_NONE || use->actors[with->actor]->process == process)
        tell_range(use, r, what, with);
}

/* With the writes and reads of a range. False: the bytes are gone. */
static bool look_at_range(const struct shadow_use *use, struct shadow_range *r, uint32_t process)
{
    if (r->freed) {
        if (use->how & SHADOW_FREE)
            return false;
        if (actor_knows(use->actor, r->write.actor, r->write.epoch))
            tell_range(use, r, SHADOW_FREED, &r->write);
        else
            tell_conflict(use, r, SHADOW_WRITTEN, &r->write, process);
        return false;
    }
    if (use->how & SHADOW_WORD)
        return true;
    tell_conflict(use, r, SHADOW_WRITTEN, &r->write, process);
    for (uint32_t i = 0; use->how & SHADOW_WRITE && i < r->n_reads; i++)
        tell_conflict(use, r, SHADOW_READ_BY, &reads_of(r)[i], process);
    return true;
}

/*
 * A read that the new one comes after is no longer needed: a write after the new one comes after
 * both. Of another process it is kept, since an unmap looks at those of its own alone.
 */
static bool is_kept(const struct shadow_use *use, const struct history *old)
{
    if (old->actor == use->actor->index)
        return false;
    return use->actors[old->actor]->process != use->actor->process ||
           !actor_knows(use->actor, old->actor, old->epoch);
}

static void note_read(const struct shadow_use *use, struct shadow_range *r)
{
    struct history list[READS_MAX + 1], *old = reads_of(r);
    uint32_t n = 0, surplus;

    for (uint32_t i = 0; i < r->n_reads; i++) {
        if (is_kept(use, &old[i]))
            list[n++] = old[i];
        else
            acts_unref(use->acts, old[i].act);
    }
    list[n++] = (struct history){.actor = use->actor->index,
                                 .act = acts_ref(use->acts, use->act),
                                 .epoch = use->actor->epoch};
    surplus = n > READS_MAX;
    if (surplus)
        acts_unref(use->acts, list[0].act);
    set_reads(r, list + surplus, n - surplus);
}

static void note_write(const struct shadow_use *use, struct shadow_range *r)
{
    forget_reads(r, use->acts);
    acts_ref(use->acts, use->act);
    acts_unref(use->acts, r->write.act);
    r->write =
        (struct history){.actor = use->actor->index, .act = use->act, .epoch = use->actor->epoch};
    r->written = !(use->how & SHADOW_FRESH);
    r->freed = use->how & SHADOW_FREE;
}

/* One range with the new write in place of all that are in start .. end. */
static void replace_ranges(struct shadow *s, const struct shadow_use *use, uint64_t start,
                           uint64_t end)
{
    struct shadow_range *r = find_first(s, start), *next;

    if (!r || r->start != start)
        r = new_range(s, start, start);
    while ((next = RB_NEXT(shadow_tree, &s->ranges, r)) && next->start < end)
        free_range(s, use->acts, next);
    r->end = end;
    note_write(use, r);
    s->latest = r;
}

static void note_word(const struct shadow_use *use, struct shadow_range *r)
{
    if (use->how & SHADOW_WRITE)
        r->written = true;
}

/* Bytes without a range are given one, if the access leaves something there. */
static struct shadow_range *fill_gap(struct shadow *s, const struct shadow_use *use, uint64_t start,
                                     uint64_t end)
{
    if (use->how & SHADOW_WORD && (!(use->how & SHADOW_WRITE) || s->written))
        return NULL;
    return new_range(s, start, end);
}

/* What an access that writes no bytes leaves in a range. */
static void note_range(struct shadow *s, const struct shadow_use *use, struct shadow_range *r)
{
    if (r->freed)
        return;
    if (use->how & SHADOW_WORD)
        note_word(use, r);
    else
        note_read(use, r);
    s->latest = r;
}

/* The first byte that is read and was never written. */
static void tell_unwritten(const struct shadow *s, const struct shadow_use *use,
                           struct shadow_range *r)
{
    uint64_t at = use->start;

    for (; at < use->end; r = RB_NEXT(shadow_tree, (struct shadow_tree *)&s->ranges, r)) {
        uint64_t next = r && r->start < use->end ? r->start : use->end;

        if (at < next && !s->written) {
            use->tell(use->owner, SHADOW_UNWRITTEN, &no_history, at, next);
            return;
        }
        if (!r || r->start >= use->end)
            return;
        if (!r->written && !r->freed) {
            tell_range(use, r, SHADOW_UNWRITTEN, &no_history);
            return;
        }
        at = r->end;
    }
}

/* A write: what is gone stays as it is, and all else becomes one range for each part. */
static void write_ranges(struct shadow *s, const struct shadow_use *use, struct shadow_range *first)
{
    uint64_t from = use->start;

    for (struct shadow_range *r = first, *next; r && r->start < use->end; r = next) {
        bool gone = !look_at_range(use, r, WORLD_NONE);
        uint64_t start = r->start, end = r->end;

        next = RB_NEXT(shadow_tree, &s->ranges, r);
        if (!gone)
            continue;
        if (from < start)
            replace_ranges(s, use, from, start);
        from = end;
    }
    if (from < use->end)
        replace_ranges(s, use, from, use->end);
}

static void read_ranges(struct shadow *s, const struct shadow_use *use, struct shadow_range *first)
{
    uint64_t at = use->start;
    struct shadow_range *r = first, *gap;

    while (at < use->end) {
        uint64_t next = r && r->start < use->end ? r->start : use->end;

        if (at < next && (gap = fill_gap(s, use, at, next)))
            note_range(s, use, gap);
        at = next;
        if (!r || at >= use->end)
            break;
        look_at_range(use, r, WORLD_NONE);
        note_range(s, use, r);
        at = r->end;
        r = RB_NEXT(shadow_tree, &s->ranges, r);
    }
    merge_ranges(s, use->acts, use->start, use->end);
}

/* The same bytes as the last time: most programs use the same ranges again and again. */
static bool access_latest(struct shadow *s, const struct shadow_use *use)
{
    struct shadow_range *r = s->latest;

    if (!r || r->start != use->start || r->end != use->end || r->freed ||
        use->how & (SHADOW_WORD | SHADOW_FREE | SHADOW_FRESH))
        return false;
    if (use->how & SHADOW_READ && !r->written)
        tell_range(use, r, SHADOW_UNWRITTEN, &no_history);
    look_at_range(use, r, WORLD_NONE);
    if (use->how & SHADOW_WRITE)
        note_write(use, r);
    else
        note_read(use, r);
    return true;
}

void shadow_access(struct shadow *s, const struct shadow_use *use)
{
    struct shadow_range *first;

    if (use->start >= use->end || access_latest(s, use))
        return;
    if (use->how & SHADOW_FRESH)
        shadow_forget(s, use->acts, use->start, use->end);
    first = cut_out(s, use->acts, use->start, use->end);
    if (use->how & SHADOW_READ && !(use->how & SHADOW_WORD))
        tell_unwritten(s, use, first);
    if (use->how & SHADOW_WRITE && !(use->how & SHADOW_WORD))
        write_ranges(s, use, first);
    else
        read_ranges(s, use, first);
}

void shadow_look(const struct shadow *s, const struct shadow_use *use, uint32_t process)
{
    struct shadow_range *r = find_first(s, use->start);

    for (; r && r->start < use->end; r = RB_NEXT(shadow_tree, (struct shadow_tree *)&s->ranges, r))
        look_at_range(use, r, process);
}

void shadow_forget(struct shadow *s, struct acts *acts, uint64_t start, uint64_t end)
{
    struct shadow_range *r = cut_out(s, acts, start, end), *next;

    for (; r && r->start < end; r = next) {
        next = RB_NEXT(shadow_tree, &s->ranges, r);
        free_range(s, acts, r);
    }
}

void shadow_find_writes(const struct shadow *s, uint64_t start, uint64_t end,
                        void (*found)(void *owner, const struct history *write), void *owner)
{
    struct shadow_range *r = find_first(s, start);

    for (; r && r->start < end; r = RB_NEXT(shadow_tree, (struct shadow_tree *)&s->ranges, r))
        if (r->write.actor != ACTOR_NONE)
            found(owner, &r->write);
}

void shadow_init(struct shadow *s, bool written)
{
    *s = (struct shadow){.written = written};
    RB_INIT(&s->ranges);
}

void shadow_deinit(struct shadow *s, struct acts *acts)
{
    struct shadow_range *r;

    while ((r = RB_MIN(shadow_tree, &s->ranges)))
        free_range(s, acts, r);
}

size_t shadow_count(const struct shadow *s)
{
    struct shadow_range *r;
    size_t n = 0;

    RB_FOREACH(r, shadow_tree, (struct shadow_tree *)&s->ranges)
    n++;
    return n;
}
