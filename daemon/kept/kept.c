#include "daemon/kept/kept.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/kill_here.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/kept/cells.h"
#include "daemon/kept/fds.h"
#include "daemon/kept/kept_room.h"
#include "daemon/kept/log.h"

static unsigned char *base; /* NULL: nothing outlives npud */
static int file = -1;
static struct kept_head *head;
static struct kept *touched;
static struct log control_log;
static struct kept_in_hand private_in_hand[KEPT_WORD_LOGS];

static uint64_t offset_of(const void *p)
{
    return (uint64_t)((const unsigned char *)p - base);
}

bool kept_outlives(void)
{
    return base != NULL;
}

int kept_file(void)
{
    return file;
}

struct kept_head *kept_head(void)
{
    return head;
}

struct kept_in_hand *kept_in_hand_of(unsigned writer)
{
    return head ? &head->in_hand[writer] : &private_in_hand[writer];
}

/* --- records --- */

enum part { PLAIN, LIVE };

static const struct {
    const char *what;
    uint16_t version;
    enum part part;
} kinds[KEPT_KIND_MAX] = {
#define KIND_ROW(name, number, version, part, restore, what) [number] = {what, version, part},
    KEPT_KINDS(KIND_ROW)
#undef KIND_ROW
};

/* What `is` of a new record becomes in the commit of this step. */
static uint64_t is_of_new(enum kept_kind kind, size_t bytes)
{
    return cell_is((uint16_t)kind, kinds[kind].version, (uint32_t)bytes);
}

static struct kept_cell *take_cell(enum kept_kind kind, size_t bytes)
{
    return base ? cells_take(bytes) : private_take(kinds[kind].part == PLAIN, bytes);
}

bool kept_make(struct kept *kept, enum kept_kind kind, size_t bytes, kept_write_fn *write)
{
    struct log_entry *entry;
    uint64_t is;

    bytes = (bytes + 7) & ~(size_t)7;
    *kept = (struct kept){.cell = take_cell(kind, bytes), .write = write};
    if (!kept->cell)
        return false;
    if (!base)
        return true;
    is = is_of_new(kind, bytes);
    kept->cell->order = ++head->last_order;
    entry = log_add(&control_log, LOG_WRITE, offset_of(kept->cell), sizeof(is));
    memcpy(entry->data, &is, sizeof(is));
    kept_touch(kept);
    return true;
}

void kept_touch(struct kept *kept)
{
    if (base && kept->cell && !kept->prev)
        DL_APPEND(touched, kept);
}

void kept_set(_Atomic uint64_t *word, uint64_t value)
{
    struct log_entry *entry;

    if (!base) {
        atomic_store_explicit(word, value, memory_order_relaxed);
        return;
    }
    entry = log_add(&control_log, LOG_WRITE, offset_of((const void *)word), sizeof(value));
    memcpy(entry->data, &value, sizeof(value));
}

/* Not in use as a record any more, for any npud. */
static void retire_cell(struct kept_cell *cell)
{
    if (!base) {
        private_free(cell);
        return;
    }
    atomic_store_explicit(&cell->is, 0, memory_order_relaxed);
    kept_order();
    cells_put(cell);
}

/* `is`: of the larger one from now on; 0: it has none before the commit. */
static void switch_cells(struct kept *kept, struct kept_cell *cell, uint64_t is)
{
    struct kept_cell *old = kept->cell;

    KILL_HERE(KEPT_FILLED);
    kept_order();
    if (base)
        atomic_store_explicit(&cell->is, is, memory_order_relaxed);
    kept_order();
    KILL_HERE(KEPT_GROWN);
    kept->cell = cell;
    if (old)
        retire_cell(old);
}

bool kept_grow(struct kept *kept, enum kept_kind kind, size_t bytes,
               void (*fill)(void *arg, void *record), void *arg)
{
    struct kept_cell *cell;

    bytes = (bytes + 7) & ~(size_t)7;
    cell = take_cell(kind, bytes);
    if (!cell)
        return false;
    cell->order = 0; /* only the control thread gives numbers */
    fill(arg, cell->record);
    switch_cells(kept, cell, is_of_new(kind, bytes));
    return true;
}

