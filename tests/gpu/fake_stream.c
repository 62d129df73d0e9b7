/* The fake's streams: each has a thread that does its tasks one after the other. And its events. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/util/futex.h"

enum op { COPY, SET, WRITE_WORD, WAIT_WORD, RECORD, WAIT_EVENT, KERNEL, HOST_FUNCTION };

struct task {
    enum op op;
    uint64_t dst, src, size, value;
    void *staged; /* freed after it */
    struct event *event;
    cuda_function function;
    void (*host_function)(void *arg);
    void *arg;
    struct task *next;
};

struct stream {
    struct context *context;
    pthread_mutex_t lock;
    pthread_cond_t news, over;
    struct task *first, **last;
    uint64_t submitted, done;
    bool ending;
    struct stream *next;
};

/* What processes share of an event that is for several. */
struct event_page {
    _Atomic uint64_t recorded, done;
    _Atomic uint32_t bell;
};

struct event {
    struct event_page *page;
    int fd; /* -1: of this process only */
    bool imported;
    struct event *next;
};

static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;
static struct event *events, *destroyed;

/* --- what a task does, in the stream's thread --- */

/* False: the context was broken by another stream, which ends all waits. */
static bool await_event(const struct context *context, struct event_page *page, uint64_t number)
{
    struct timespec soon;
    uint32_t bell;

    for (;;) {
        bell = atomic_load(&page->bell);
        if (atomic_load(&page->done) >= number)
            return true;
        if (atomic_load(&context->error) != 0)
            return false;
        soon = timespec_from_ns(clock_ns() + 20 * NSEC_PER_MSEC);
        futex_wait_until(&page->bell, bell, &soon);
    }
}

static cuda_result run_copy(const struct context *context, const struct task *t)
{
    bool to_host = !fake_is_device_address(t->dst), from_host = !fake_is_device_address(t->src);
    void *dst, *src;

    pthread_rwlock_rdlock(&fake_mappings);
    dst = to_host ? (void *)(uintptr_t)t->dst : fake_translate(context->device, t->dst, t->size);
    src = t->staged   ? t->staged
          : from_host ? (void *)(uintptr_t)t->src
                      : fake_translate(context->device, t->src, t->size);
    if (dst && src)
        memcpy(dst, src, t->size);
    pthread_rwlock_unlock(&fake_mappings);
    return dst && src ? CUDA_SUCCESS : CUDA_ILLEGAL_ADDRESS;
}

static cuda_result run_set(const struct context *context, const struct task *t)
{
    void *dst;

    pthread_rwlock_rdlock(&fake_mappings);
    dst = fake_translate(context->device, t->dst, t->size);
    if (dst)
        memset(dst, (int)(t->value ^ script_number("FAKE_CUDA_LIES", 0)), t->size);
    pthread_rwlock_unlock(&fake_mappings);
    return dst ? CUDA_SUCCESS : CUDA_ILLEGAL_ADDRESS;
}

static cuda_result run_write(const struct context *context, const struct task *t)
{
    _Atomic uint64_t *word;

    pthread_rwlock_rdlock(&fake_mappings);
    word = fake_translate(context->device, t->dst, sizeof(*word));
    if (word)
        atomic_store(word, t->value);
    pthread_rwlock_unlock(&fake_mappings);
    return word ? CUDA_SUCCESS : CUDA_ILLEGAL_ADDRESS;
}

static cuda_result run_wait(const struct context *context, const struct task *t)
{
    _Atomic uint64_t *word;
    bool is_over = false;

    while (!is_over && atomic_load(&context->error) == 0) {
        pthread_rwlock_rdlock(&fake_mappings);
        word = fake_translate(context->device, t->dst, sizeof(*word));
        is_over = word && (int64_t)(atomic_load(word) - t->value) >= 0;
        pthread_rwlock_unlock(&fake_mappings);
        if (!word)
            return CUDA_ILLEGAL_ADDRESS;
        clock_sleep_until(clock_ns() + 10000); /* no sched_yield(): tests/common/moment.h */
    }
    return CUDA_SUCCESS;
}

static void run_record(const struct task *t)
{
    struct event_page *page = t->event->page;

    atomic_store(&page->done, t->value);
    atomic_fetch_add(&page->bell, 1);
    futex_wake_all(&page->bell);
}

