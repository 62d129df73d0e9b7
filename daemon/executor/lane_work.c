#include "daemon/executor/lane_work.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/host_pages.h"
#include "daemon/executor/library.h"
#include "daemon/executor/executor_object.h"
#include "proto/util/clock.h"
#include "proto/util/copy_large.h"
#include "proto/util/reduce.h"
#include "proto/util/reduce_apply.h"

/* Of one value, from which memory is set where the library cannot. */
#define STRIP (UINT64_C(64) << 10)

/* A line for each lane, in a page of their own: the library knows it as pages of the host. */
static alignas(4096) uint64_t words[EXECUTOR_LANES][8];
static struct host_pages word_pages = {.map = (unsigned char *)words, .size = sizeof(words)};

/* --- places --- */

/** Part of memory or pages. */
struct place {
    struct object *object; /* NULL: the task has no such place */
    uint64_t address;      /* of the device, or here if it is pages */
};

struct places {
    struct place dst, src;
};

static bool is_on_device(struct place at)
{
    return at.object && at.object->kind == OBJECT_MEMORY;
}

static void *pointer(struct place at)
{
    return (void *)(uintptr_t)at.address;
}

/* 0, and the caller leaves the object; or an ACL error: the handle, or the range, is none. */
static int32_t find_place(const struct executor_place *at, uint64_t size, struct place *place)
{
    struct object *object = object_use_bytes(at->handle);

    if (!object)
        return ACL_ERROR_RT_INVALID_HANDLE;
    place->object = object;
    if (at->offset > object_size(object) || size > object_size(object) - at->offset)
        return library_refuses("a range that is not within its memory");
    place->address = at->offset + (object->kind == OBJECT_PAGES ? (uintptr_t)object->pages.map
                                                                : object->memory.address);
    return 0;
}

/* --- on the host --- */

static int32_t host_copy(const struct executor_task *task, const struct places *at, uint64_t *value)
{
    (void)value;
    if (task->size >= COPY_LARGE)
        copy_large(pointer(at->dst), pointer(at->src), task->size);
    else
        memmove(pointer(at->dst), pointer(at->src), task->size);
    return 0;
}

static int32_t host_set(const struct executor_task *task, const struct places *at, uint64_t *value)
{
    (void)value;
    memset(pointer(at->dst), (int)(task->value & 0xff), task->size);
    return 0;
}

/* npud does that itself. */
static int32_t host_reduce(const struct executor_task *task, const struct places *at,
                           uint64_t *value)
{
    (void)task;
    (void)at;
    (void)value;
    return library_lacks("reductions of pages of the host");
}

static int32_t not_aligned(void)
{
    vendor_set_text("a word that is not at a multiple of 8");
    return ACL_ERROR_RT_ADDR_UNALIGNED;
}

static int32_t host_word_write(const struct executor_task *task, const struct places *at,
                               uint64_t *value)
{
    (void)value;
    if (at->dst.address % 8 != 0)
        return not_aligned();
    atomic_store((_Atomic uint64_t *)pointer(at->dst), task->size);
    return 0;
}

static int32_t host_word_read(const struct executor_task *task, const struct places *at,
                              uint64_t *value)
{
    (void)task;
    if (at->src.address % 8 != 0)
        return not_aligned();
    *value = atomic_load((_Atomic uint64_t *)pointer(at->src));
    return 0;
}

/* --- on the device --- */

/* The library is about to be called. */
static void note_call(struct lane_work *work)
{
    atomic_store_explicit(work->busy_since, clock_ns(), memory_order_relaxed);
}

static int32_t give_copy(struct lane_work *work, struct vendor_lane *queue,
                         const struct executor_task *task, const struct places *at)
{
    enum vendor_way way = !is_on_device(at->dst)   ? VENDOR_TO_HOST
                          : !is_on_device(at->src) ? VENDOR_TO_DEVICE
                                                   : VENDOR_ON_DEVICE;

    note_call(work);
    return library.vendor->copy(queue, at->dst.address, at->src.address, task->size, way);
}

