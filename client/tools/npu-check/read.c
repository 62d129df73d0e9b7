/* Files of check records: chunks by thread, and a heap of threads by the time of their records. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/read.h"
#include "client/tools/npu-check/records.h"

#define TEXTS 64u /* nested ranges of a thread that are known */

/* A place, once for each process and content. */
struct known_place {
    uint32_t index; /* world->places */
    UT_hash_handle hh;
    size_t n; /* bytes of the key: process, frames, line, source */
    uint64_t key[];
};

/* A thread of a file. */
struct cursor {
    struct file *file;
    uint32_t number; /* of all */
    uint32_t writer, thread;
    uint64_t *chunks; /* their offsets in the file */
    size_t n_chunks, size_chunks, next_chunk;
    unsigned char *buffer; /* of a chunk; NULL: nothing is left */
    size_t at;
    struct check_record *now;
    uint64_t ns;
    uint32_t *places; /* of the world, by their number in this thread - 1 */
    size_t n_places, size_places;
    char source[CHECK_SOURCE_TEXT + 2]; /* for the next place */
    size_t source_length;
    uint64_t source_line;
    uint32_t ranges[TEXTS]; /* world->texts */
    uint32_t depth;         /* more than TEXTS: those are not known */
    uint32_t mark;
    UT_hash_handle hh;
};

struct file {
    int fd;
    uint32_t process;
    uint32_t living; /* cursors */
    bool ended;      /* was returned */
    struct cursor *cursors;
    struct file *next;
};

struct reader {
    struct world *world;
    struct file *files;
    struct cursor **heap;
    size_t n_heap;
    struct known_place *places;
    struct cursor *latest; /* whose record was returned: it goes on with the next call */
    uint32_t n_cursors;
    uint32_t n_ended; /* files that are read, and were not returned as ended */
    uint64_t count, malformed;
};

/* --------------------------------------------------------------------------------------- chunks */

/* The next chunk of the thread. False: there is none. */
static bool load_chunk(struct cursor *c)
{
    ssize_t n;

    if (c->next_chunk == c->n_chunks)
        return false;
    n = pread(c->file->fd, c->buffer, CHECK_CHUNK, (off_t)c->chunks[c->next_chunk++]);
    n = n < 0 ? 0 : n;
    memset(c->buffer + n, 0, CHECK_CHUNK - (size_t)n);
    c->at = sizeof(struct check_chunk);
    return true;
}

static void close_cursor(struct reader *r, struct cursor *c)
{
    free(c->buffer);
    c->buffer = NULL;
    c->now = NULL;
    if (--c->file->living == 0)
        r->n_ended++;
}

/* The next record is c->now. False: there are no more. */
static bool step_cursor(struct reader *r, struct cursor *c)
{
    struct check_record *now;

    while (c->buffer) {
        now = (struct check_record *)(void *)(c->buffer + c->at);
        if (c->at + sizeof(*now) <= CHECK_CHUNK && now->kind != CHECK_NONE) {
            if (!record_is_sound(now, CHECK_CHUNK - c->at)) {
                r->malformed++;
                break;
            }
            c->at += now->words * 8u;
            /* Never back, whatever it says. */
            c->ns = now->ns = now->ns > c->ns ? now->ns : c->ns;
            c->now = now;
            return true;
        }
        if (!load_chunk(c))
            break;
    }
    if (c->buffer)
        close_cursor(r, c);
    return false;
}

/* ------------------------------------------------------------------------------------- the heap */

static bool is_earlier(const struct cursor *a, const struct cursor *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    if (record_learns(a->now->kind) != record_learns(b->now->kind))
        return record_learns(b->now->kind);
    return a->number < b->number;
}

static void sink(struct reader *r, size_t i)
{
    struct cursor *c = r->heap[i];

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= r->n_heap)
            break;
        if (child + 1 < r->n_heap && is_earlier(r->heap[child + 1], r->heap[child]))
            child++;
        if (!is_earlier(r->heap[child], c))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = c;
}

