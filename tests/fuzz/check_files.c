#include "check_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "proto/shm/check_file.h"

#define FILES      4u
#define ROOM       8192u /* of a chunk that records are written into: the rest is a hole */
#define RECORD_MAX 2040u

/* Behind the records' kinds: what else a byte can ask for. */
enum { NEXT_FILE = CHECK_KINDS, NEXT_CHUNK, SET_CLOCK, ODD_ACTIONS };

/*
 * What is behind the head of each kind of record: 8 and 4 are numbers of so many bytes, t is a
 * text, f are frames, u are uses of bytes, T is a task.
 */
static const char *const forms[CHECK_KINDS] = {
    [CHECK_NONE] = "",
    [CHECK_MODULE] = "888t",
    [CHECK_PLACE] = "44f",
    [CHECK_SOURCE] = "8t",
    [CHECK_SESSION_BEGIN] = "",
    [CHECK_SESSION_END] = "",
    [CHECK_STREAM] = "84444",
    [CHECK_STREAM_GONE] = "844",
    [CHECK_EVENT] = "8844",
    [CHECK_EVENT_GONE] = "844",
    [CHECK_NOTIFY] = "44844",
    [CHECK_NOTIFY_GONE] = "44844",
    [CHECK_MEMORY] = "448884444",
    [CHECK_MEMORY_GONE] = "448884444",
    [CHECK_EXPORT] = "448884444",
    [CHECK_MAP] = "44888",
    [CHECK_UNMAP] = "44888",
    [CHECK_REGISTER] = "88",
    [CHECK_UNREGISTER] = "88",
    [CHECK_OBJECT] = "844",
    [CHECK_OBJECT_GONE] = "844",
    [CHECK_TASK] = "8T",
    [CHECK_ACCESS] = "84488u",
    [CHECK_RECORD] = "888",
    [CHECK_RESET] = "888",
    [CHECK_WAIT] = "888",
    [CHECK_POOL_ALLOC] = "84488",
    [CHECK_POOL_FREE] = "84488",
    [CHECK_SYNC_STREAM] = "88",
    [CHECK_SYNC_EVENT] = "888",
    [CHECK_EMPTY_SYNC] = "888",
    [CHECK_CALLBACK_BEGIN] = "88",
    [CHECK_CALLBACK_END] = "88",
    [CHECK_NOTIFY_RESET] = "44844",
    [CHECK_PUT] = "88",
    [CHECK_TAKE] = "88",
    [CHECK_REFUSED] = "88888",
    [CHECK_FAILED] = "88",
    [CHECK_RANGE_BEGIN] = "t",
    [CHECK_RANGE_END] = "",
    [CHECK_MARK] = "t",
    [CHECK_THREAD] = "844",
    [CHECK_IGNORED] = "88",
};

/* What behind `op` and `object` a task has: numbers at these offsets. */
static const char task_words[TASK_OPS][6] = {
    [TASK_COPY] = "88844",        [TASK_SET] = "884",         [TASK_DELAY] = "84",
    [TASK_CALLBACK] = "844",      [TASK_NOTIFY_RECORD] = "8", [TASK_NOTIFY_WAIT] = "8",
    [TASK_COUNT_RECORD] = "8411", [TASK_COUNT_WAIT] = "8411", [TASK_VALUE_WRITE] = "88",
    [TASK_VALUE_WAIT] = "88",     [TASK_REDUCE] = "88844",
};

struct files {
    struct input *in;
    int directory, fd;
    unsigned n;      /* files */
    uint64_t chunks; /* of this file, its head among them */
    uint64_t ns;
    unsigned char chunk[ROOM];
    size_t used;
};

/* ------------------------------------------------------------------------------------ records */

struct record {
    union {
        struct check_record r;
        unsigned char bytes[RECORD_MAX + 8];
    };
    size_t size;
};

static void put_number(struct files *f, struct record *to, size_t size)
{
    uint64_t n = take_number(f->in);

    memcpy(to->bytes + to->size, &n, size);
    to->size += size;
}

static void put_numbers(struct files *f, struct record *to, const char *sizes)
{
    for (; *sizes; sizes++)
        put_number(f, to, (size_t)(*sizes - '0'));
}

static void put_text(struct files *f, struct record *to)
{
    size_t n;
    const uint8_t *text = take_bytes(f->in, take_u8(f->in), &n);

    if (n > 0)
        memcpy(to->bytes + to->size, text, n);
    to->r.length = (uint16_t)n;
    to->size += n;
}

