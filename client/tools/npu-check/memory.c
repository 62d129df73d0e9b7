/* Memory: by the names of processes, by the identity of exports, and what uses its bytes. */
#include <string.h>

#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/need.h"

#define SEGMENTS 4096u /* shared buffers' segments that are known */

/* --------------------------------------------------------------------------------------- users */

static void note_user(struct model *m, struct users *all, const struct actor *a, uint32_t act,
                      uint8_t how)
{
    struct user *u = NULL;

    for (uint32_t i = 0; i < all->n && !u; i++)
        if (all->list[i].actor == a->index)
            u = &all->list[i];
    if (!u) {
        size_t size = all->size;

        all->list = need_room(all->list, all->n, &size, sizeof(*all->list));
        all->size = (uint32_t)size;
        u = &all->list[all->n++];
        *u = (struct user){.act = WORLD_NONE};
    }
    acts_ref(&m->acts, act);
    acts_unref(&m->acts, u->act);
    *u = (struct user){.actor = a->index, .act = act, .epoch = a->epoch, .how = how};
}

void users_free(struct model *m, struct users *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        acts_unref(&m->acts, all->list[i].act);
    free(all->list);
    *all = (struct users){0};
}

/* Those of whom the actor does not know that they are through. */
static void tell_users(struct model *m, const struct users *all, const struct actor *a,
                       uint32_t act, const struct byte_range *bytes)
{
    for (uint32_t i = 0; i < all->n; i++) {
        struct history h = {
            .actor = all->list[i].actor, .act = all->list[i].act, .epoch = all->list[i].epoch};

        if (!actor_knows(a, h.actor, h.epoch))
            find_race(m, &h, all->list[i].how & CHECK_WRITE ? ACT_WRITE : ACT_READ, a, act, bytes);
    }
}

/* -------------------------------------------------------------------------------------- memory */

static struct memory *memory_make(uint64_t size, uint8_t kind, bool written)
{
    struct memory *y = need_zeroed(1, sizeof(*y));

    y->refs = 1;
    y->size = size;
    y->kind = kind;
    y->made = WORLD_NONE;
    shadow_init(&y->shadow, written);
    return y;
}

static void memory_unlist(struct model *m, struct memory *y)
{
    if (!y->listed)
        return;
    if (y->segment)
        HASH_DEL(m->segments, y);
    else
        HASH_DEL(m->exports, y);
    y->listed = false;
}

struct memory *memory_ref(struct memory *y)
{
    y->refs++;
    return y;
}

void memory_unref(struct model *m, struct memory *y)
{
    struct signal *w, *next;

    if (!y || --y->refs > 0)
        return;
    memory_unlist(m, y);
    HASH_ITER (hh, y->words, w, next) {
        HASH_DEL(y->words, w);
        signal_unref(m, w);
    }
    users_free(m, &y->word_users);
    shadow_deinit(&y->shadow, &m->acts);
    acts_unref(&m->acts, y->made);
    free(y);
}

static struct memory *find_segment(struct model *m, uint64_t number)
{
    struct memory *y;

    HASH_FIND(hh, m->segments, &number, sizeof(number), y);
    if (y)
        return y;
    if (HASH_COUNT(m->segments) >= SEGMENTS) {
        y = m->segments;
        memory_unlist(m, y);
        memory_unref(m, y);
    }
    y = memory_make(UINT64_MAX, CHECK_MEMORY_BUFFER, true);
    y->key = number;
    y->listed = y->segment = true;
    HASH_ADD(hh, m->segments, key, sizeof(y->key), y);
    return y;
}

static struct memory *find_export(struct model *m, uint64_t identity)
{
    struct memory *y = NULL;

    if (identity)
        HASH_FIND(hh, m->exports, &identity, sizeof(identity), y);
    return y;
}

static void list_export(struct model *m, struct memory *y, uint64_t identity)
{
    if (identity == 0 || y->listed || find_export(m, identity))
        return;
    y->key = identity;
    y->listed = true;
    HASH_ADD(hh, m->exports, key, sizeof(y->key), y);
}