/* The first of the heap goes on to its next record. */
static void step_first(struct reader *r)
{
    if (!step_cursor(r, r->heap[0]))
        r->heap[0] = r->heap[--r->n_heap];
    if (r->n_heap > 0)
        sink(r, 0);
}

/* ----------------------------------------------------------------------- what the reader keeps */

static void take_module(struct reader *r, struct cursor *c, struct acts *acts)
{
    const struct check_module *m = (const void *)c->now;
    struct world_process *p = &r->world->processes[c->file->process];

    (void)acts;
    p->modules = need_array(p->modules, p->n_modules + 1, sizeof(*p->modules));
    p->modules[p->n_modules] = (struct world_module){
        .start = m->start,
        .end = m->end,
        .bias = m->bias,
        .path = strndup(m->text, m->r.length),
    };
    if (!p->modules[p->n_modules++].path)
        err(NEED_EXIT, "memory");
}

static void set_source(struct world_place *p, const struct cursor *c)
{
    size_t n = strlen(c->source);

    p->source_line = (uint32_t)c->source_line;
    p->source_file = strdup(c->source);
    p->source_function = strdup(n < c->source_length ? c->source + n + 1 : "");
    if (!p->source_file || !p->source_function)
        err(NEED_EXIT, "memory");
}

static uint32_t add_place(struct reader *r, const struct cursor *c, const struct check_place *place)
{
    struct world *w = r->world;
    struct world_place *p;

    if ((w->n_places & (w->n_places - 1)) == 0)
        w->places = need_array(w->places, w->n_places ? w->n_places * 2 : 1, sizeof(*w->places));
    p = &w->places[w->n_places];
    memset(p, 0, sizeof(*p));
    p->process = c->file->process;
    p->n = place->n;
    p->frames = need_zeroed(place->n, sizeof(uint64_t));
    memcpy(p->frames, place->frame, place->n * sizeof(uint64_t));
    if (place->source)
        set_source(p, c);
    return (uint32_t)w->n_places++;
}

static uint32_t find_place(struct reader *r, const struct cursor *c,
                           const struct check_place *place)
{
    uint64_t key[3 + CHECK_FRAMES + sizeof(c->source) / 8 + 1] = {c->file->process, place->n};
    size_t n = (2 + place->n) * sizeof(key[0]);
    struct known_place *known;

    memcpy(key + 2, place->frame, place->n * sizeof(key[0]));
    if (place->source) {
        memcpy((char *)key + n, &c->source_line, sizeof(c->source_line));
        n += sizeof(c->source_line);
        memcpy((char *)key + n, c->source, c->source_length);
        n += c->source_length;
    }
    HASH_FIND(hh, r->places, key, n, known);
    if (known)
        return known->index;
    known = need_zeroed(1, sizeof(*known) + n);
    memcpy(known->key, key, n);
    known->n = n;
    known->index = add_place(r, c, place);
    HASH_ADD_KEYPTR(hh, r->places, known->key, n, known);
    return known->index;
}

static void take_place(struct reader *r, struct cursor *c, struct acts *acts)
{
    const struct check_place *place = (const void *)c->now;

    (void)acts;
    c->places = need_room(c->places, c->n_places, &c->size_places, sizeof(*c->places));
    c->places[c->n_places++] = find_place(r, c, place);
    c->source_length = 0;
}

static void take_source(struct reader *r, struct cursor *c, struct acts *acts)
{
    const struct check_source *s = (const void *)c->now;

    (void)r;
    (void)acts;
    c->source_length = s->r.length < CHECK_SOURCE_TEXT ? s->r.length : CHECK_SOURCE_TEXT;
    memset(c->source, 0, sizeof(c->source));
    memcpy(c->source, s->text, c->source_length);
    c->source_line = s->line;
}

static void take_range_begin(struct reader *r, struct cursor *c, struct acts *acts)
{
    const struct check_text *t = (const void *)c->now;

    (void)r;
    if (c->depth < TEXTS)
        c->ranges[c->depth] = text_take(acts, t->text, t->r.length);
    if (c->depth < UINT32_MAX)
        c->depth++;
}

