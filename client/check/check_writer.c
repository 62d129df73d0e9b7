/*
 * The file of a checked process. Each thread has a writer, with a chunk of the file that it has
 * mapped. A writer whose thread has ended is the next new thread's, so that a program with many
 * short threads fills its chunks.
 *
 * No descriptor stays open: a program may close any, and use its number. A thread that needs a
 * chunk opens the file, makes it longer, and closes it.
 *
 * A process that is killed leaves a record without its first word, which readers do not see, or a
 * chunk that says of no thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unwind.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "client/check/checked.h"
#include "client/check/check_stack.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/npud_clock.h"
#include "client/core/program_name.h"
#include "client/core/thread.h"
#include "proto/util/kill_point.h"
#include "proto/util/lift_fd.h"

struct check_writer {
    struct check_writer *next; /* process->check.idle */
    unsigned char *chunk;      /* NULL: it has none */
    size_t used;
    uint64_t chunks;
    uint32_t number;
    uint32_t thread;
    uint32_t places;
    /* Where the interpreted program is, as aclnpudCheckCaller() has said; NULL: it has not. */
    const char *file, *function;
    uint64_t line;
    uint32_t source; /* a hash of these; 0: there are none */
    struct check_stack stacks[CHECK_STACKS];
};

static char path[PATH_MAX]; /* of this process's file, or of its parent's */

/* A file that is mapped and that readers know of. */
struct module {
    struct module *next;
    uint64_t start, bias;
    char name[];
};

/* Under process->check.lock; a forked child finds it whole. */
static struct module *modules;

/* --- the file --- */

