/*
 * Every prefix of the stores into kept memory is a valid state: npud may end behind any of them.
 *
 * A random series of steps makes, changes and drops records, descriptors and words. Its stores into
 * kept memory are recorded, one machine instruction at a time: the pages are read-only, and each
 * store that faults is executed in single step. Then, for each prefix of the record, another npud
 * begins from a file that has only these stores. It must find what was committed by then, all of
 * it, and nothing else; the keeper must have the descriptors that records name, and no more; and
 * new records must leave the old ones alone.
 *
 * The recovery is recorded as well, for some of the prefixes, because npud may end there, too.
 *
 * Skipped under TSan: one thread, whose faults are its way to go on.
 * Runs long: 15 s.
 */
#include "tests/unit/restart.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "daemon/kept/log.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"

#define PAGE       4096u
#define PAGES      (KEPT_BYTES / PAGE)
#define PAGES_MAX  4096u /* that are written */
#define OBJECTS    40u
#define SIZES_MAX  5u
#define LIVE_WORDS 6u
#define ENGINE     3u /* whose word log is used */

/* --- what is recorded --- */

enum change_kind {
    CHANGE_STORE, /* bytes at a place */
    CHANGE_ZERO,  /* a page is given back */
    CHANGE_PUT,   /* the keeper has a descriptor */
    CHANGE_DROP,  /* and lets go of it */
};

struct change {
    enum change_kind kind;
    uint64_t where; /* offset, or key */
    uint32_t bytes;
    unsigned char data[64];
};

struct recording {
    struct change *change;
    size_t n, size;
};

static struct {
    unsigned char *base; /* of kept memory; NULL: not mapped */
    bool on;
    struct recording *to;
    unsigned char **shadow; /* pages as they were recorded */
    size_t stepping[4];     /* pages that may be written until the trap */
    unsigned n_stepping;
} tape;

/* Called in handlers of signals that npud's own stores raise: memory is there beforehand. */
static struct change *next_change(enum change_kind kind, uint64_t where)
{
    struct recording *r = tape.to;
    struct change *c = &r->change[r->n];

    if (r->n == r->size)
        abort();
    r->n++;
    *c = (struct change){.kind = kind, .where = where};
    return c;
}

static void recording_begin(struct recording *r, size_t room)
{
    *r = (struct recording){.change = calloc(room, sizeof(struct change)), .size = room};
    ck_assert_ptr_nonnull(r->change);
    tape.to = r;
    tape.on = true;
}

static void recording_free(struct recording *r)
{
    free(r->change);
    *r = (struct recording){0};
}

static unsigned char *page_at(size_t page)
{
    return tape.base + page * PAGE;
}

static void set_page(size_t page, int rights)
{
    if (mprotect(page_at(page), PAGE, rights) < 0)
        abort();
}

static void take_shadow(size_t page)
{
    if (tape.shadow[page])
        return;
    tape.shadow[page] =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(tape.shadow[page], page_at(page), PAGE);
}

static void forget_shadows(void)
{
    for (size_t page = 0; page < PAGES; page++) {
        if (tape.shadow[page])
            munmap(tape.shadow[page], PAGE);
        tape.shadow[page] = NULL;
    }
}

/* The bytes that differ, as one store or a few. */
static void note_page(size_t page)
{
    unsigned char *is = page_at(page), *was = tape.shadow[page];
    unsigned i = 0;

    while (i < PAGE) {
        struct change *c;

        if (memcmp(is + i, was + i, 8) == 0) {
            i += 8;
            continue;
        }
        c = next_change(CHANGE_STORE, page * PAGE + i);
        for (; i < PAGE && c->bytes < sizeof(c->data) && memcmp(is + i, was + i, 8) != 0; i += 8) {
            memcpy(c->data + c->bytes, is + i, 8);
            c->bytes += 8;
        }
        memcpy(was + (c->where - page * PAGE), c->data, c->bytes);
    }
}