static void take_range_end(struct reader *r, struct cursor *c, struct acts *acts)
{
    (void)r;
    if (c->depth == 0)
        return;
    c->depth--;
    if (c->depth < TEXTS)
        text_unref(acts, c->ranges[c->depth]);
}

static void take_mark(struct reader *r, struct cursor *c, struct acts *acts)
{
    const struct check_text *t = (const void *)c->now;

    (void)r;
    text_unref(acts, c->mark);
    c->mark = text_take(acts, t->text, t->r.length);
}

/* What the thread before was in has ended with it. */
static void take_thread(struct reader *r, struct cursor *c, struct acts *acts)
{
    while (c->depth > 0)
        take_range_end(r, c, acts);
    c->thread = (uint32_t)((const struct check_object *)(const void *)c->now)->object;
}

static void (*const takers[CHECK_KINDS])(struct reader *, struct cursor *, struct acts *) = {
    [CHECK_MODULE] = take_module,       [CHECK_PLACE] = take_place,
    [CHECK_SOURCE] = take_source,       [CHECK_RANGE_BEGIN] = take_range_begin,
    [CHECK_RANGE_END] = take_range_end, [CHECK_MARK] = take_mark,
    [CHECK_THREAD] = take_thread,
};

/* The innermost range around the record; without one the latest mark. */
static uint32_t current_text(const struct cursor *c)
{
    uint32_t depth = c->depth < TEXTS ? c->depth : TEXTS;

    return depth > 0 ? c->ranges[depth - 1] : c->mark;
}

/* Behind the record that was returned or taken last. NULL: there are no more. */
static struct cursor *find_next(struct reader *r)
{
    if (r->latest)
        step_first(r);
    r->latest = r->n_heap > 0 ? r->heap[0] : NULL;
    return r->latest;
}

bool reader_next(struct reader *r, struct acts *acts, struct model_input *in)
{
    struct cursor *c;

    while ((c = find_next(r))) {
        r->count++;
        if (takers[c->now->kind]) {
            takers[c->now->kind](r, c, acts);
            continue;
        }
        *in = (struct model_input){
            .process = c->file->process,
            .writer = c->number,
            .thread = c->thread,
            .place = c->now->place - 1 < c->n_places ? c->places[c->now->place - 1] : WORLD_NONE,
            .range = current_text(c),
            .r = c->now,
        };
        return true;
    }
    return false;
}

bool reader_ended(struct reader *r, uint32_t *process)
{
    if (r->n_ended == 0)
        return false;
    for (struct file *f = r->files; f; f = f->next) {
        if (f->living > 0 || f->ended)
            continue;
        f->ended = true;
        r->n_ended--;
        *process = f->process;
        return true;
    }
    return false;
}

uint64_t reader_count(const struct reader *r)
{
    return r->count;
}

uint64_t reader_malformed(const struct reader *r)
{
    return r->malformed;
}

/* ------------------------------------------------------------------------------------- opening */

static void add_chunk(struct reader *r, struct file *f, uint64_t offset,
                      const struct check_chunk *chunk)
{
    uint32_t writer = chunk->writer;
    struct cursor *c;

    HASH_FIND(hh, f->cursors, &writer, sizeof(writer), c);
    if (!c) {
        c = need_zeroed(1, sizeof(*c));
        c->file = f;
        c->writer = writer;
        c->thread = chunk->thread;
        c->number = r->n_cursors++;
        c->mark = WORLD_NONE;
        HASH_ADD(hh, f->cursors, writer, sizeof(c->writer), c);
    }
    c->chunks = need_room(c->chunks, c->n_chunks, &c->size_chunks, sizeof(*c->chunks));
    c->chunks[c->n_chunks++] = offset;
}