/* --------------------------------------------------------------------------------------- names */

void name_unref(struct model *m, struct name *n)
{
    if (!n || --n->refs > 0)
        return;
    for (uint32_t i = 0; i < n->n_maps; i++)
        acts_unref(&m->acts, n->maps[i].act);
    free(n->maps);
    users_free(m, &n->users);
    acts_unref(&m->acts, n->act);
    acts_unref(&m->acts, n->freed);
    acts_unref(&m->acts, n->closed.act);
    point_free(&n->closed_by);
    memory_unref(m, n->memory);
    free(n);
}

/* Takes the references to the memory and the act. */
static struct name *name_make(struct process *p, const struct check_memory_name *key,
                              struct memory *y, uint32_t act)
{
    struct name *n = need_zeroed(1, sizeof(*n));

    n->key = *key;
    n->refs = 1;
    n->memory = y;
    n->act = act;
    n->freed = WORLD_NONE;
    n->closed.act = WORLD_NONE;
    n->closed_by = POINT_NOTHING;
    HASH_ADD(hh, p->names, key, sizeof(n->key), n);
    return n;
}

static struct name *find_known(struct process *p, const struct check_memory_name *key)
{
    struct name *n;

    HASH_FIND(hh, p->names, key, sizeof(*key), n);
    return n;
}

struct name *name_find(struct model *m, struct process *p, const struct check_memory_name *key)
{
    struct name *n = find_known(p, key);

    (void)m;
    /* It was there before checking began. */
    return n ? n
             : name_make(p, key, memory_make(UINT64_MAX, CHECK_MEMORY_DEVICE, true), WORLD_NONE);
}

static void drop_name(struct model *m, struct process *p, struct name *n)
{
    if (!n)
        return;
    HASH_DEL(p->names, n);
    name_unref(m, n);
}

/* Names that are gone are known for a while: tasks may still name them. */
static void bury_name(struct model *m, struct process *p, struct name *n)
{
    struct name **grave = &p->dead[p->n_dead++ % PROCESS_DEAD_NAMES];

    n->gone = true;
    if (*grave) {
        if (find_known(p, &(*grave)->key) == *grave)
            HASH_DEL(p->names, *grave);
        name_unref(m, *grave);
    }
    *grave = n;
}

static void take_memory(struct model *m, struct process *p)
{
    const struct check_memory *r = (const void *)m->input->r;
    struct memory *y = r->imported ? find_export(m, r->identity) : NULL;
    struct name *old = find_known(p, &r->name), *n;

    if (y) /* the name before may be the last that has it */
        memory_ref(y);
    if (old && old->gone)
        HASH_DEL(p->names, old);
    else
        drop_name(m, p, old);
    if (!y) {
        y = memory_make(r->size, (uint8_t)r->kind,
                        r->imported ||
                            (r->kind != CHECK_MEMORY_DEVICE && r->kind != CHECK_MEMORY_PHYSICAL));
        list_export(m, y, r->identity);
    }
    n = name_make(p, &r->name, y, model_act(m, r->imported ? ACT_IMPORT : ACT_ALLOC, NULL));
    n->address = r->address;
    n->imported = r->imported;
    if (!r->imported && y->made == WORLD_NONE)
        y->made = acts_ref(&m->acts, n->act);
}

static void take_export(struct model *m, struct process *p)
{
    const struct check_memory *r = (const void *)m->input->r;
    struct name *n = find_known(p, &r->name);

    if (n)
        list_export(m, n->memory, r->identity);
}

/* ----------------------------------------------------------------------------------------- uses */

struct use_context {
    struct model *m;
    const struct byte_use *use;
    const struct actor *actor;
    uint32_t act;
};