static bool make_buffer(unsigned char **buffer, size_t size)
{
    if (!*buffer)
        *buffer = malloc(size);
    if (!*buffer)
        vendor_set_text("out of memory on the host");
    return *buffer;
}

/* In pieces, from one strip, which stays as it is until the task is over. */
static int32_t copy_strip(struct lane_work *work, struct vendor_lane *queue,
                          const struct executor_task *task, const struct places *at)
{
    int32_t code = 0;

    if (!make_buffer(&work->strip, STRIP))
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    memset(work->strip, (int)(task->value & 0xff), STRIP);
    for (uint64_t done = 0; code == 0 && done < task->size; done += STRIP) {
        uint64_t left = task->size - done;

        note_call(work);
        code = library.vendor->copy(queue, at->dst.address + done, (uintptr_t)work->strip,
                                    left < STRIP ? left : STRIP, VENDOR_TO_DEVICE);
    }
    return code;
}

/* A table has functions that the library behind it may lack. */
static int32_t give_set(struct lane_work *work, struct vendor_lane *queue,
                        const struct executor_task *task, const struct places *at)
{
    int32_t code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    note_call(work);
    if (library.vendor->set)
        code = library.vendor->set(queue, at->dst.address, (uint8_t)task->value, task->size);
    return code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? copy_strip(work, queue, task, at) : code;
}

/* --- reductions that the library does not do: of pages of the host, or all of them --- */

/* Bytes on their way are there when this returns. */
static int32_t copy_now(struct lane_work *work, uint64_t dst, uint64_t src, uint64_t size,
                        enum vendor_way way)
{
    struct vendor_lane *queue = work->queue[work->device];
    int32_t code, end;

    note_call(work);
    code = library.vendor->copy(queue, dst, src, size, way);
    end = library.vendor->lane_sync(&queue);
    pthread_mutex_lock(&work->lock);
    work->queue[work->device] = queue;
    pthread_mutex_unlock(&work->lock);
    return code != 0 ? code : end;
}

/* Bytes of a place where this thread reaches them: there, or in buf. NULL: *code is why. */
static unsigned char *fetch(struct lane_work *work, struct place at, uint64_t offset, uint64_t size,
                            unsigned char *buf, int32_t *code)
{
    if (!is_on_device(at))
        return (unsigned char *)pointer(at) + offset;
    *code = copy_now(work, (uintptr_t)buf, at.address + offset, size, VENDOR_TO_HOST);
    return *code == 0 ? buf : NULL;
}

static int32_t reduce_piece(struct lane_work *work, const struct executor_task *task,
                            const struct places *at, uint64_t offset, uint64_t size)
{
    unsigned char *dst, *src = NULL;
    int32_t code = 0;

    dst = fetch(work, at->dst, offset, size, work->strip, &code);
    if (dst)
        src = fetch(work, at->src, offset, size, work->strip + STRIP / 2, &code);
    if (!src)
        return code;
    reduce_apply(dst, src, size, task->value >> 8 & 0xff, task->value & 0xff);
    if (!is_on_device(at->dst))
        return 0;
    return copy_now(work, at->dst.address + offset, (uintptr_t)dst, size, VENDOR_TO_DEVICE);
}

static int32_t reduce_here(struct lane_work *work, const struct executor_task *task,
                           const struct places *at)
{
    uint64_t most = STRIP / 2;
    int32_t code = 0;

    if (!make_buffer(&work->strip, STRIP))
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    for (uint64_t offset = 0; code == 0 && offset < task->size; offset += most)
        code = reduce_piece(work, task, at, offset,
                            task->size - offset < most ? task->size - offset : most);
    return code;
}

static int32_t give_reduce(struct lane_work *work, struct vendor_lane *queue,
                           const struct executor_task *task, const struct places *at)
{
    uint8_t kind = (uint8_t)(task->value >> 8), type = (uint8_t)task->value;
    int32_t code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    if (!reduce_offered(kind, type) || task->size % reduce_element(type) != 0)
        return library_refuses("a reduction that cannot be");
    note_call(work);
    if (library.vendor->reduce && is_on_device(at->dst) && is_on_device(at->src))
        code =
            library.vendor->reduce(queue, at->dst.address, at->src.address, task->size, kind, type);
    return code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? reduce_here(work, task, at) : code;
}

