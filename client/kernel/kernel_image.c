#include "client/kernel/kernel_image.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/memory/checked_access.h"
#include "client/memory/copy.h"
#include "client/memory/staging.h"
#include "client/profile/profile.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "proto/shm/executor_shm.h"
#include "proto/wire/executor_message.h"

/** What a device has. */
struct copy {
    uint64_t session; /* its serial */
    uint32_t device;
    uint32_t opened; /* the device, when it got it: else it has lost it */
    uint32_t slot, generation;
    struct copy *next;
};

struct kernel_image {
    void *bytes;
    size_t size;
    uint32_t magic;
    uint32_t numbers;    /* of functions, so far. Under `looking_up` */
    struct copy *copies; /* changed under both locks */
};

/* One thread looks something up: npud answers one request of a session after the other, anyway. */
static pthread_mutex_t looking_up = PTHREAD_MUTEX_INITIALIZER;

struct kernel_image *kernel_image_new(const void *bytes, size_t size, uint32_t magic)
{
    struct kernel_image *image = calloc(1, sizeof(*image));

    if (!image)
        return NULL;
    image->bytes = malloc(size);
    if (!image->bytes) {
        free(image);
        return NULL;
    }
    memcpy(image->bytes, bytes, size);
    image->size = size;
    image->magic = magic;
    return image;
}

/* --- what devices have --- */

static uint32_t opened(const struct session *s, uint32_t device)
{
    return atomic_load_explicit(&s->devices[device].opened, memory_order_acquire);
}

/* Under kernel_lock. NULL: the device has none. */
static const struct copy *find_copy(const struct kernel_image *image, const struct session *s,
                                    uint32_t device)
{
    const struct copy *copy;

    LL_FOREACH (image->copies, copy)
        if (copy->session == s->serial && copy->device == device &&
            copy->opened == opened(s, device))
            return copy;
    return NULL;
}

/* Of a session that is gone, npud has nothing. */
static void drop_copy(struct copy *copy)
{
    struct session *s = session_peek();

    if (s && s->serial == copy->session && !session_lost(s)) {
        REQUEST(unload_binary, UNLOAD_BINARY, .slot = copy->slot);

        session_command_unheard(s, &request);
    }
    free(copy);
}

void kernel_image_free(struct kernel_image *image)
{
    struct copy *copy, *next;

    LL_FOREACH_SAFE (image->copies, copy, next)
        drop_copy(copy);
    free(image->bytes);
    free(image);
}

/* Those of sessions that have ended, and those that the device has lost. */
static void drop_old_copies(struct kernel_image *image, const struct session *s, uint32_t device)
{
    struct copy *copy, *next, *dropped = NULL;

    pthread_mutex_lock(&process->kernel_lock);
    LL_FOREACH_SAFE (image->copies, copy, next)
        if (copy->session != s->serial || copy->device == device) {
            LL_DELETE(image->copies, copy);
            LL_PREPEND(dropped, copy);
        }
    pthread_mutex_unlock(&process->kernel_lock);
    LL_FOREACH_SAFE (dropped, copy, next)
        drop_copy(copy);
}

/* In pinned memory, of which npud gives the device's library what stands there. */
static int load_from(const char *api, const struct kernel_image *image, struct context *c,
                     const struct memory *file, struct copy *copy)
{
    REQUEST(load_binary, LOAD_BINARY, .device = c->device, .file = file->remote,
            .size = image->size, .magic = image->magic);
    Npud__Reply *reply = NULL;

    RETURN_IF_ERROR(session_request(c->session, api, &request, &reply, NULL));
    copy->slot = reply->load_binary->slot;
    copy->generation = reply->load_binary->generation;
    session_reply_free(reply);
    return 0;
}

static int load_copy(const char *api, const struct kernel_image *image, struct context *c,
                     struct copy *copy)
{
    struct memory file = {.size = image->size, .host = true, .populated = UINT64_MAX};
    int error;