/* True if the file may have so many bytes: a larger one would cost the program a signal. */
static bool may_have(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

static const char zeros[CHECK_CHUNK];

/*
 * Under the lock. Bytes from `at` on, zeroed. NULL: there is no room.
 *
 * They are written first: then they have their room on the disk, where a store into a page that
 * gets none would be a SIGBUS; and they are in memory, where a fault in a file that was only made
 * longer reads ahead, which costs more than all the rest.
 */
static void *map_chunk(int flags, uint64_t at)
{
    const int protection = PROT_READ | PROT_WRITE;
    void *map = MAP_FAILED;
    int fd;

    errno = EFBIG;
    if (!may_have(at + CHECK_CHUNK))
        return NULL;
    fd = lift_fd(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
    if (fd < 0)
        return NULL;
    errno = ENOSPC;
    if (pwrite(fd, zeros, CHECK_CHUNK, (off_t)at) == (ssize_t)CHECK_CHUNK)
        map = mmap(NULL, CHECK_CHUNK, protection, MAP_SHARED | MAP_POPULATE, fd, (off_t)at);
    close(fd);
    if (map == MAP_FAILED)
        return NULL;
    madvise(map, CHECK_CHUNK, MADV_DONTFORK);
    return map;
}

/* A program that executes another one keeps its pid: then there is a file already. */
static struct check_head *make_file(const char *directory)
{
    struct check_head *head = NULL;

    for (unsigned i = 0; !head && i < 10000; i++) {
        int n = snprintf(path, sizeof(path), "%s/%d.%u", directory, (int)getpid(), i);

        errno = ENAMETOOLONG;
        if (n < 0 || (size_t)n >= sizeof(path))
            return NULL;
        head = map_chunk(O_CREAT | O_EXCL, 0);
        if (!head && errno != EEXIST)
            return NULL;
    }
    return head;
}

static void fill_head(struct check_head *head)
{
    head->magic = CHECK_MAGIC;
    head->version = CHECK_VERSION;
    head->pid = getpid();
    head->start_ns = npud_clock_ns();
    program_name(head->program, sizeof(head->program));
}

/* --- chunks --- */

static bool take_chunk(struct check_writer *w)
{
    struct check_chunk *chunk;

    pthread_mutex_lock(&process->check.lock);
    chunk = map_chunk(0, process->check.end);
    if (chunk)
        process->check.end += CHECK_CHUNK;
    else
        atomic_store_explicit(&process->check.head->failed, 1, memory_order_relaxed);
    pthread_mutex_unlock(&process->check.lock);
    if (!chunk)
        return false;
    KILL_POINT(CHECK_CHUNK_TAKEN);
    if (w->chunk)
        munmap(w->chunk, CHECK_CHUNK);
    w->chunk = (unsigned char *)chunk;
    w->used = sizeof(*chunk);
    chunk->number = w->chunks++;
    chunk->writer = w->number;
    /* release: a chunk that says of whom it is says the rest. */
    atomic_store_explicit(&chunk->thread, w->thread, memory_order_release);
    return true;
}

/* False: there is no room, and the record is lost. */
static bool put_record(struct check_writer *w, struct check_record *r, size_t size)
{
    size_t bytes = (size + 7) & ~(size_t)7;
    _Atomic uint64_t *at;
    uint64_t first;

    r->words = (uint8_t)(bytes / 8);
    if ((!w->chunk || w->used + bytes > CHECK_CHUNK) && !take_chunk(w))
        return false;
    at = (_Atomic uint64_t *)(w->chunk + w->used);
    memcpy(&first, r, sizeof(first));
    memcpy((char *)at + sizeof(first), (const char *)r + sizeof(first), size - sizeof(first));
    KILL_POINT(CHECK_WRITTEN);
    /* release: whoever sees the first word sees the record. */
    atomic_store_explicit(at, first, memory_order_release);
    KILL_POINT(CHECK_PUBLISHED);
    w->used += bytes;
    return true;
}

/* --- threads --- */

static struct check_writer *take_idle(uint32_t thread)
{
    struct check_writer *w;

    pthread_mutex_lock(&process->check.lock);
    w = process->check.idle;
    if (w)
        process->check.idle = w->next;
    pthread_mutex_unlock(&process->check.lock);
    if (w) {
        struct check_object next = {
            .r = {.kind = CHECK_THREAD, .ns = npud_clock_ns()},
            .object = thread,
        };

        w->thread = thread;
        put_record(w, &next.r, sizeof(next));
    }
    return w;
}

static struct check_writer *make_writer(struct thread *t)
{
    struct check_writer *w = take_idle(t->tid);

    if (!w) {
        w = calloc(1, sizeof(*w));
        if (!w)
            return NULL;
        w->thread = t->tid;
        pthread_mutex_lock(&process->check.lock);
        w->number = ++process->check.writers;
        pthread_mutex_unlock(&process->check.lock);
    }
    t->check = w;
    return w;
}

static struct check_writer *find_writer(void)
{
    struct thread *t = thread_self();

    if (t->check)
        return t->check;
    /* The dummy is several threads', a writer is one's. */
    return t == thread_current ? make_writer(t) : NULL;
}

static void leave_thread(struct thread *t)
{
    struct check_writer *w = t->check;

    t->check = NULL;
    if (!w)
        return;
    pthread_mutex_lock(&process->check.lock);
    w->source = 0;
    w->next = process->check.idle;
    process->check.idle = w;
    pthread_mutex_unlock(&process->check.lock);
}

/* --- places --- */

/* Under the lock. True: it is known; else it was added, if there is memory. */
static bool know_module(uint64_t start, uint64_t bias, const char *name)
{
    size_t size = strlen(name) + 1;
    struct module *m;

    for (m = modules; m; m = m->next)
        if (m->start == start && m->bias == bias && strcmp(m->name, name) == 0)
            return true;
    m = malloc(sizeof(*m) + size);
    if (m) {
        *m = (struct module){.next = modules, .start = start, .bias = bias};
        memcpy(m->name, name, size);
        modules = m;
    }
    return false;
}

static void forget_modules(void)
{
    struct module *m;

    while ((m = modules)) {
        modules = m->next;
        free(m);
    }
}

static void tell_module(struct check_writer *w, const struct dl_find_object *found)
{
    struct {
        struct check_module head;
        char text[1024];
    } record = {.head = {.r.kind = CHECK_MODULE, .r.ns = npud_clock_ns()}};
    const char *name = found->dlfo_link_map->l_name;
    ssize_t length;
    bool known;

    pthread_mutex_lock(&process->check.lock);
    known = know_module((uintptr_t)found->dlfo_map_start, found->dlfo_link_map->l_addr, name);
    pthread_mutex_unlock(&process->check.lock);
    if (known)
        return;
    record.head.start = (uintptr_t)found->dlfo_map_start;
    record.head.end = (uintptr_t)found->dlfo_map_end;
    record.head.bias = found->dlfo_link_map->l_addr;
    if (name[0] == '\0') /* the program itself */
        length = readlink("/proc/self/exe", record.text, sizeof(record.text));
    else
        length = (ssize_t)strlen(
            memccpy(record.text, name, 0, sizeof(record.text) - 1) ? record.text : "");
    if (length <= 0)
        return;
    record.head.r.length = (uint16_t)length;
    put_record(w, &record.head.r, sizeof(record.head) + (size_t)length);
}

#define SOURCE_NAME (CHECK_SOURCE_TEXT / 2)

static void tell_source(struct check_writer *w)
{
    struct {
        struct check_source head;
        char text[CHECK_SOURCE_TEXT];
    } record = {.head = {.r.kind = CHECK_SOURCE, .r.ns = npud_clock_ns(), .line = w->line}};
    size_t file = strnlen(w->file, SOURCE_NAME), function = strnlen(w->function, SOURCE_NAME);

    memcpy(record.text, w->file, file);
    memcpy(record.text + file + 1, w->function, function);
    record.head.r.length = (uint16_t)(file + 1 + function);
    put_record(w, &record.head.r, sizeof(record.head) + file + 1 + function);
}

extern const struct checked_long_way __start_checked_long_ways[], __stop_checked_long_ways[];

/* A return address within a long way, as one within the function that was called. */
static uint64_t find_call(uint64_t pc)
{
    void (*function)(void) =
        (void (*)(void))_Unwind_FindEnclosingFunction((void *)(uintptr_t)(pc - 1));
    const struct checked_long_way *w = __start_checked_long_ways;

    for (; w < __stop_checked_long_ways; w++)
        if (w->way == function)
            return (uintptr_t)w->call + 1;
    return pc;
}

static void tell_place(struct check_writer *w, struct check_stack *s)
{
    struct {
        struct check_place head;
        uint64_t frame[CHECK_FRAMES];
    } record = {.head = {.r.kind = CHECK_PLACE, .n = s->n, .source = s->source != 0}};
    struct dl_find_object found;

    if (s->source != 0)
        tell_source(w);
    for (uint32_t i = 0; i < s->n; i++)
        if (_dl_find_object((void *)(uintptr_t)s->pc[i], &found) == 0)
            tell_module(w, &found);
    for (uint32_t i = 0; i < s->n; i++)
        record.frame[i] = find_call(s->pc[i]);
    record.head.r.ns = npud_clock_ns();
    if (put_record(w, &record.head.r, sizeof(record.head) + s->n * sizeof(s->pc[0])))
        s->number = ++w->places;
}

void checked_write(struct check_record *r, size_t size)
{
    struct check_writer *w = find_writer();
    struct check_stack *s;
    bool known;

    if (!w)
        return;
    s = check_stack_find(w->stacks, (uintptr_t)__builtin_frame_address(0),
                         (uintptr_t)__builtin_return_address(0), w->source, &known);
    if (!known)
        tell_place(w, s);
    r->place = s->number;
    r->ns = npud_clock_ns();
    put_record(w, r, size);
}

/* --- interpreted programs --- */

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT32_C(0x01000193);
    return hash;
}

int aclnpudCheckCaller(const char *file, const char *function, uint32_t line)
{
    struct check_writer *w = checked_runs() ? find_writer() : NULL;

    if (!w)
        return 0;
    w->file = file;
    w->function = function ? function : "";
    w->line = line;
    w->source = file ? hash_text(hash_text(line, file), w->function) | 1 : 0;
    return 1;
}

/* --- the process --- */

static char offered[PATH_MAX]; /* by npud, when the session began; under process->lock */

void checked_offer(const char *directory)
{
    snprintf(offered, sizeof(offered), "%s", directory);
}

/* Under process->lock. */
static int begin_session(struct session *s, const char *function)
{
    const char *directory = secure_getenv("NPUD_CHECK");
    struct check_record r = {.kind = CHECK_SESSION_BEGIN};
    bool asked = directory && directory[0] != '\0';
    struct check_head *head;

    (void)s;
    if (!asked)
        directory = offered;
    if (!process->check.head && directory[0] == '/') {
        head = make_file(directory);
        /* Who runs a program under the checker must not take silence for praise; an administrator
         * whose directory is not there for this one, as in a container, must not break it. */
        if (!head)
            return asked ? error_set(ACL_ERROR_INVALID_FILE,
                                     "%s: %s cannot be made for NPUD_CHECK: %m", function, path)
                         : 0;
        fill_head(head);
        process->check.head = head;
        process->check.end = CHECK_CHUNK;
        forget_modules();
        atomic_store_explicit(&process->checked, true, memory_order_release);
        process_tell_accesses(ACCESS_CHECKED, true);
    }
    if (checked_runs())
        checked_write(&r, sizeof(r));
    return 0;
}

static void end_session(struct session *s)
{
    struct check_record r = {.kind = CHECK_SESSION_END};

    (void)s;
    if (checked_runs())
        checked_write(&r, sizeof(r));
}

/* Its memory is the parent's, copied; its chunk is not there. */
static void forget_file(void)
{
    free(thread_self()->check);
    thread_self()->check = NULL;
}

/* The process ends by exit(3), or main() has returned. */
static __attribute__((destructor)) void note_end(void)
{
    if (checked_runs())
        atomic_store_explicit(&process->check.head->ended, 1, memory_order_relaxed);
}

const struct part check_part = {
    .fork_child = forget_file,
    .thread_exit = leave_thread,
    .session_begin = begin_session,
    .session_end = end_session,
};