#if defined(__x86_64__)
#define TRAP_FLAG 0x100

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    unsigned char *at = info->si_addr;
    size_t page = (size_t)(at - tape.base) / PAGE;

    (void)number;
    if (!tape.on || at < tape.base || at >= tape.base + KEPT_BYTES ||
        tape.n_stepping == sizeof(tape.stepping) / sizeof(tape.stepping[0])) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    take_shadow(page);
    tape.stepping[tape.n_stepping++] = page;
    set_page(page, PROT_READ | PROT_WRITE);
    u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;

    (void)number;
    (void)info;
    u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    while (tape.n_stepping > 0) {
        size_t page = tape.stepping[--tape.n_stepping];

        note_page(page);
        set_page(page, PROT_READ);
    }
}

static void catch_stores(void)
{
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

    ck_assert_int_eq(sigaction(SIGSEGV, &fault, NULL), 0);
    ck_assert_int_eq(sigaction(SIGTRAP, &step, NULL), 0);
}
#else
static void catch_stores(void)
{
}
#endif

/*
 * mk/test.mk wraps these. Kept memory is mapped, and pages of it are given back; and what is long
 * is stored in pieces of 64 bytes, upwards, whatever the processor has for it.
 */
void *__real_memset(void *at, int byte, size_t bytes);
void *__wrap_memset(void *at, int byte, size_t bytes);
void *__real_memcpy(void *at, const void *from, size_t bytes);
void *__wrap_memcpy(void *at, const void *from, size_t bytes);
void *__real_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);

static bool is_taped(const unsigned char *at, size_t bytes)
{
    return tape.on && bytes > 64 && at >= tape.base && at < tape.base + KEPT_BYTES;
}

/* The whole of it may be written, and is compared afterwards. */
static void begin_bulk(const unsigned char *at, size_t bytes)
{
    size_t first = (size_t)(at - tape.base) / PAGE;
    size_t last = (size_t)(at + bytes - 1 - tape.base) / PAGE;

    for (size_t page = first; page <= last; page++)
        take_shadow(page);
    if (mprotect(page_at(first), (last - first + 1) * PAGE, PROT_READ | PROT_WRITE) < 0)
        abort();
}

static void end_bulk(const unsigned char *at, size_t bytes)
{
    size_t first = (size_t)(at - tape.base) / PAGE;
    size_t last = (size_t)(at + bytes - 1 - tape.base) / PAGE;

    for (size_t page = first; page <= last; page++)
        note_page(page);
    if (mprotect(page_at(first), (last - first + 1) * PAGE, PROT_READ) < 0)
        abort();
}

void *__wrap_memset(void *at, int byte, size_t bytes)
{
    bool taped = is_taped(at, bytes);

    if (taped)
        begin_bulk(at, bytes);
    __real_memset(at, byte, bytes);
    if (taped)
        end_bulk(at, bytes);
    return at;
}

void *__wrap_memcpy(void *at, const void *from, size_t bytes)
{
    bool taped = is_taped(at, bytes);

    if (taped)
        begin_bulk(at, bytes);
    __real_memcpy(at, from, bytes);
    if (taped)
        end_bulk(at, bytes);
    return at;
}

void *__wrap_mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
    void *map = __real_mmap(at, size, rights, flags, fd, offset);

    if (size != KEPT_BYTES || !(rights & PROT_WRITE) || map == MAP_FAILED)
        return map;
    tape.base = map;
    if (tape.on && mprotect(map, size, PROT_READ) < 0)
        abort();
    return map;
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    int r = __real_madvise(at, size, advice);

    if (r != 0 || advice != MADV_REMOVE || !tape.on)
        return r;
    /* The kernel may be cut short between two of them. */
    for (size_t page = (size_t)((unsigned char *)at - tape.base) / PAGE; size > 0; size -= PAGE) {
        next_change(CHANGE_ZERO, page * PAGE);
        if (tape.shadow[page])
            memset(tape.shadow[page], 0, PAGE);
        page++;
    }
    return r;
}

static void note_key(uint64_t key, bool put)
{
    if (tape.on)
        next_change(put ? CHANGE_PUT : CHANGE_DROP, key);
}

static void tape_stop(void)
{
    tape.on = false;
    if (mprotect(tape.base, KEPT_BYTES, PROT_READ | PROT_WRITE) < 0)
        abort();
}

/* --- the file as some npud has left it --- */