    copy->session = c->session->serial;
    copy->device = c->device;
    copy->opened = opened(c->session, c->device);
    RETURN_IF_ERROR(memory_allocate(c, api, &file, image->size));
    memcpy((void *)file.mapped.start, image->bytes, image->size);
    error = load_from(api, image, c, &file, copy);
    memory_free_remote(c->session, api, file.remote);
    memory_unmap(&file);
    return error;
}

static void add_copy(struct kernel_image *image, struct copy *copy,
                     struct kernel_function *const *functions)
{
    struct kernel_function *f;

    pthread_mutex_lock(&process->kernel_lock);
    LL_PREPEND(image->copies, copy);
    LL_FOREACH (*functions, f)
        f->devices &= ~(1u << copy->device);
    pthread_mutex_unlock(&process->kernel_lock);
}

/* *has: the copy of the device, made if it has none. */
static int get_copy(const char *api, struct kernel_image *image, struct context *c,
                    struct kernel_function *const *functions, struct copy *has)
{
    const struct copy *found;
    struct copy *copy;
    int error;

    pthread_mutex_lock(&process->kernel_lock);
    found = find_copy(image, c->session, c->device);
    if (found)
        *has = *found;
    pthread_mutex_unlock(&process->kernel_lock);
    if (found)
        return 0;
    drop_old_copies(image, c->session, c->device);
    copy = calloc(1, sizeof(*copy));
    if (!copy)
        return error_no_memory(api);
    error = load_copy(api, image, c, copy);
    if (error != 0) {
        free(copy);
        return error;
    }
    *has = *copy;
    add_copy(image, copy, functions);
    return 0;
}

/* --- functions --- */

/* Its number, if it has one on any device: *known; else the next one. True: on this device, too. */
static bool find_number(const struct kernel_image *image, const struct context *c, const char *name,
                        struct kernel_function *const *functions, uint32_t *number)
{
    const struct kernel_function *f;
    bool here = false;

    *number = image->numbers;
    pthread_mutex_lock(&process->kernel_lock);
    LL_FOREACH (*functions, f)
        if (strcmp(f->name, name) == 0) {
            *number = f->number;
            here = f->session == c->session->serial && (f->devices >> c->device & 1);
            break;
        }
    pthread_mutex_unlock(&process->kernel_lock);
    return here;
}

static int ask_for_function(const char *api, const struct copy *copy, struct context *c,
                            const char *name, uint32_t number)
{
    REQUEST(look_up_function, LOOK_UP_FUNCTION, .slot = copy->slot, .name = (char *)(uintptr_t)name,
            .number = number);

    return session_command(c->session, api, &request);
}

static int look_up(const char *api, struct kernel_image *image, struct context *c, const char *name,
                   struct kernel_function *const *functions, uint32_t *number)
{
    struct copy copy = {0};

    RETURN_IF_ERROR(get_copy(api, image, c, functions, &copy));
    if (find_number(image, c, name, functions, number))
        return 0;
    if (*number >= EXECUTOR_FUNCTIONS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: more than %u functions of a binary", api,
                         EXECUTOR_FUNCTIONS);
    RETURN_IF_ERROR(ask_for_function(api, &copy, c, name, *number));
    if (*number == image->numbers)
        image->numbers++;
    return 0;
}

int kernel_image_look_up(const char *api, struct kernel_image *image, struct context *c,
                         const char *name, struct kernel_function *const *functions,
                         uint32_t *number)
{
    int error;

    if (strlen(name) >= EXECUTOR_NAME_BYTES)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the name of a kernel has at most %u bytes here", api,
                         EXECUTOR_NAME_BYTES - 1);
    pthread_mutex_lock(&looking_up);
    error = look_up(api, image, c, name, functions, number);
    pthread_mutex_unlock(&looking_up);
    return error;
}

/* --- launches --- */