static cuda_result run_task(const struct context *context, const struct task *t)
{
    cuda_result result = script_task();

    if (result != CUDA_SUCCESS)
        return result;
    switch (t->op) {
    case COPY:
        return run_copy(context, t);
    case SET:
        return run_set(context, t);
    case WRITE_WORD:
        return run_write(context, t);
    case WAIT_WORD:
        return run_wait(context, t);
    case RECORD:
        run_record(t);
        return CUDA_SUCCESS;
    case WAIT_EVENT:
        await_event(context, t->event->page, t->value);
        return CUDA_SUCCESS;
    case KERNEL:
        return fake_run_kernel(context->device, t->function, t->staged, t->size);
    case HOST_FUNCTION:
        t->host_function(t->arg);
        return CUDA_SUCCESS;
    }
    return CUDA_UNKNOWN;
}

static void execute(struct stream *s, struct task *t)
{
    uint64_t latency = script_number("FAKE_CUDA_LATENCY_US", 0);
    cuda_result result;
    int none = 0;

    if (latency)
        clock_sleep_until(clock_ns() + latency * NSEC_PER_USEC);
    if (atomic_load(&s->context->error) == 0) {
        result = run_task(s->context, t);
        if (result != CUDA_SUCCESS)
            atomic_compare_exchange_strong(&s->context->error, &none, result);
    }
    free(t->staged);
    free(t);
}

static void *run_stream(void *arg)
{
    struct stream *s = arg;
    struct task *t;

    pthread_mutex_lock(&s->lock);
    while (s->first || !s->ending) {
        if (!s->first) {
            pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        t = s->first;
        s->first = t->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        execute(s, t);
        pthread_mutex_lock(&s->lock);
        s->done++;
        pthread_cond_broadcast(&s->over);
    }
    pthread_mutex_unlock(&s->lock);
    free(s);
    return NULL;
}

/* --- streams --- */

/* Of the thread's context only: another one's is a wrong handle. */
static struct stream *find_stream(cuda_stream stream)
{
    struct stream *s;

    pthread_mutex_lock(&lists_lock);
    s = streams;
    while (s && (s != stream || s->context != fake_context()))
        s = s->next;
    pthread_mutex_unlock(&lists_lock);
    return s;
}

unsigned fake_streams_left(void)
{
    unsigned n = 0;

    pthread_mutex_lock(&lists_lock);
    for (const struct stream *s = streams; s; s = s->next)
        n++;
    for (const struct event *e = events; e; e = e->next)
        n++;
    pthread_mutex_unlock(&lists_lock);
    return n;
}

static cuda_result submit(cuda_stream stream, struct task task)
{
    struct stream *s = find_stream(stream);
    struct task *t;

    if (!s) {
        free(task.staged);
        return CUDA_INVALID_HANDLE;
    }
    t = malloc(sizeof(*t));
    if (!t)
        abort();
    *t = task;
    pthread_mutex_lock(&s->lock);
    *s->last = t;
    s->last = &t->next;
    s->submitted++;
    pthread_cond_signal(&s->news);
    pthread_mutex_unlock(&s->lock);
    return CUDA_SUCCESS;
}

static void await_stream(struct stream *s)
{
    uint64_t number;

    pthread_mutex_lock(&s->lock);
    number = s->submitted;
    while (s->done < number)
        pthread_cond_wait(&s->over, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void fake_drain(struct context *context)
{
    struct stream *s;

    pthread_mutex_lock(&lists_lock);
    for (s = streams; s; s = s->next)
        if (s->context == context)
            await_stream(s);
    pthread_mutex_unlock(&lists_lock);
}

EXPORT cuda_result cuStreamCreateWithPriority(cuda_stream *stream, unsigned flags, int priority)
{
    struct stream *s;
    pthread_t thread;

    (void)priority;
    ENTER(true);
    if (flags & ~1u)
        return CUDA_INVALID_VALUE;
    s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->context = fake_context();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    pthread_cond_init(&s->over, NULL);
    s->last = &s->first;
    if (pthread_create(&thread, NULL, run_stream, s) != 0)
        abort();
    pthread_detach(thread);
    pthread_mutex_lock(&lists_lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lists_lock);
    *stream = s;
    return CUDA_SUCCESS;
}

/* As in the driver: what was submitted is still done. */
EXPORT cuda_result cuStreamDestroy_v2(cuda_stream stream)
{
    struct stream *s, **at = &streams;

    ENTER(true);
    s = find_stream(stream);
    if (!s)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&lists_lock);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&lists_lock);
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->news);
    pthread_mutex_unlock(&s->lock);
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuStreamSynchronize(cuda_stream stream)
{
    struct stream *s;

    ENTER(true);
    s = find_stream(stream);
    if (!s)
        return CUDA_INVALID_HANDLE;
    await_stream(s);
    return atomic_load(&s->context->error);
}

EXPORT cuda_result cuStreamQuery(cuda_stream stream)
{
    struct stream *s;
    bool is_over;

    ENTER(true);
    s = find_stream(stream);
    if (!s)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&s->lock);
    is_over = s->done == s->submitted;
    pthread_mutex_unlock(&s->lock);
    return is_over ? atomic_load(&s->context->error) : CUDA_NOT_READY;
}