struct image {
    unsigned char **page; /* by number; NULL: it was never written */
    size_t written[PAGES_MAX];
    unsigned n_written;
    bool has[RESTART_FDS]; /* the keeper's keys, from KEEPER_KEY_FIRST on */
    unsigned commits;      /* of the log, and of the engine's */
    unsigned word_commits;
};

#define COMMITTED_AT offsetof(struct kept_head, log.committed)
#define WORDS_COMMITTED_AT                                                                         \
    (offsetof(struct kept_head, word_log) + ENGINE * sizeof(struct kept_log_head) +                \
     offsetof(struct kept_log_head, committed))

static void image_begin(struct image *i)
{
    *i = (struct image){.page = calloc(PAGES, sizeof(unsigned char *))};
    ck_assert_ptr_nonnull(i->page);
}

static unsigned char *image_page(struct image *i, uint64_t where)
{
    size_t p = where / PAGE;

    if (i->page[p])
        return i->page[p];
    i->page[p] = calloc(1, PAGE);
    ck_assert_ptr_nonnull(i->page[p]);
    ck_assert_uint_lt(i->n_written, PAGES_MAX);
    i->written[i->n_written++] = p;
    return i->page[p];
}

static void image_copy(struct image *to, const struct image *from)
{
    image_begin(to);
    memcpy(to->has, from->has, sizeof(to->has));
    to->commits = from->commits;
    to->word_commits = from->word_commits;
    for (unsigned k = 0; k < from->n_written; k++)
        memcpy(image_page(to, from->written[k] * PAGE), from->page[from->written[k]], PAGE);
}

static void image_free(struct image *i)
{
    for (unsigned k = 0; k < i->n_written; k++)
        free(i->page[i->written[k]]);
    free(i->page);
}

/* Does the store make this word other than 0? */
static bool stores_word(const struct change *c, uint64_t where)
{
    uint64_t word;

    if (where < c->where || where >= c->where + c->bytes)
        return false;
    memcpy(&word, c->data + (where - c->where), sizeof(word));
    return word != 0;
}

static void image_apply(struct image *i, const struct change *c)
{
    switch (c->kind) {
    case CHANGE_STORE:
        memcpy(image_page(i, c->where) + c->where % PAGE, c->data, c->bytes);
        i->commits += stores_word(c, COMMITTED_AT);
        i->word_commits += stores_word(c, WORDS_COMMITTED_AT);
        break;
    case CHANGE_ZERO:
        memset(image_page(i, c->where), 0, PAGE);
        break;
    case CHANGE_PUT:
        if (c->where >= KEEPER_KEY_FIRST)
            i->has[c->where - KEEPER_KEY_FIRST] = true;
        break;
    case CHANGE_DROP:
        i->has[c->where - KEEPER_KEY_FIRST] = false;
        break;
    }
}

/* The keeper's table, and the file. */
static void image_write(const struct image *i)
{
    static int file = -1, null = -1;
    uint64_t tables = KEEPER_KEY_TABLES;

    if (file < 0) {
        file = memfd_create("prefix", MFD_CLOEXEC);
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(file, 0);
        ck_assert_int_ge(null, 0);
    }
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_int_eq(ftruncate(file, (off_t)KEPT_BYTES), 0);
    for (unsigned k = 0; k < i->n_written; k++)
        ck_assert_int_eq(pwrite(file, i->page[i->written[k]], PAGE, (off_t)(i->written[k] * PAGE)),
                         PAGE);
    for (unsigned k = 0; k < RESTART_FDS; k++)
        if (restart_kept[k].key != 0)
            __wrap_keeper_drop(&restart_kept[k].key, 1);
    __wrap_keeper_put(tables, file);
    for (unsigned k = 0; k < RESTART_FDS; k++)
        if (i->has[k])
            __wrap_keeper_put(KEEPER_KEY_FIRST + k, null);
}

/* --- objects --- */

/* Kept part, of random length; the live part begins behind the longest. */
struct record {
    uint64_t id, version, key;
    uint64_t fill[];
};

static const size_t record_sizes[SIZES_MAX] = {120, 304, 1496, 20000, 150000};