static int32_t give_word_write(struct lane_work *work, struct vendor_lane *queue,
                               const struct executor_task *task, const struct places *at)
{
    int32_t code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    if (at->dst.address % 8 != 0)
        return not_aligned();
    note_call(work);
    if (library.vendor->word_write)
        code = library.vendor->word_write(queue, at->dst.address, task->size);
    if (code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
        return code;
    *work->word = task->size;
    note_call(work);
    return library.vendor->copy(queue, at->dst.address, (uintptr_t)work->word, sizeof(*work->word),
                                VENDOR_TO_DEVICE);
}

static int32_t give_word_read(struct lane_work *work, struct vendor_lane *queue,
                              const struct executor_task *task, const struct places *at)
{
    (void)task;
    if (at->src.address % 8 != 0)
        return not_aligned();
    note_call(work);
    return library.vendor->copy(queue, (uintptr_t)work->word, at->src.address, sizeof(*work->word),
                                VENDOR_TO_HOST);
}

/* Placeholders and arguments, in this order, as the library gets them. */
#define LAUNCH_BYTES                                                                               \
    (EXECUTOR_PLACEHOLDERS * sizeof(struct executor_placeholder) + EXECUTOR_ARGUMENTS)

static bool are_within(const struct executor_placeholder *places, uint32_t n, uint32_t bytes)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes < sizeof(uint64_t) || places[i].address > bytes - sizeof(uint64_t) ||
            places[i].data >= bytes)
            return false;
    return true;
}

/* *said is of the pages; what is behind it is read here. room: bytes that are. */
static int32_t read_launch(struct lane_work *work, const struct executor_launch *said,
                           const unsigned char *behind, uint64_t room, uint64_t sum,
                           struct vendor_launch *launch)
{
    uint64_t places = said->placeholders * sizeof(struct executor_placeholder);
    uint64_t bytes = said->on_device ? 0 : said->bytes;

    if (said->bytes > EXECUTOR_ARGUMENTS || said->placeholders > EXECUTOR_PLACEHOLDERS ||
        places + bytes > room)
        return library_refuses("arguments that are not within their memory");
    if (!make_buffer(&work->arguments, LAUNCH_BYTES))
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    memcpy(work->arguments, behind, places + bytes);
    if (executor_launch_sum(said, work->arguments, places + bytes) != sum)
        return library_refuses("a launch that is not as it was written");
    *launch = (struct vendor_launch){
        .shared_bytes = said->shared_bytes,
        .arguments = work->arguments + places,
        .bytes = said->bytes,
        .placeholders = (const struct executor_placeholder *)(const void *)work->arguments,
        .n_placeholders = said->placeholders,
        .batch = said->batch != 0,
        .limit_ns = said->limit_ns};
    memcpy(launch->blocks, said->blocks, sizeof(launch->blocks));
    memcpy(launch->threads, said->threads, sizeof(launch->threads));
    if (!said->on_device)
        return are_within(launch->placeholders, said->placeholders, said->bytes)
                   ? 0
                   : library_refuses("placeholders that are not within their arguments");
    return copy_now(work, (uintptr_t)launch->arguments, said->on_device, said->bytes,
                    VENDOR_TO_HOST);
}

/* What the pages say is read once: others may write there. */
static int32_t give_kernel(struct lane_work *work, struct vendor_lane *queue, void *function,
                           struct place src, uint64_t room, uint64_t sum)
{
    struct executor_launch said;
    struct vendor_launch launch;
    int32_t code;

    memcpy(&said, pointer(src), sizeof(said));
    code =
        read_launch(work, &said, (unsigned char *)pointer(src) + sizeof(said), room, sum, &launch);
    if (code != 0)
        return code;
    if (said.on_device)
        queue = work->queue[work->device]; /* the copy may have ended that of before */
    if (!queue)
        return ACL_ERROR_RT_INTERNAL_ERROR;
    note_call(work);
    return library.vendor->launch(queue, function, &launch);
}