/* What the step is about to change in a record changes in the larger one. */
static void move_changes(const struct kept_cell *from, size_t bytes, const struct kept_cell *to,
                         uint64_t is)
{
    for (size_t at = 0, next = 0; log_next(&control_log, &next); at = next) {
        struct log_entry *entry = (struct log_entry *)(control_log.at + at);
        uint64_t offset = entry->where - offset_of(from);

        if (entry->kind != LOG_WRITE || offset >= CELL_HEAD + bytes)
            continue;
        entry->where = offset_of(to) + offset;
        if (offset == offsetof(struct kept_cell, is))
            memcpy(entry->data, &is, sizeof(is));
    }
}

bool kept_enlarge(struct kept *kept, enum kept_kind kind, size_t was, size_t bytes)
{
    struct kept_cell *old = kept->cell, *cell;
    uint64_t is = is_of_new(kind, bytes);

    assert(bytes % 8 == 0);
    cell = take_cell(kind, bytes);
    if (!cell)
        return false;
    cell->order = old->order;
    memcpy(cell->record, old->record, was);
    if (base) {
        move_changes(old, was, cell, is);
        /* A record that was made in this step is one from the commit on. */
        if (atomic_load_explicit(&old->is, memory_order_relaxed) == 0)
            is = 0;
    }
    switch_cells(kept, cell, is);
    return true;
}

static void untouch(struct kept *kept)
{
    if (!kept->prev)
        return;
    DL_DELETE(touched, kept);
    kept->prev = kept->next = NULL;
}

void kept_move(struct kept *to, struct kept *from)
{
    bool was_touched = from->prev != NULL;

    untouch(from);
    *to = *from;
    *from = (struct kept){0};
    if (was_touched)
        kept_touch(to);
}

static void free_cell(struct kept_cell *cell)
{
    if (base)
        log_add(&control_log, LOG_FREE, offset_of(cell), 0);
    else
        private_free(cell);
}

void kept_drop(struct kept *kept)
{
    if (!kept->cell)
        return;
    untouch(kept);
    free_cell(kept->cell);
    *kept = (struct kept){0};
}

void kept_discard(struct kept_cell *cell)
{
    free_cell(cell);
}

void kept_replace(struct kept *kept, struct kept *other)
{
    untouch(other);
    kept->cell = other->cell;
    kept_touch(kept);
}

/* --- transactions --- */

static void write_record(struct kept *kept)
{
    size_t room = cells_room(kept->cell), bytes;
    struct log_entry *entry =
        log_add(&control_log, LOG_WRITE, offset_of(kept->cell->record), room & ~(size_t)7);

    bytes = kept->write(kept, entry->data);
    log_trim(&control_log, entry, bytes);
}

static void write_touched(void)
{
    while (touched) {
        struct kept *kept = touched;

        untouch(kept);
        write_record(kept);
    }
}

/* Only now: what was freed may be taken again for something else. */
static void give_back(void)
{
    const struct log_entry *entry;

    for (size_t at = 0; (entry = log_next(&control_log, &at));) {
        if (entry->kind == LOG_FREE)
            cells_put((struct kept_cell *)(base + entry->where));
        else if (entry->kind == LOG_KEY)
            kept_fds_drop(entry->where);
    }
    KILL_HERE(KEPT_CELLS_FREED);
    kept_fds_flush();
    KILL_HERE(KEPT_FREED);
}

bool kept_pending(void)
{
    return base && (touched || control_log.used > 0);
}

void kept_commit(void)
{
    if (!kept_pending())
        return;
    write_touched();
    log_commit(&control_log, base);
    give_back();
    log_begin(&control_log);
}

void kept_log_key(uint64_t key)
{
    if (base)
        log_add(&control_log, LOG_KEY, key, 0);
}

static struct log words_log(const struct kept_words *words)
{
    return (struct log){.head = words->log,
                        .at = words->at,
                        .used = words->used,
                        .room = words->log ? KEPT_WORD_BYTES : 0};
}