static void tell_use(void *owner, enum shadow_tells what, const struct history *with,
                     uint64_t start, uint64_t end)
{
    struct use_context *c = owner;
    struct byte_range bytes = {.use = c->use, .start = start, .end = end};

    if (what == SHADOW_UNWRITTEN && c->use->how & CHECK_MAYBE)
        return;
    if (what == SHADOW_UNWRITTEN)
        find_uninitialised(c->m, c->act, &bytes);
    else if (what == SHADOW_FREED)
        find_use_after_free(c->m, with->act, c->act, &bytes, false);
    else
        find_race(c->m, with, what == SHADOW_READ_BY ? ACT_READ : ACT_WRITE, c->actor, c->act,
                  &bytes);
}

static struct shadow_use make_shadow_use(struct use_context *c, uint8_t how)
{
    return (struct shadow_use){
        .actor = c->actor,
        .actors = c->m->actors,
        .acts = &c->m->acts,
        .act = c->act,
        .how = how,
        .start = c->use->offset,
        .end = c->use->offset + c->use->size,
        .tell = tell_use,
        .owner = c,
    };
}

void byte_use_fill(struct model *m, struct process *p, struct byte_use *u,
                   const struct check_range_use *of)
{
    *u = (struct byte_use){.offset = of->offset, .size = of->size, .how = (uint8_t)of->how};
    if (u->offset > UINT64_MAX - u->size)
        u->size = UINT64_MAX - u->offset;
    if (of->name.slot == CHECK_SLOT_HOST) {
        if (!p->host) {
            p->host = memory_make(UINT64_MAX, CHECK_MEMORY_PINNED, true);
            p->host->host = true;
        }
        u->memory = memory_ref(p->host);
    } else if (of->name.slot == CHECK_SLOT_BUFFER) {
        u->memory = memory_ref(find_segment(m, of->name.generation));
    } else {
        u->name = name_find(m, p, &of->name);
        u->name->refs++;
        u->memory = memory_ref(u->name->memory);
    }
}

void byte_use_free(struct model *m, struct byte_use *u)
{
    name_unref(m, u->name);
    memory_unref(m, u->memory);
}

/* The import was closed, or the bytes were unmapped, when the task was there already. */
static bool is_closed(struct use_context *c)
{
    const struct name *n = c->use->name;
    struct history by;
    struct byte_range bytes = {.use = c->use};

    if (!n || n->closed.act == WORLD_NONE || n->closed.offset >= c->use->offset + c->use->size ||
        c->use->offset >= n->closed.offset + n->closed.size)
        return false;
    bytes.start = c->use->offset;
    bytes.end = c->use->offset + c->use->size;
    by = (struct history){
        .actor = n->closed_by.actor, .act = n->closed.act, .epoch = n->closed_by.epoch};
    if (!actor_knows(c->actor, by.actor, by.epoch))
        find_race(c->m, &by, ACT_UNMAP, c->actor, c->act, &bytes);
    else if (n->gone)
        find_use_after_free(c->m, by.act, c->act, &bytes, false);
    return n->gone;
}

static void tell_beyond(struct use_context *c)
{
    const struct memory *y = c->use->memory;
    uint64_t end = c->use->offset + c->use->size;
    struct byte_range bytes = {.use = c->use, .start = c->use->offset, .end = end};

    if (end <= y->size)
        return;
    bytes.start = bytes.start > y->size ? bytes.start : y->size;
    find_use_after_free(c->m, WORLD_NONE, c->act, &bytes, true);
}

/* Words that a write changes have a value that is not known. */
static void spoil_words(const struct use_context *c)
{
    uint64_t start = c->use->offset, end = start + c->use->size, n;
    struct memory *y = c->use->memory;
    struct signal *w, *next;

    n = HASH_COUNT(y->words);
    if (n > c->use->size / 8 + 2) {
        for (uint64_t i = start / 8; i <= (end - 1) / 8; i++) {
            uint64_t at = i * 8;

            HASH_FIND(hh, y->words, &at, sizeof(at), w);
            if (w)
                signal_spoil(w, c->actor);
        }
        return;
    }
    HASH_ITER (hh, y->words, w, next) {
        if (w->offset < end && start < w->offset + 8)
            signal_spoil(w, c->actor);
    }
}