static int check_launch(const char *api, const struct kernel_launch *launch, struct stream *s)
{
    if (stream_captures(s) || s->update)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: kernels of devices that are not simulated cannot be part of a graph: "
                         "launch them on a stream that does not record",
                         api);
    if (launch->size > EXECUTOR_ARGUMENTS || launch->n_placeholders > EXECUTOR_PLACEHOLDERS)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: a kernel has at most %u bytes of arguments and %u placeholders, and "
                         "not %zu and %zu: put more into device memory, and give its address",
                         api, EXECUTOR_ARGUMENTS, EXECUTOR_PLACEHOLDERS, launch->size,
                         launch->n_placeholders);
    return 0;
}

static struct executor_launch head_of(const struct kernel_launch *launch)
{
    struct executor_launch head = {.blocks = {launch->blocks, 1, 1},
                                   .threads = {1, 1, 1},
                                   .shared_bytes = launch->config.ubuf_size,
                                   .bytes = (uint32_t)launch->size,
                                   .placeholders = (uint32_t)launch->n_placeholders,
                                   .batch = launch->config.schem_mode,
                                   .on_device = (uintptr_t)launch->device_args,
                                   .limit_ns = launch->config.limit_ns};

    if (launch->simt) {
        memcpy(head.blocks, launch->simt->grid, sizeof(head.blocks));
        memcpy(head.threads, launch->simt->threads, sizeof(head.threads));
        head.shared_bytes = launch->simt->shared_bytes;
    }
    return head;
}

static size_t bytes_of(const struct kernel_launch *launch)
{
    return sizeof(struct executor_launch) +
           launch->n_placeholders * sizeof(struct executor_placeholder) +
           (launch->args ? launch->size : 0);
}

/* Returns its sum. */
static uint64_t write_launch(unsigned char *at, const struct kernel_launch *launch)
{
    struct executor_launch head = head_of(launch);
    unsigned char *to = at + sizeof(head);

    for (size_t i = 0; i < launch->n_placeholders; i++, to += sizeof(struct executor_placeholder))
        memcpy(to,
               &(struct executor_placeholder){launch->placeholders[i].addrOffset,
                                              launch->placeholders[i].dataOffset},
               sizeof(struct executor_placeholder));
    if (launch->args)
        memcpy(to, launch->args, launch->size);
    memcpy(at, &head, sizeof(head));
    return executor_launch_sum(&head, at + sizeof(head), bytes_of(launch) - sizeof(head));
}

static int submit(const char *api, const struct copy *copy, uint32_t number,
                  const struct kernel_launch *launch, struct stream *s)
{
    size_t size = bytes_of(launch);
    struct staging *b = FIND_OR_RETURN(staging_take, s, api, size);
    struct place at = copy_staged(b);
    struct task task = {.op = TASK_LAUNCH,
                        .object = copy->slot,
                        .generation = copy->generation,
                        .launch = {.function = number,
                                   .offset = place_remote_offset(&at),
                                   .size = size,
                                   .src = b->memory.remote,
                                   .src_generation = b->memory.remote_generation}};
    int error;

    task.launch.sum = write_launch(at.address, launch);
    profile_name_next(s, launch->kernel->name);
    error = stream_submit(s, api, &task);
    if (error != 0)
        profile_name_next(s, NULL);
    b->ctrl = s->ctrl;
    b->position = s->tail;
    staging_add(s->session, b);
    return error;
}

int kernel_image_launch(const char *api, const struct kernel_image *image, uint32_t number,
                        const struct kernel_launch *launch, struct stream *s)
{
    const struct copy *found;
    struct copy copy = {0};

    RETURN_IF_ERROR(check_launch(api, launch, s));
    pthread_mutex_lock(&process->kernel_lock);
    found = find_copy(image, s->session, s->device);
    if (found)
        copy = *found;
    pthread_mutex_unlock(&process->kernel_lock);
    if (!found)
        return error_set(ACL_ERROR_RT_INVALID_HANDLE,
                         "%s: device %d has lost the binary of the function: look it up again", api,
                         device_user_id(s->session, s->device));
    if (checked_runs() && launch->args)
        checked_kernel(s, launch->args, launch->size / sizeof(uint64_t));
    return submit(api, &copy, number, launch, s);
}