void kept_words_begin(struct kept_words *words, unsigned writer)
{
    *words = (struct kept_words){0};
    if (!base)
        return;
    words->log = &head->word_log[writer];
    words->at = base + KEPT_WORDS_AT + writer * KEPT_WORD_BYTES;
}

void kept_words_set(struct kept_words *words, _Atomic uint64_t *word, uint64_t value)
{
    struct log log = words_log(words);
    struct log_entry *entry;

    if (!words->log) {
        atomic_store_explicit(word, value, memory_order_relaxed);
        return;
    }
    entry = log_add(&log, LOG_WRITE, offset_of(word), sizeof(value));
    memcpy(entry->data, &value, sizeof(value));
    words->used = log.used;
}

void kept_words_commit(struct kept_words *words)
{
    struct log log = words_log(words);

    if (words->used > 0)
        log_commit(&log, base);
    words->used = 0;
}

/* --- the memory --- */

void kept_begin_private(void)
{
    base = NULL;
    head = NULL;
    file = -1;
    touched = NULL;
    memset(private_in_hand, 0, sizeof(private_in_hand));
}

static int map_file(int fd)
{
    void *map = mmap(NULL, KEPT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (map == MAP_FAILED)
        return -errno;
    base = map;
    head = map;
    file = fd;
    touched = NULL;
    control_log =
        (struct log){.head = &head->log, .at = base + KEPT_LOG_AT, .room = KEPT_LOG_BYTES};
    return 0;
}

static void sign_file(void)
{
    snprintf(head->writer, sizeof(head->writer), "%s", NPUD_VERSION);
}

int kept_begin(void)
{
    int fd = memfd_new_own("npud-kept", KEPT_BYTES), r;

    if (fd < 0)
        return fd;
    r = map_file(fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    sign_file();
    head->format = KEPT_FORMAT;
    head->last_key = KEEPER_KEY_FIRST - 1;
    kept_order();
    head->magic = KEPT_MAGIC; /* from here on the next npud may read it */
    if (!kept_fds_begin(head))
        return -ENOMEM;
    kept_fds_put(KEEPER_KEY_TABLES, fd);
    return cells_begin(base) ? 0 : -ENOMEM;
}

static bool recover_logs(void)
{
    bool sound = log_recover(&control_log, base);
    const struct log_entry *entry;

    /* Its descriptors were to go after the commit. */
    for (size_t at = 0; sound && (entry = log_next(&control_log, &at));)
        if (entry->kind == LOG_KEY)
            kept_fds_drop(entry->where);
    KILL_HERE(LOG_CARRIED_OUT);
    for (unsigned i = 0; sound && i < KEPT_WORD_LOGS; i++) {
        struct log log = {.head = &head->word_log[i],
                          .at = base + KEPT_WORDS_AT + i * KEPT_WORD_BYTES,
                          .room = KEPT_WORD_BYTES};

        sound = log_recover(&log, base);
        KILL_HERE(WORDS_CARRIED_OUT);
        atomic_store_explicit(&log.head->committed, 0, memory_order_relaxed);
    }
    return sound;
}

static int check_file(int fd, char *why, size_t size);

int kept_begin_from(int fd)
{
    char why[256];
    int r = check_file(fd, why, sizeof(why));

    if (r == 0) {
        r = map_file(fd);
        snprintf(why, sizeof(why), "they cannot be mapped: %s", strerror(-r));
    }
    if (r < 0) {
        log_error("the tables of the npud before cannot be read: %s", why);
        kept_fd_part(fd); /* a new keeper gets those that come in their place */
        return r;
    }
    KILL_HERE(TABLES_MAPPED);
    if (!kept_fds_begin(head)) {
        log_error("no memory for the descriptors of the npud before");
        return -ENOMEM;
    }
    kept_fds_know(KEEPER_KEY_TABLES, fd);
    if (!recover_logs()) {
        log_error("the tables of the npud before are damaged: its last changes cannot be read");
        kept_end();
        return -EINVAL;
    }
    /* What it had freed and not committed is in use; what it had taken for new records is not. */
    atomic_store_explicit(&head->log.committed, 0, memory_order_relaxed);
    KILL_HERE(LOG_FORGOTTEN);
    kept_fds_flush();
    KILL_HERE(KEYS_DROPPED_AGAIN);
    log_begin(&control_log);
    sign_file();
    if (cells_begin(base))
        return 0;
    log_error("no memory to find what is free in the tables of the npud before");
    return -ENOMEM;
}

void kept_end(void)
{
    if (!base)
        return;
    cells_end();
    kept_fds_end(); /* the file is among them */
    munmap(base, KEPT_BYTES);
    kept_begin_private();
}

/* --- reading --- */

size_t kept_read(const struct kept_cell *cell, void *record, size_t size)
{
    size_t bytes = cell_bytes(cell);

    memset(record, 0, size);
    memcpy(record, cell->record, bytes < size ? bytes : size);
    return bytes;
}

/*
 * False: this npud does not know such a record. The npud that serves goes on: a cell that is looked
 * at twice may be free, or another record, the second time.
 */
static bool knows_cell(const struct kept_cell *cell, char *why, size_t size)
{
    uint64_t is = atomic_load_explicit(&cell->is, memory_order_relaxed);
    uint16_t kind = (uint16_t)is, version = (uint16_t)(is >> 16);

    if (is == 0) /* it is free */
        return true;
    if (kind < KEPT_KIND_MAX && kinds[kind].what && kinds[kind].version == version)
        return true;
    if (kind < KEPT_KIND_MAX && kinds[kind].what)
        snprintf(why, size, "they have a record (%s) of version %u, and this npud reads version %u",
                 kinds[kind].what, version, kinds[kind].version);
    else
        snprintf(why, size, "they have a record of kind %u, which this npud does not know", kind);
    return false;
}

static bool knows_slab(const unsigned char *at, unsigned class, char *why, size_t size)
{
    unsigned cells = class == SLAB_LARGE ? 1 : SLAB_BYTES >> class;

    for (unsigned n = 0; n < cells; n++) {
        const struct kept_cell *cell =
            (const struct kept_cell *)(at + (class == SLAB_LARGE ? 0 : (size_t)n << class));

        if (!knows_cell(cell, why, size))
            return false;
    }
    return true;
}

static bool knows_all(const unsigned char *map, char *why, size_t size)
{
    const struct kept_head *h = (const struct kept_head *)map;

    if (h->magic != KEPT_MAGIC) {
        snprintf(why, size, "they are of an npud that ended before it was ready");
        return false;
    }
    if (h->format != KEPT_FORMAT) {
        snprintf(why, size, "npud %.31s has written them in format %u, and this npud reads %u",
                 h->writer, h->format, KEPT_FORMAT);
        return false;
    }
    for (uint32_t i = 0; i < SLABS; i++)
        if (h->slab[i] != 0 && h->slab[i] != SLAB_MORE &&
            !knows_slab(map + KEPT_SLABS_AT + ((size_t)i << SLAB_SHIFT), h->slab[i], why, size))
            return false;
    return true;
}

/* 0, -EINVAL: it is of no use to this npud, or -errno: that cannot be told. */
static int check_file(int fd, char *why, size_t size)
{
    void *map;
    bool knows;
    int r;

    if (lseek(fd, 0, SEEK_END) != (off_t)KEPT_BYTES) {
        snprintf(why, size, "they are not %llu bytes long", (unsigned long long)KEPT_BYTES);
        return -EINVAL;
    }
    map = mmap(NULL, KEPT_BYTES, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map == MAP_FAILED) {
        r = -errno;
        snprintf(why, size, "they cannot be mapped: %s", strerror(-r));
        return r;
    }
    knows = knows_all(map, why, size);
    munmap(map, KEPT_BYTES);
    return knows ? 0 : -EINVAL;
}

bool kept_can_read(int fd, char *why, size_t size)
{
    return check_file(fd, why, size) == 0;
}