void byte_use_look_at(struct model *m, const struct byte_use *u, const struct actor *a,
                      uint32_t act)
{
    struct use_context c = {.m = m, .use = u, .actor = a, .act = act};
    struct shadow_use s = make_shadow_use(&c, u->how & (CHECK_READ | CHECK_WRITE | CHECK_WORD));

    if (u->size == 0 || is_closed(&c))
        return;
    tell_beyond(&c);
    if (s.end > u->memory->size)
        s.end = u->memory->size;
    shadow_access(&u->memory->shadow, &s);
    if (u->how & CHECK_WORD)
        note_user(m, &u->memory->word_users, a, act, u->how);
    /* A kernel may write words, too. */
    if (u->memory->words && u->how & CHECK_WRITE &&
        (!(u->how & CHECK_WORD) || u->how & CHECK_MAYBE))
        spoil_words(&c);
    if (u->name && u->name->imported)
        note_user(m, &u->name->users, a, act, u->how);
}

struct word_search {
    struct model *m;
    struct signal *word;
};

static void add_writer(void *owner, const struct history *write)
{
    struct word_search *c = owner;
    const struct actor *a = c->m->actors[write->actor];
    struct point p = {.actor = write->actor, .epoch = write->epoch, .clock = a->known};

    if (a->stream)
        p.clock = stream_clock_at(a->stream, write->epoch);
    point_add(&c->word->pending, &p);
}

struct signal *word_find(struct model *m, struct memory *y, uint64_t offset)
{
    struct signal *w;

    HASH_FIND(hh, y->words, &offset, sizeof(offset), w);
    if (w)
        return w;
    w = signal_make(SIGNAL_WORD, OBJECT_MEMORY, offset);
    w->offset = offset;
    HASH_ADD(hh, y->words, offset, sizeof(w->offset), w);
    shadow_find_writes(&y->shadow, offset, offset + 8, add_writer, &(struct word_search){m, w});
    point_add(&w->all, &w->pending);
    return w;
}

void pool_look_at(struct model *m, const struct byte_use *u, const struct actor *a, uint32_t act,
                  bool is_alloc)
{
    struct use_context c = {.m = m, .use = u, .actor = a, .act = act};
    struct shadow_use s =
        make_shadow_use(&c, SHADOW_WRITE | (is_alloc ? SHADOW_FRESH : SHADOW_FREE));

    shadow_access(&u->memory->shadow, &s);
}

bool pool_piece_end(struct model *m, struct process *p, uint64_t address)
{
    struct pool_piece *piece;

    HASH_FIND(hh, p->pieces, &address, sizeof(address), piece);
    if (!piece)
        return false;
    HASH_DEL(p->pieces, piece);
    acts_unref(&m->acts, piece->act);
    free(piece);
    return true;
}

/* -------------------------------------------------------------------- what takes memory away */

static void close_name(struct name *n, struct actor *a, uint32_t act, uint64_t offset,
                       uint64_t size)
{
    n->closed = (struct mapping){.offset = offset, .size = size, .act = act};
    point_free(&n->closed_by);
    n->closed_by = actor_point(a);
}

static void free_memory(struct use_context *c)
{
    struct byte_range bytes = {.use = c->use, .end = c->use->size};
    struct shadow_use s = make_shadow_use(c, SHADOW_WRITE | SHADOW_FREE);

    /* The library's own, of which nothing of the program is left. */
    if (c->use->name->pool)
        s.how |= SHADOW_FRESH;
    tell_users(c->m, &c->use->memory->word_users, c->actor, c->act, &bytes);
    shadow_access(&c->use->memory->shadow, &s);
}