/* --- tasks --- */

static int device(void)
{
    return fake_context()->device;
}

static void *stage(const void *bytes, size_t size)
{
    void *staged = malloc(size ? size : 1);

    if (!staged)
        abort();
    if (size)
        memcpy(staged, bytes, size);
    return staged;
}

/* What is not registered may change after the call, as in the driver: it is read now. */
EXPORT cuda_result cuMemcpyHtoDAsync_v2(cuda_address dst, const void *src, size_t size,
                                        cuda_stream stream)
{
    struct task t = {.op = COPY, .dst = dst, .src = (uintptr_t)src, .size = size};

    ENTER(true);
    if (!fake_is_device_address(dst) || !fake_is_device(device(), dst, size) ||
        fake_is_device_address((uintptr_t)src))
        return CUDA_INVALID_VALUE;
    if (!fake_is_registered(src, size))
        t.staged = stage(src, size);
    return submit(stream, t);
}

EXPORT cuda_result cuMemcpyDtoHAsync_v2(void *dst, cuda_address src, size_t size,
                                        cuda_stream stream)
{
    struct task t = {.op = COPY, .dst = (uintptr_t)dst, .src = src, .size = size};
    cuda_result result;

    ENTER(true);
    if (!fake_is_device_address(src) || !fake_is_device(device(), src, size) ||
        fake_is_device_address((uintptr_t)dst))
        return CUDA_INVALID_VALUE;
    result = submit(stream, t);
    if (result != CUDA_SUCCESS || fake_is_registered(dst, size))
        return result;
    await_stream(stream);
    return atomic_load(&fake_context()->error);
}

EXPORT cuda_result cuMemcpyDtoDAsync_v2(cuda_address dst, cuda_address src, size_t size,
                                        cuda_stream stream)
{
    struct task t = {.op = COPY, .dst = dst, .src = src, .size = size};

    ENTER(true);
    if (!fake_is_device(device(), dst, size) || !fake_is_device(device(), src, size) ||
        (dst < src + size && src < dst + size))
        return CUDA_INVALID_VALUE;
    return submit(stream, t);
}

EXPORT cuda_result cuMemsetD8Async(cuda_address dst, unsigned char value, size_t n,
                                   cuda_stream stream)
{
    ENTER(true);
    if (!fake_is_device(device(), dst, n))
        return CUDA_INVALID_VALUE;
    return submit(stream, (struct task){.op = SET, .dst = dst, .size = n, .value = value});
}

static cuda_result submit_word(cuda_stream stream, enum op op, cuda_address address, uint64_t value)
{
    if (address % 8 != 0 || !fake_is_device(device(), address, 8))
        return CUDA_INVALID_VALUE;
    return submit(stream, (struct task){.op = op, .dst = address, .value = value});
}

EXPORT cuda_result cuStreamWriteValue64_v2(cuda_stream stream, cuda_address dst, uint64_t value,
                                           unsigned flags)
{
    ENTER(true);
    return flags & ~1u ? CUDA_INVALID_VALUE : submit_word(stream, WRITE_WORD, dst, value);
}

EXPORT cuda_result cuStreamWaitValue64_v2(cuda_stream stream, cuda_address address, uint64_t value,
                                          unsigned flags)
{
    ENTER(true);
    return flags != CUDA_WAIT_VALUE_GEQ ? CUDA_NOT_SUPPORTED
                                        : submit_word(stream, WAIT_WORD, address, value);
}

EXPORT cuda_result cuLaunchHostFunc(cuda_stream stream, void (*run)(void *arg), void *arg)
{
    ENTER(true);
    return submit(stream, (struct task){.op = HOST_FUNCTION, .host_function = run, .arg = arg});
}

/* Arguments in one buffer, as npud has them, and no more. */
static bool find_arguments(void **extra, const void **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    for (; extra && *extra != CUDA_LAUNCH_END; extra += 2) {
        if (*extra == CUDA_LAUNCH_BUFFER)
            *bytes = extra[1];
        else if (*extra == CUDA_LAUNCH_SIZE)
            memcpy(size, extra[1], sizeof(*size));
        else
            return false;
    }
    return *bytes || *size == 0;
}