static int32_t give_launch(struct lane_work *work, struct vendor_lane *queue,
                           const struct executor_task *task, const struct places *at)
{
    void *function = object_function(at->dst.object, task->dst.offset);

    if (!library.vendor->launch)
        return library_lacks("kernels");
    if (!function)
        return library_refuses("a function that its binary does not have");
    if (is_on_device(at->src))
        return library_refuses("arguments that are not in pages of the host");
    return give_kernel(work, queue, function, at->src,
                       object_size(at->src.object) - task->src.offset -
                           sizeof(struct executor_launch),
                       task->size);
}

/* --- what each op is --- */

/* Bytes of a place. */
enum extent { NO_PLACE, SIZE, WORD, LAUNCH, BINARY };

static const struct row {
    enum extent dst, src;
    int32_t (*on_host)(const struct executor_task *task, const struct places *at, uint64_t *value);
    /* Gives it to the queue, which may still be at it afterwards. */
    int32_t (*on_device)(struct lane_work *work, struct vendor_lane *queue,
                         const struct executor_task *task, const struct places *at);
} rows[EXECUTOR_OPS] = {
    [EXECUTOR_NOP] = {NO_PLACE, NO_PLACE, NULL, NULL},
    [EXECUTOR_COPY] = {SIZE, SIZE, host_copy, give_copy},
    [EXECUTOR_SET] = {SIZE, NO_PLACE, host_set, give_set},
    [EXECUTOR_REDUCE] = {SIZE, SIZE, host_reduce, give_reduce},
    [EXECUTOR_WORD_WRITE] = {WORD, NO_PLACE, host_word_write, give_word_write},
    [EXECUTOR_WORD_READ] = {NO_PLACE, WORD, host_word_read, give_word_read},
    [EXECUTOR_LAUNCH] = {BINARY, LAUNCH, NULL, give_launch},
};

static int32_t find_extent(enum extent extent, const struct executor_place *at, uint64_t size,
                           struct place *place)
{
    switch (extent) {
    case NO_PLACE:
        return 0;
    case SIZE:
        return find_place(at, size, place);
    case WORD:
        return find_place(at, sizeof(uint64_t), place);
    case LAUNCH:
        return find_place(at, sizeof(struct executor_launch), place);
    case BINARY:
        place->object = object_use(at->handle, OBJECT_BINARY);
        return place->object ? 0 : ACL_ERROR_RT_INVALID_HANDLE;
    }
    return 0;
}

static int32_t find_places(const struct executor_task *task, struct places *at)
{
    const struct row *row = &rows[task->op];
    int32_t code = find_extent(row->dst, &task->dst, task->size, &at->dst);

    return code != 0 ? code : find_extent(row->src, &task->src, task->size, &at->src);
}

/* Nothing of it concerns a device. */
static bool is_of_host(const struct executor_task *task, const struct places *at)
{
    return rows[task->op].on_host && !is_on_device(at->dst) && !is_on_device(at->src);
}

/* --- on the queue --- */

void lane_work_init(struct lane_work *work, unsigned lane, _Atomic uint64_t *busy_since)
{
    *work = (struct lane_work){.busy_since = busy_since, .word = words[lane]};
    pthread_mutex_init(&work->lock, NULL);
}

static void begin(struct lane_work *work, const struct executor_task *task)
{
    pthread_mutex_lock(&work->lock);
    work->state = LANE_GIVES;
    work->device = task->device;
    work->number = task->number;
    pthread_mutex_unlock(&work->lock);
}

static int32_t open_queue(struct lane_work *work, uint32_t device)
{
    int32_t code;

    note_call(work);
    code = library_enter(device);
    if (code != 0 || work->queue[device])
        return code;
    note_call(work);
    return library.vendor->lane_new(library.open, device, &work->queue[device]);
}

static void tell_pages(struct lane_work *work, const struct places *at, uint32_t device)
{
    note_call(work);
    if (at->dst.object && at->dst.object->kind == OBJECT_PAGES)
        host_pages_tell(&at->dst.object->pages, device);
    if (at->src.object && at->src.object->kind == OBJECT_PAGES)
        host_pages_tell(&at->src.object->pages, device);
    host_pages_tell(&word_pages, device);
}