static size_t live_at(unsigned id)
{
    return record_sizes[id % SIZES_MAX] - LIVE_WORDS * 8;
}

/* What an object has in one committed state. */
struct content {
    bool there;
    uint64_t made, version, key, fills;
};

static struct object {
    struct kept kept;
    struct content now;
    int fd; /* -1: none */
} object[OBJECTS];

static uint64_t pattern(uint64_t id, uint64_t version, uint64_t i)
{
    return (id + 1) * UINT64_C(0x9e3779b97f4a7c15) + version * UINT64_C(0xbf58476d1ce4e5b9) + i;
}

static size_t write_object(const struct kept *kept, void *record)
{
    const struct object *o = (const struct object *)kept;
    uint64_t id = (uint64_t)(o - object);
    struct record *r = record;

    *r = (struct record){.id = id, .version = o->now.version, .key = o->now.key};
    for (uint64_t i = 0; i < o->now.fills; i++)
        r->fill[i] = pattern(id, o->now.version, i);
    return sizeof(*r) + o->now.fills * 8;
}

/* Each commit, of the control thread or of the engine, makes another state. */
struct state {
    struct content content[OBJECTS];
};

#define COMMITS_MAX 600

static struct {
    struct state kept[COMMITS_MAX]; /* [n]: after n commits of the log, but for words */
    unsigned n;
    struct {
        unsigned object;
        uint64_t generation;
    } words[COMMITS_MAX]; /* by commits of the engine */
    unsigned n_words;
} history;

static uint64_t rng;
static uint64_t versions;

/* --- the series --- */

static void change_content(struct object *o)
{
    size_t room = (live_at((unsigned)(o - object)) - sizeof(struct record)) / 8;

    o->now.version = ++versions;
    o->now.fills = draw_below(&rng, (unsigned)(room < 60 ? room : 60) + 1);
}

static void change_fd(struct object *o)
{
    if (o->fd >= 0) {
        kept_close(o->fd);
        o->fd = -1;
    } else {
        o->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(o->fd, 0);
        ck_assert_uint_ne(kept_fd(o->fd), 0);
    }
    o->now.key = kept_key(o->fd);
}

static void do_something(void)
{
    struct object *o = &object[draw_below(&rng, OBJECTS)];
    unsigned id = (unsigned)(o - object);

    if (!o->now.there) {
        o->now = (struct content){.there = true, .made = ++versions};
        o->fd = -1;
        change_content(o);
        ck_assert(kept_make(&o->kept, KEPT_GRANT, record_sizes[id % SIZES_MAX], write_object));
    } else if (draw_chance(&rng, 40)) {
        kept_drop(&o->kept);
        kept_close(o->fd);
        o->fd = -1;
        o->now.there = false;
    } else {
        change_content(o);
        if (draw_chance(&rng, 40))
            change_fd(o);
        kept_touch(&o->kept);
    }
}

static void commit(void)
{
    bool some = kept_pending();

    kept_commit();
    if (!some)
        return;
    ck_assert_uint_lt(++history.n, COMMITS_MAX);
    for (unsigned i = 0; i < OBJECTS; i++)
        history.kept[history.n].content[i] = object[i].now;
}

/* Between two steps: as if the engine had the records that are committed. */
static void change_words(void)
{
    unsigned id = draw_below(&rng, OBJECTS);
    _Atomic uint64_t *live;
    struct kept_words words;
    struct object *o;

    for (unsigned i = 0; i < OBJECTS && !object[id].now.there; i++)
        id = (id + 1) % OBJECTS;
    o = &object[id];
    if (!o->now.there)
        return;
    live = (_Atomic uint64_t *)((unsigned char *)kept_record(&o->kept) + live_at(id));
    versions++;
    kept_words_begin(&words, ENGINE);
    for (unsigned i = 0; i < LIVE_WORDS; i++)
        kept_words_set(&words, &live[i], pattern(id, versions, i));
    ck_assert_uint_lt(++history.n_words, COMMITS_MAX);
    history.words[history.n_words].object = id;
    history.words[history.n_words].generation = versions;
    kept_words_commit(&words);
}