EXPORT cuda_result cuLaunchKernel(cuda_function function, unsigned blocks_x, unsigned blocks_y,
                                  unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                                  unsigned threads_z, unsigned shared_bytes, cuda_stream stream,
                                  void **arguments, void **extra)
{
    struct task t = {.op = KERNEL, .function = function};
    uint64_t threads = (uint64_t)threads_x * threads_y * threads_z;
    const void *bytes;

    ENTER(true);
    if (!fake_is_function(fake_context(), function))
        return CUDA_INVALID_HANDLE;
    if (arguments || !find_arguments(extra, &bytes, &t.size) || threads == 0 || threads > 1024 ||
        blocks_x == 0 || blocks_y == 0 || blocks_z == 0 ||
        shared_bytes > fake_shared_bytes(function))
        return CUDA_INVALID_VALUE;
    if (t.size < fake_argument_bytes(function))
        return CUDA_INVALID_VALUE;
    t.staged = stage(bytes, t.size);
    return submit(stream, t);
}

/* --- events --- */

static struct event *find_event(cuda_event event)
{
    struct event *e;

    pthread_mutex_lock(&lists_lock);
    e = events;
    while (e && e != event)
        e = e->next;
    pthread_mutex_unlock(&lists_lock);
    return e;
}

static cuda_result add_event(int fd, bool imported, cuda_event *event)
{
    struct event *e = calloc(1, sizeof(*e));
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                      fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (!e || page == MAP_FAILED)
        abort();
    e->page = page;
    e->fd = fd;
    e->imported = imported;
    pthread_mutex_lock(&lists_lock);
    e->next = events;
    events = e;
    pthread_mutex_unlock(&lists_lock);
    *event = e;
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuEventCreate(cuda_event *event, unsigned flags)
{
    int fd = -1;

    ENTER(true);
    if ((flags & ~7u) ||
        (flags & (CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING)) == CUDA_EVENT_INTERPROCESS)
        return CUDA_INVALID_VALUE;
    if (flags & CUDA_EVENT_INTERPROCESS) {
        fd = memfd_create("fake_cuda event", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 4096) != 0)
            return CUDA_OUT_OF_MEMORY;
    }
    return add_event(fd, false, event);
}

/* The page stays: a stream may be about to record. */
EXPORT cuda_result cuEventDestroy_v2(cuda_event event)
{
    struct event *e, **at = &events;

    ENTER(true);
    e = find_event(event);
    if (!e)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&lists_lock);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    e->next = destroyed;
    destroyed = e;
    pthread_mutex_unlock(&lists_lock);
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuEventRecord(cuda_event event, cuda_stream stream)
{
    struct event *e;

    ENTER(true);
    e = find_event(event);
    if (!e || !find_stream(stream))
        return CUDA_INVALID_HANDLE;
    return submit(stream, (struct task){.op = RECORD,
                                        .event = e,
                                        .value = atomic_fetch_add(&e->page->recorded, 1) + 1});
}

EXPORT cuda_result cuEventQuery(cuda_event event)
{
    struct event *e;

    ENTER(true);
    e = find_event(event);
    if (!e)
        return CUDA_INVALID_HANDLE;
    return atomic_load(&e->page->done) >= atomic_load(&e->page->recorded) ? CUDA_SUCCESS
                                                                          : CUDA_NOT_READY;
}

EXPORT cuda_result cuEventSynchronize(cuda_event event)
{
    struct event *e;

    ENTER(true);
    e = find_event(event);
    if (!e)
        return CUDA_INVALID_HANDLE;
    await_event(fake_context(), e->page, atomic_load(&e->page->recorded));
    return atomic_load(&fake_context()->error);
}

EXPORT cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    struct event *e;

    ENTER(true);
    e = find_event(event);
    if (!e || flags != 0)
        return e ? CUDA_INVALID_VALUE : CUDA_INVALID_HANDLE;
    return submit(
        stream,
        (struct task){.op = WAIT_EVENT, .event = e, .value = atomic_load(&e->page->recorded)});
}

struct ipc {
    char magic[8];
    int32_t pid, fd;
};

EXPORT cuda_result cuIpcGetEventHandle(struct cuda_ipc_event *handle, cuda_event event)
{
    struct event *e;
    struct ipc ipc = {.magic = "fakeIPC", .pid = getpid()};

    ENTER(true);
    e = find_event(event);
    if (!e || e->fd < 0 || e->imported)
        return CUDA_INVALID_HANDLE;
    ipc.fd = e->fd;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    return CUDA_SUCCESS;
}

EXPORT cuda_result cuIpcOpenEventHandle(cuda_event *event, struct cuda_ipc_event handle)
{
    struct ipc ipc;
    char path[64];
    int fd;

    ENTER(true);
    memcpy(&ipc, &handle, sizeof(ipc));
    if (memcmp(ipc.magic, "fakeIPC", sizeof(ipc.magic)) != 0 || ipc.pid == getpid())
        return CUDA_INVALID_HANDLE;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? CUDA_INVALID_HANDLE : add_event(fd, true, event);
}