/*
 * What was given comes to its end, well or not. An abort that came while it was being given is done
 * now: it would have ended nothing before.
 */
static int32_t await_end(struct lane_work *work, uint32_t device)
{
    struct vendor_lane *queue = work->queue[device];
    bool aborted = false;
    int32_t code;

    if (!queue)
        return 0; /* it has gone with an error, which was told */
    pthread_mutex_lock(&work->lock);
    work->state = LANE_WAITS;
    if (work->asker != 0)
        aborted = library.vendor->lane_abort(queue) == 0;
    pthread_mutex_unlock(&work->lock);
    note_call(work);
    code = library.vendor->lane_sync(&queue);
    pthread_mutex_lock(&work->lock);
    work->queue[device] = queue;
    pthread_mutex_unlock(&work->lock);
    return code == 0 && aborted ? ACL_ERROR_RT_STREAM_ABORT : code;
}

static int32_t do_on_device(struct lane_work *work, const struct executor_task *task,
                            const struct places *at)
{
    int32_t code, end;

    if (task->device >= EXECUTOR_DEVICES)
        return library_refuses("a device that cannot be");
    begin(work, task);
    code = open_queue(work, task->device);
    if (code != 0)
        return code;
    tell_pages(work, at, task->device);
    code = rows[task->op].on_device(work, work->queue[task->device], task, at);
    end = await_end(work, task->device); /* also of what was given before an error */
    return code != 0 ? code : end;
}

/* Whoever wanted the end of the task. What it used may be freed now. */
static uint64_t finish(struct lane_work *work, struct places *at)
{
    uint64_t asker;

    if (at->dst.object || at->src.object)
        note_call(work);
    object_leave(at->dst.object);
    object_leave(at->src.object);
    pthread_mutex_lock(&work->lock);
    asker = work->asker;
    work->asker = 0;
    work->state = LANE_IDLE;
    pthread_mutex_unlock(&work->lock);
    atomic_store_explicit(work->busy_since, 0, memory_order_relaxed);
    return asker;
}

int32_t lane_work_do(struct lane_work *work, const struct executor_task *task, uint64_t *value,
                     uint64_t *asker)
{
    struct places at = {0};
    int32_t code;

    *asker = 0;
    if (task->op == EXECUTOR_NOP)
        return 0;
    if (task->op >= EXECUTOR_OPS)
        return library_refuses("a task of no known kind");
    code = find_places(task, &at);
    if (code == 0 && is_of_host(task, &at))
        code = rows[task->op].on_host(task, &at, value);
    else if (code == 0) {
        code = do_on_device(work, task, &at);
        if (task->op == EXECUTOR_WORD_READ)
            *value = *work->word;
    }
    *asker = finish(work, &at);
    return code;
}

/* --- by the control thread --- */

int32_t lane_work_abort(struct lane_work *work, uint64_t to, uint64_t asker, bool *later)
{
    int32_t code = 0;

    *later = false;
    pthread_mutex_lock(&work->lock);
    if (work->state != LANE_IDLE && work->number <= to) {
        if (!library.vendor->lane_abort)
            code = library_lacks("way to end what a lane does");
        else if (work->asker != 0)
            code = library_refuses("this task is being ended already");
        else if (work->state == LANE_WAITS)
            code = library.vendor->lane_abort(work->queue[work->device]);
        if (code == 0)
            work->asker = asker;
        *later = code == 0;
    }
    pthread_mutex_unlock(&work->lock);
    return code;
}

int32_t lane_work_leave_device(struct lane_work *work, uint32_t device)
{
    int32_t code = 0;

    pthread_mutex_lock(&work->lock);
    if (work->state != LANE_IDLE && work->device == device) {
        code = library_refuses("a lane works on the device");
    } else if (work->queue[device]) {
        library.vendor->lane_free(work->queue[device]);
        work->queue[device] = NULL;
    }
    pthread_mutex_unlock(&work->lock);
    return code;
}