/* As many frames as the number before says: the first one and the distances to the others. */
static void put_frames(struct files *f, struct record *to)
{
    uint32_t n = ((struct check_place *)(void *)to->bytes)->n % (CHECK_FRAMES + 2);

    ((struct check_place *)(void *)to->bytes)->n = n;
    for (uint32_t i = 0; i < n; i++)
        put_number(f, to, 8);
}

static void put_uses(struct files *f, struct record *to)
{
    struct check_access *access = (void *)to->bytes;

    access->n %= CHECK_ACCESSES + 2;
    for (uint32_t i = 0; i < access->n; i++)
        put_numbers(f, to, "448844");
}

static void put_task(struct files *f, struct record *to)
{
    struct task *t = (void *)(to->bytes + to->size);
    size_t start = to->size;

    atomic_store_explicit(&t->sequence, take_number(f->in), memory_order_relaxed);
    t->op = (uint8_t)take_number(f->in);
    t->flags = take_u8(f->in);
    t->object = (uint32_t)take_number(f->in);
    t->generation = (uint32_t)take_number(f->in);
    to->size += offsetof(struct task, words);
    if (t->op < TASK_OPS)
        put_numbers(f, to, task_words[t->op]);
    to->size = start + sizeof(*t);
}

static void put_form(struct files *f, struct record *to, const char *form)
{
    static void (*const put[128])(struct files *, struct record *) = {
        ['t'] = put_text, ['f'] = put_frames, ['u'] = put_uses, ['T'] = put_task};

    for (; *form; form++)
        if (put[(unsigned char)*form])
            put[(unsigned char)*form](f, to);
        else
            put_number(f, to, (size_t)(*form - '0'));
}

/* ----------------------------------------------------------------------------- files and chunks */

static void flush_chunk(struct files *f)
{
    if (f->fd >= 0 && f->used > 0)
        MUST(pwrite(f->fd, f->chunk, f->used, (off_t)(f->chunks * CHECK_CHUNK)) ==
             (ssize_t)f->used);
    f->chunks += f->used > 0;
    f->used = 0;
}

static void close_file(struct files *f)
{
    flush_chunk(f);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

static void begin_chunk(struct files *f)
{
    struct check_chunk *chunk = (void *)f->chunk;

    flush_chunk(f);
    memset(f->chunk, 0, sizeof(f->chunk));
    chunk->writer = take_u8(f->in);
    chunk->thread = 100 + chunk->writer;
    f->used = sizeof(*chunk);
}

static void begin_file(struct files *f)
{
    struct check_head head = {.magic = CHECK_MAGIC, .version = CHECK_VERSION};
    char name[] = {'0', '\0'};
    uint8_t odd = take_u8(f->in);

    close_file(f);
    head.pid = 1000 + (int)f->n;
    head.ended = odd & 1;
    head.failed = odd >> 1 & 1;
    memset(head.program, odd, sizeof(head.program));
    name[0] = (char)('0' + f->n++ % FILES);
    f->fd = openat(f->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(f->fd >= 0 && pwrite(f->fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head));
    f->chunks = 1;
    begin_chunk(f);
}

static void add_record(struct files *f, uint8_t kind, bool odd)
{
    struct record r;

    memset(&r, 0, sizeof(r));
    r.size = sizeof(r.r);
    r.r.kind = kind;
    r.r.place = take_u8(f->in);
    f->ns += (uint64_t)(int8_t)take_u8(f->in);
    r.r.ns = f->ns;
    put_form(f, &r, forms[kind]);
    r.size = (r.size + 7) & ~(size_t)7;
    r.r.words = (uint8_t)(r.size / 8);
    if (odd) {
        r.r.words = take_u8(f->in);
        r.r.length = take_u16(f->in);
    }
    if (f->used + r.size > sizeof(f->chunk))
        begin_chunk(f);
    memcpy(f->chunk + f->used, r.bytes, r.size);
    f->used += r.size;
}

static void act_once(struct files *f)
{
    uint8_t byte = take_u8(f->in), action = (byte & 0x7f) % ODD_ACTIONS;

    if (action == NEXT_FILE)
        begin_file(f);
    else if (action == NEXT_CHUNK)
        begin_chunk(f);
    else if (action == SET_CLOCK)
        f->ns = take_number(f->in);
    else
        add_record(f, action, byte & 0x80);
}

void check_files_write(struct input *in, int directory)
{
    static struct files f;
    char name[] = {'0', '\0'};

    for (unsigned i = 0; i < FILES; i++, name[0]++)
        unlinkat(directory, name, 0);
    memset(&f, 0, sizeof(f));
    f.in = in;
    f.directory = directory;
    f.fd = -1;
    f.ns = 1000;
    begin_file(&f);
    while (in->size > 0)
        act_once(&f);
    close_file(&f);
}