/* The first chunk from there on that is no hole: a file may be 2^62 bytes long by its size. */
static uint64_t next_data(const struct file *f, uint64_t offset)
{
    off_t data = lseek(f->fd, (off_t)offset, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? INT64_MAX : offset;
    return (uint64_t)data / CHECK_CHUNK * CHECK_CHUNK;
}

static void list_chunks(struct reader *r, struct file *f)
{
    struct check_chunk chunk;
    uint64_t offset = next_data(f, CHECK_CHUNK);

    for (; pread(f->fd, &chunk, sizeof(chunk), (off_t)offset) == (ssize_t)sizeof(chunk);
         offset = next_data(f, offset + CHECK_CHUNK))
        if (chunk.thread != 0)
            add_chunk(r, f, offset, &chunk);
}

static void add_process(struct world *w, const struct check_head *head, const char *name)
{
    struct world_process *p;

    w->processes = need_array(w->processes, w->n_processes + 1, sizeof(*w->processes));
    p = &w->processes[w->n_processes++];
    memset(p, 0, sizeof(*p));
    p->pid = head->pid;
    memcpy(p->program, head->program, sizeof(head->program));
    p->file = strdup(name);
    if (!p->file)
        err(NEED_EXIT, "memory");
    p->ended = head->ended;
    p->failed = head->failed;
}

/* NULL, or what is wrong with a file that only a checked process makes. */
static const char *read_head(int fd, struct check_head *head)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return "not a file";
    if (pread(fd, head, sizeof(*head), 0) != (ssize_t)sizeof(*head) || head->magic != CHECK_MAGIC)
        return "nothing is in it; is the disk full?";
    return head->version == CHECK_VERSION ? NULL : "libaclclient and npu-check differ in version";
}

static void open_file(struct reader *r, int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    const char *wrong = fd < 0 ? strerror(errno) : NULL;
    struct check_head head = {0};
    struct file *f, **last;

    if (fd >= 0)
        wrong = read_head(fd, &head);
    if (wrong) {
        /* Silence of a process that was not looked at is no praise. */
        if (isdigit((unsigned char)name[0]))
            warnx("%s: %s: its process was not checked", name, wrong);
        if (fd >= 0)
            close(fd);
        return;
    }
    f = need_zeroed(1, sizeof(*f));
    f->fd = fd;
    f->process = (uint32_t)r->world->n_processes;
    for (last = &r->files; *last; last = &(*last)->next)
        ;
    *last = f;
    add_process(r->world, &head, name);
    list_chunks(r, f);
}

/* Each thread at its first record. */
static void fill_heap(struct reader *r)
{
    r->heap = need_zeroed(r->n_cursors, sizeof(struct cursor *));
    for (struct file *f = r->files; f; f = f->next) {
        f->living = HASH_COUNT(f->cursors);
        r->n_ended += f->living == 0;
        for (struct cursor *c = f->cursors; c; c = c->hh.next) {
            c->buffer = need_zeroed(1, CHECK_CHUNK);
            load_chunk(c);
            if (step_cursor(r, c))
                r->heap[r->n_heap++] = c;
        }
    }
    for (size_t i = r->n_heap / 2; i-- > 0;)
        sink(r, i);
}

/* As many files as there are processes. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

struct reader *reader_open(const char *directory, struct world *w)
{
    struct dirent **names = NULL;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n;
    struct reader *r;

    if (fd < 0)
        return NULL;
    n = scandirat(fd, ".", &names, NULL, alphasort);
    if (n < 0) {
        close(fd);
        return NULL;
    }
    raise_limit();
    r = need_zeroed(1, sizeof(*r));
    r->world = w;
    for (int i = 0; i < n; i++) {
        open_file(r, fd, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    close(fd);
    fill_heap(r);
    return r;
}

static void free_file(struct file *f)
{
    struct cursor *c = f->cursors, *next;

    HASH_CLEAR(hh, f->cursors);
    for (; c; c = next) {
        next = c->hh.next;
        free(c->buffer);
        free(c->chunks);
        free(c->places);
        free(c);
    }
    close(f->fd);
    free(f);
}

void reader_free(struct reader *r)
{
    struct known_place *p, *next;
    struct file *f;

    if (!r)
        return;
    p = r->places;
    HASH_CLEAR(hh, r->places);
    for (; p; p = next) {
        next = p->hh.next;
        free(p);
    }
    while ((f = r->files)) {
        r->files = f->next;
        free_file(f);
    }
    free(r->heap);
    free(r);
}