static void run_series(unsigned steps)
{
    for (; steps > 0; steps--) {
        for (unsigned n = draw_below(&rng, 5) + 1; n > 0; n--)
            do_something();
        commit();
        if (draw_chance(&rng, 50))
            change_words();
    }
}

/* --- what must be there --- */

static struct {
    const struct state *kept;
    uint64_t words[OBJECTS]; /* the last generation that is committed */
    bool seen[OBJECTS];
    unsigned others; /* records that the npud after the series has made */
    char where[96];  /* in the sentence of a failure */
} expected;

static void expect_state(const struct image *i)
{
    memset(expected.words, 0, sizeof(expected.words));
    expected.kept = &history.kept[i->commits];
    for (unsigned n = 1; n <= i->word_commits; n++)
        expected.words[history.words[n].object] = history.words[n].generation;
}

/* Words that an earlier record of the object had do not count. */
static void expect_words(const struct record *r, const unsigned char *record)
{
    uint64_t word, generation = expected.words[r->id];

    if (generation < expected.kept->content[r->id].made)
        generation = 0;
    for (unsigned i = 0; i < LIVE_WORDS; i++) {
        memcpy(&word, record + live_at((unsigned)r->id) + (size_t)i * 8, 8);
        ck_assert_msg(word == (generation ? pattern(r->id, generation, i) : 0),
                      "%s: word %u of object %u", expected.where, i, (unsigned)r->id);
    }
}

static bool expect_record(void *arg, struct kept_cell *cell)
{
    static unsigned char record[200000] __attribute__((aligned(8)));
    const struct record *r = (const struct record *)record;
    size_t bytes = kept_read(cell, record, sizeof(record));
    const struct content *c;

    (void)arg;
    ck_assert_msg(r->id < OBJECTS, "%s: a record of no object", expected.where);
    c = &expected.kept->content[r->id];
    ck_assert_uint_eq(bytes, record_sizes[r->id % SIZES_MAX]);
    ck_assert_msg(c->there && !expected.seen[r->id], "%s: object %u", expected.where,
                  (unsigned)r->id);
    ck_assert_msg(r->version == c->version && r->key == c->key,
                  "%s: object %u: version %llu, key %llu", expected.where, (unsigned)r->id,
                  (unsigned long long)r->version, (unsigned long long)r->key);
    for (uint64_t i = 0; i < c->fills; i++)
        ck_assert_uint_eq(r->fill[i], pattern(r->id, r->version, i));
    expect_words(r, record);
    if (r->key != 0)
        ck_assert_msg(kept_fd_take(r->key) >= 0 || arg, "%s: the keeper lacks key %llu",
                      expected.where, (unsigned long long)r->key);
    expected.seen[r->id] = true;
    return true;
}

static bool is_other(void *arg, struct kept_cell *cell)
{
    (void)arg;
    (void)cell;
    expected.others++;
    return true;
}

static void expect_records(void *again)
{
    memset(expected.seen, 0, sizeof(expected.seen));
    expected.others = 0;
    ck_assert_int_eq(kept_scan(), 0);
    ck_assert(kept_each(KEPT_GRANT, expect_record, again));
    ck_assert(kept_each(KEPT_ROUTE, is_other, NULL));
    kept_scan_end();
    for (unsigned i = 0; i < OBJECTS; i++)
        ck_assert_msg(expected.seen[i] == expected.kept->content[i].there,
                      "%s: object %u is not there", expected.where, i);
}

static size_t write_other(const struct kept *kept, void *record)
{
    (void)kept;
    memset(record, 0xff, 64);
    return 64;
}

/* Cells that were free to the npud before may be those of records: then these are overwritten. */
static void make_others(void)
{
    static struct kept other[SIZES_MAX * 3];

    for (unsigned i = 0; i < SIZES_MAX * 3; i++) {
        ck_assert(kept_make(&other[i], KEPT_ROUTE, record_sizes[i % SIZES_MAX], write_other));
        memset(kept_record(&other[i]), 0xff, record_sizes[i % SIZES_MAX] & ~(size_t)7);
    }
    kept_commit();
    expect_records(other);
    ck_assert_uint_eq(expected.others, SIZES_MAX * 3);
}