static void take_memory_gone(struct model *m, struct process *p)
{
    const struct check_memory *r = (const void *)m->input->r;
    struct name *n = find_known(p, &r->name);
    struct actor *a = model_host(m);
    struct byte_use u;
    struct use_context c = {.m = m, .use = &u, .actor = a};

    if (!n || n->gone)
        return;
    u = (struct byte_use){.name = n, .memory = n->memory, .size = n->memory->size};
    c.act = model_act(m, n->imported ? ACT_CLOSE : ACT_FREE, NULL);
    a->epoch++;
    /* By aclrtFree(), or a reset: not what the library does with memory that it has back. */
    if (n->pool && pool_piece_end(m, p, n->address))
        n->pool = false;
    if (n->imported) {
        tell_users(m, &n->users, a, c.act, &(struct byte_range){.use = &u, .end = u.size});
        close_name(n, a, acts_ref(&m->acts, c.act), 0, u.size);
    } else {
        free_memory(&c);
    }
    acts_unref(&m->acts, n->freed);
    n->freed = c.act;
    bury_name(m, p, n);
}

static void take_map(struct model *m, struct process *p)
{
    const struct check_map *r = (const void *)m->input->r;
    struct name *n = name_find(m, p, &r->name);

    n->maps = need_array(n->maps, n->n_maps + 1, sizeof(*n->maps));
    n->maps[n->n_maps++] = (struct mapping){.offset = r->offset,
                                            .address = r->address,
                                            .size = r->size,
                                            .act = model_act(m, ACT_MAP, NULL)};
}

/* False: there was none. */
static bool drop_mapping(struct model *m, struct name *n, uint64_t address, struct mapping *was)
{
    for (uint32_t i = 0; i < n->n_maps; i++) {
        if (n->maps[i].address != address)
            continue;
        *was = n->maps[i];
        acts_unref(&m->acts, was->act);
        n->maps[i] = n->maps[--n->n_maps];
        return true;
    }
    return false;
}

static bool is_mapped_elsewhere(const struct name *n, const struct mapping *was)
{
    for (uint32_t i = 0; i < n->n_maps; i++)
        if (n->maps[i].offset < was->offset + was->size &&
            was->offset < n->maps[i].offset + n->maps[i].size)
            return true;
    return false;
}

static void take_unmap(struct model *m, struct process *p)
{
    const struct check_map *r = (const void *)m->input->r;
    struct name *n = name_find(m, p, &r->name);
    struct mapping was = {.offset = r->offset, .size = r->size};
    struct actor *a = model_host(m);
    struct byte_use u = {.name = n, .memory = n->memory};
    struct use_context c = {.m = m, .use = &u, .actor = a};
    struct shadow_use s;

    drop_mapping(m, n, r->address, &was);
    if (was.size > UINT64_MAX - was.offset || is_mapped_elsewhere(n, &was))
        return;
    u.offset = was.offset;
    u.size = was.size;
    c.act = model_act(m, ACT_UNMAP, NULL);
    a->epoch++;
    s = make_shadow_use(&c, SHADOW_WRITE);
    shadow_look(&n->memory->shadow, &s, p->index);
    acts_unref(&m->acts, n->closed.act);
    close_name(n, a, c.act, was.offset, was.size);
    n->closed.address = r->address;
}

static void take_unregister(struct model *m, struct process *p)
{
    const struct check_range *r = (const void *)m->input->r;
    struct byte_use u = {.memory = p->host, .offset = r->address, .size = r->size};
    struct actor *a = model_host(m);
    struct use_context c = {.m = m, .use = &u, .actor = a};
    struct shadow_use s;

    if (!p->host || r->size > UINT64_MAX - r->address)
        return;
    c.act = model_act(m, ACT_UNMAP, NULL);
    a->epoch++;
    s = make_shadow_use(&c, SHADOW_WRITE);
    shadow_look(&p->host->shadow, &s, p->index);
    shadow_forget(&p->host->shadow, &m->acts, r->address, r->address + r->size);
    acts_unref(&m->acts, c.act);
}

void (*const memory_takers[CHECK_KINDS])(struct model *, struct process *) = {
    [CHECK_MEMORY] = take_memory, [CHECK_MEMORY_GONE] = take_memory_gone,
    [CHECK_EXPORT] = take_export, [CHECK_MAP] = take_map,
    [CHECK_UNMAP] = take_unmap,   [CHECK_UNREGISTER] = take_unregister,
};