/* What recovery does with the records, as daemon/recovery does it. */
static void begin_and_expect(void)
{
    int tables;

    ck_assert_int_ge(kept_fds_fetch(), 1);
    tables = kept_fd_take(KEEPER_KEY_TABLES);
    ck_assert_int_ge(tables, 0);
    ck_assert_int_eq(kept_begin_from(tables), 0);
    expect_records(NULL);
    kept_fds_forget_rest();
    kept_commit();
}

static void close_own_copies(void)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        int fd = expected.kept->content[i].there ? kept_fd_of(expected.kept->content[i].key) : -1;

        if (fd >= 0)
            close(fd);
    }
}

static unsigned keys_expected(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < OBJECTS; i++)
        n += expected.kept->content[i].there && expected.kept->content[i].key != 0;
    return n;
}

/* The npud that begins from this file finds what it should. again: record what it stores. */
static void expect_image(const struct image *i, struct recording *again)
{
    image_write(i);
    expect_state(i);
    if (again)
        recording_begin(again, 20000);
    begin_and_expect();
    if (again)
        tape_stop();
    ck_assert_msg(restart_fds() == keys_expected(), "%s: the keeper has %u descriptors, not %u",
                  expected.where, restart_fds(), keys_expected());
    if (!again && draw_chance(&rng, 20))
        make_others();
    close_own_copies();
    kept_end();
}

/* --- tests --- */

static void record_series(struct recording *r, unsigned steps)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        object[i].fd = -1;
    recording_begin(r, 400000);
    ck_assert_int_eq(kept_begin(), 0);
    run_series(steps);
    tape_stop();
    kept_end();
}

/* Prefixes of a recovery of this prefix. */
static void expect_recovery(const struct image *begun)
{
    struct recording r;
    struct image i;
    char where[sizeof(expected.where)];

    memcpy(where, expected.where, sizeof(where));
    forget_shadows();
    expect_image(begun, &r);
    image_copy(&i, begun);
    for (size_t n = 0; n < r.n; n++) {
        unsigned commits = i.commits, word_commits = i.word_commits;

        image_apply(&i, &r.change[n]);
        i.commits = commits; /* its commits change no object */
        i.word_commits = word_commits;
        snprintf(expected.where, sizeof(expected.where), "%.40s, then %zu", where, n + 1);
        expect_image(&i, NULL);
    }
    image_free(&i);
    recording_free(&r);
}

START_TEST(every_prefix_is_valid)
{
    unsigned steps = choose_effort(25, 200), each_nth = choose_effort(307, 23), recoveries = 0;
    struct recording r;
    struct image i;
    size_t begun = 0;

#if !defined(__x86_64__)
    if (!need_lacks(__func__, "x86-64, to execute one store at a time"))
        return;
#endif
    rng = choose_effort(1, 100) + (uint64_t)_i;
    tape.shadow = calloc(PAGES, sizeof(*tape.shadow));
    ck_assert_ptr_nonnull(tape.shadow);
    restart_on_key = note_key;
    catch_stores();
    record_series(&r, steps);
    image_begin(&i);
    for (size_t n = 0; n < r.n; n++) {
        uint64_t magic;

        image_apply(&i, &r.change[n]);
        memcpy(&magic, image_page(&i, 0), sizeof(magic));
        if (magic != KEPT_MAGIC) {
            begun = n + 1; /* the supervisor starts the next one clean */
            continue;
        }
        snprintf(expected.where, sizeof(expected.where), "seed %d, prefix %zu", _i, n + 1);
        expect_image(&i, NULL);
        if (n % each_nth == 0) {
            expect_recovery(&i);
            recoveries++;
        }
    }
    ck_assert_uint_lt(begun, 20);
    ck_assert_uint_eq(i.commits, history.n);
    printf("prefixes: %zu, of which %u recoveries were cut; %u commits, %u of words\n", r.n - begun,
           recoveries, history.n, history.n_words);
    image_free(&i);
    recording_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kept: prefixes");
    TCase *t = suite_case(s, "prefixes", 240, NULL, NULL);

    tcase_add_loop_test(t, every_prefix_is_valid, 0, 3);
    return run_suite(s);
}
