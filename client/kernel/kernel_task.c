/* A launch: a task of a stream, until it has run. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/callback/stream_work.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/dump/dump.h"
#include "client/kernel/kernel.h"
#include "client/kernel/kernel_call.h"
#include "client/kernel/kernel_failure.h"
#include "client/kernel/kernel_image.h"
#include "client/kernel/kernel_run.h"
#include "client/memory/checked_access.h"
#include "client/memory/direct.h"
#include "client/memory/kernel_access.h"
#include "client/memory/place.h"
#include "client/profile/profile.h"
#include "client/runtime/device.h"
#include "client/runtime/stream.h"
#include "proto/util/kill_point.h"

#define BLOCKS_MAX 65535u

struct kernel_task {
    struct stream_work work;
    struct session *session;
    const struct stream_ctrl *ctrl; /* of its stream */
    int32_t stream;                 /* its id */
    uint32_t device;
    uint32_t id; /* of the task */
    aclnpudKernel kernel;
    char *name;               /* kernel.name */
    aclrtFuncHandle function; /* or NULL */
    struct kernel_binary *binary;
    struct place device_args;
    bool reads_args;   /* from device_args, when it begins */
    bool ended;        /* another thread did: its stream is aborted, or ends */
    uint64_t begun_ns; /* 0: no trace runs */
    uint64_t told_ns;  /* when it began, of a graph's that is told of; else 0 */
    bool borrows;      /* the binary: the task that was recorded keeps it loaded */
    struct kernel_run run;
    struct kernel_config config;
    /* Of args, of tasks that are recorded, for kernels that take their place */
    aclrtPlaceHolderInfo *placeholders;
    size_t n_placeholders;
    size_t size;
    uint64_t *args;   /* `words`, or those of the task that this is a copy of */
    uint64_t words[]; /* KERNEL_WORDS at least, if the kernel takes words */
};

static struct kernel_task *task_of(struct stream_work *w)
{
    return (struct kernel_task *)(void *)w;
}

static void free_task(struct stream_work *w)
{
    struct kernel_task *t = task_of(w);

    if (!t->borrows)
        kernel_binary_unref(t->binary);
    pthread_mutex_destroy(&t->run.lock);
    pthread_cond_destroy(&t->run.left);
    free(t->placeholders);
    free(t->name);
    free(t);
}

/* --- running --- */

/* Of the binary that was loaded; NULL: none was. One that came from memory has no file. */
static const char *file_of(const struct kernel_task *t)
{
    Dl_info info;

    return t->binary && dladdr(t->kernel.function, &info) ? info.dli_fname : NULL;
}

static void dump_failure(const struct kernel_task *t, int code)
{
    dump_kernel_failure(&(struct dump_failure){.kernel = t->name,
                                               .binary = file_of(t),
                                               .device = device_user_id(t->session, t->device),
                                               .stream = t->stream,
                                               .task = t->id,
                                               .code = code,
                                               .block = t->run.failure.block,
                                               .blocks = t->run.blocks,
                                               .address = (const void *)t->run.failure.address,
                                               .args = t->args,
                                               .args_size = t->size});
}

static void keep_failure(const struct kernel_task *t, int code)
{
    dump_failure(t, code);
    kernel_failure_keep(
        &(struct kernel_failed){.ctrl = t->ctrl,
                                .stream = t->stream,
                                .task = t->id,
                                .device = t->device,
                                .code = code,
                                .run = &t->run,
                                .name = t->name,
                                .function = t->function,
                                .binary = t->binary ? kernel_binary_handle(t->binary) : NULL,
                                .args = t->args,
                                .size = t->size});
}

static void dump_data(const struct kernel_task *t, enum dump_when when)
{
    if (__builtin_expect(!dump_is_on(1u << DATA_DUMP), 1))
        return;
    dump_kernel_data_slow(&(struct dump_kernel){.name = t->name,
                                                .model = t->work.model,
                                                .execution = t->work.execution,
                                                .call = t->work.call,
                                                .device = device_user_id(t->session, t->device),
                                                .stream = t->stream,
                                                .task = t->id,
                                                .args = t->args,
                                                .args_size = t->size},
                          when);
}

static int read_args(struct kernel_task *t)
{
    struct place to = direct_own(t->args);

    return direct_copy_in_turn(t->session, "aclrtLaunchKernel", &to, &t->device_args, t->size);
}

static void tell_operator(const struct kernel_task *t)
{
    profile_operator_ran(&(struct profile_operator){.model = t->work.model,
                                                    .call = t->work.call,
                                                    .device = t->device,
                                                    .stream = t->stream,
                                                    .name = t->name,
                                                    .begin_ns = t->told_ns});
}

/* Also when the kernel has ended the thread; not in a child that was forked in the kernel. */
static void leave_kernel(struct kernel_task **tp)
{
    struct kernel_task *t = *tp;

    if (t->run.process != process_id())
        return;
    kernel_access_close(t->session);
    KILL_POINT(KERNEL_OVER);
    if (t->told_ns != 0)
        tell_operator(t);
    if (t->begun_ns != 0)
        trace_text(&t->session->trace, TRACE_KERNEL, t->begun_ns, t->name);
    t->work.code = atomic_load(&t->run.code);
    if (t->work.code == 0)
        dump_data(t, DUMP_OUTPUT);
    else if (!t->ended)
        keep_failure(t, t->work.code);
}

static void run_kernel(struct kernel_task *t)
{
    struct kernel_task *left __attribute__((cleanup(leave_kernel))) = t;

    (void)left;
    kernel_access_open(t->session);
    t->told_ns = profile_operator_begins(t->work.model, t->device);
    kernel_run(&t->run);
}

static int run_task(struct stream_work *w)
{
    struct kernel_task *t = task_of(w);

    t->begun_ns = trace_begin(&t->session->trace);
    if (t->reads_args)
        RETURN_IF_ERROR(read_args(t));
    dump_kernel_args(t->name, t->args, t->size, NULL, 0);
    dump_data(t, DUMP_INPUT);
    KILL_POINT(KERNEL_BEGINS);
    run_kernel(t);
    return t->work.code;
}

static void end_task(struct stream_work *w, int code)
{
    struct kernel_task *t = task_of(w);

    t->ended = true;
    kernel_run_end(&t->run, code);
}

/* --- launching --- */

static void init_run(struct kernel_task *t, uint32_t blocks, uint64_t limit_ns)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->run.lock, NULL);
    pthread_cond_init(&t->run.left, &attr);
    pthread_condattr_destroy(&attr);
    t->run.kernel = &t->kernel;
    t->run.args = t->args;
    t->run.blocks = blocks;
    t->run.limit_ns = limit_ns;
}

/* Each placeholder becomes the address of other bytes of the copy. */
static void fill_args(struct kernel_task *t, const struct kernel_launch *launch)
{
    if (launch->args)
        memcpy(t->args, launch->args, launch->size);
    for (size_t i = 0; i < launch->n_placeholders; i++) {
        const aclrtPlaceHolderInfo *p = &launch->placeholders[i];
        uint64_t address = (uintptr_t)t->args + p->dataOffset;

        memcpy((char *)t->args + p->addrOffset, &address, sizeof(address));
    }
}

static size_t words_of(const struct kernel_launch *launch)
{
    size_t words = launch->size / sizeof(uint64_t) + 1;

    return launch->kernel->call || words > KERNEL_WORDS ? words : KERNEL_WORDS;
}

static struct stream_work *copy_task(const struct stream_work *w, const struct stream *s,
                                     uint32_t task);

static void describe_task(const struct stream_work *w, struct work_description *d)
{
    const struct kernel_task *t = (const struct kernel_task *)(const void *)w;

    *d = (struct work_description){.name = t->name,
                                   .blocks = t->run.blocks,
                                   .args = t->args,
                                   .device_args = t->reads_args ? t->device_args.address : NULL,
                                   .size = t->size,
                                   .function = t->function};
}

static bool get_attribute(const struct stream_work *w, unsigned id,
                          aclrtLaunchKernelAttrValue *value)
{
    const struct kernel_task *t = (const struct kernel_task *)(const void *)w;

    return kernel_config_get(&t->config, id, value);
}

static struct stream_work *change_task(const struct stream_work *w, const char *api,
                                       const aclmdlRIKernelTaskParams *p, int *error);

static const struct stream_work kernel_work = {.kind = STREAM_WORK_KERNEL,
                                               .run = run_task,
                                               .end = end_task,
                                               .free = free_task,
                                               .copy = copy_task,
                                               .describe = describe_task,
                                               .change = change_task,
                                               .attribute = get_attribute};

/* For a graph: the arguments are those of the task that was recorded. */
static struct stream_work *copy_task(const struct stream_work *w, const struct stream *s,
                                     uint32_t task)
{
    const struct kernel_task *of = (const struct kernel_task *)(const void *)w;
    struct kernel_task *t = calloc(1, sizeof(*t));
    char *name = strdup(of->name);

    if (!t || !name) {
        free(t);
        free(name);
        return NULL;
    }
    t->work = kernel_work;
    t->session = of->session;
    t->ctrl = s->ctrl;
    t->stream = s->id;
    t->device = s->device;
    t->id = task;
    t->kernel = of->kernel;
    t->kernel.name = t->name = name;
    t->function = of->function;
    t->binary = of->binary;
    t->borrows = true;
    t->device_args = of->device_args;
    t->reads_args = of->reads_args;
    t->config = of->config;
    t->size = of->size;
    t->args = of->args;
    init_run(t, of->run.blocks, of->run.limit_ns);
    return &t->work;
}

/* The reference to the binary becomes the task's. Where it runs, the caller fills in. */
static struct kernel_task *make_task(const struct kernel_launch *launch)
{
    struct kernel_task *t = calloc(1, sizeof(*t) + words_of(launch) * sizeof(uint64_t));
    char *name = strdup(launch->kernel->name);

    if (!t || !name) {
        free(t);
        free(name);
        return NULL;
    }
    t->work = kernel_work;
    t->args = t->words;
    t->kernel = *launch->kernel;
    t->kernel.name = t->name = name;
    t->function = launch->function ? handle_of(HANDLE_FUNCTION, launch->function) : NULL;
    t->binary = launch->binary;
    t->config = launch->config;
    t->size = launch->size;
    init_run(t, launch->blocks, launch->config.limit_ns);
    fill_args(t, launch);
    return t;
}

static int check_launch(const char *api, const struct kernel_launch *launch, struct session *s,
                        uint32_t device)
{
    const struct kernel_function *f = launch->function;

    if (launch->blocks == 0 || launch->blocks > BLOCKS_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: numBlocks is %u, must be 1 to %u", api,
                         launch->blocks, BLOCKS_MAX);
    if (launch->size > UINT32_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: argsSize is %zu, must be at most %u", api,
                         launch->size, UINT32_MAX);
    if (f && (f->session != s->serial || !(f->devices >> device & 1)))
        return error_set(ACL_ERROR_RT_INVALID_HANDLE,
                         "%s: the function was not looked up on device %d: look it up there, and "
                         "after each aclrtResetDevice",
                         api, device_user_id(s, device));
    return 0;
}

/* For kernels that take the place of this one. False: no memory. */
static bool keep_placeholders(struct kernel_task *t, const struct kernel_launch *launch)
{
    size_t size = launch->n_placeholders * sizeof(*t->placeholders);

    if (size == 0)
        return true;
    t->placeholders = malloc(size);
    if (!t->placeholders)
        return false;
    memcpy(t->placeholders, launch->placeholders, size);
    t->n_placeholders = launch->n_placeholders;
    return true;
}

/* What memory the kernel may use, by its arguments: those that lie on a device, as they are now. */
static __attribute__((cold)) void write_down(struct stream *s, struct kernel_task *t)
{
    if (t->reads_args) {
        checked_access(s->session, s, NULL, &t->device_args, t->size);
        if (direct_read(s->session, "aclrtLaunchKernel", &t->device_args, t->args, t->size) != 0)
            return;
    }
    checked_kernel(s, t->args, t->size / sizeof(uint64_t));
}

/* The stream is locked. The reference to the binary is still the caller's if this fails. */
static int launch_locked(const char *api, const struct kernel_launch *launch, struct stream *s)
{
    struct kernel_task *t;
    struct place at;
    int error;

    RETURN_IF_ERROR(check_launch(api, launch, s->session, s->device));
    if (launch->device_args)
        RETURN_IF_ERROR(
            place_find(s->session, api, launch->device_args, launch->size, "argsData", &at));
    t = make_task(launch);
    if (t && (stream_captures(s) || s->update) && !keep_placeholders(t, launch)) {
        t->binary = NULL;
        free_task(&t->work);
        t = NULL;
    }
    if (!t)
        return error_no_memory(api);
    t->session = s->session;
    t->ctrl = s->ctrl;
    t->stream = s->id;
    t->device = s->device;
    t->reads_args = launch->device_args != NULL;
    if (t->reads_args)
        t->device_args = at;
    if (checked_runs() && !s->update)
        write_down(s, t);
    /* The stream stays locked: the task gets this id. */
    t->id = (uint32_t)s->tail + s->implicit;
    if (!stream_captures(s) && !s->update)
        profile_name_next(s, t->name);
    error = stream_work_launch(s, api, &t->work);
    if (error != 0) {
        profile_name_next(s, NULL);
        t->binary = NULL;
        free_task(&t->work);
    }
    return error;
}

/* The thread that runs a kernel has to reach the memory that it works with. */
static int check_runs_kernels(const char *api, const struct stream *s)
{
    const uint32_t device = s->device;

    if (!s->session->device_info[device].away)
        return 0;
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: device %u is no simulated one, and kernels of the host cannot reach its "
                     "memory: after aclrtSetDevice, load kernels for it (aclrtBinaryLoadFromFile)",
                     api, device);
}

/* By the device, if it has the kernel: it keeps the binary until the stream has passed. */
static int launch_on(const char *api, const struct kernel_launch *launch, struct stream *s)
{
    const struct kernel_image *image = kernel_binary_image(launch->binary);

    if (!image) {
        RETURN_IF_ERROR(check_runs_kernels(api, s));
        return launch_locked(api, launch, s);
    }
    RETURN_IF_ERROR(check_launch(api, launch, s->session, s->device));
    return kernel_image_launch(api, image, launch->function->number, launch, s);
}

int kernel_launch(const char *api, const struct kernel_launch *launch, aclrtStream stream)
{
    int error;
    struct stream *s = stream_lock(api, stream, &error);
    bool waits = false;

    if (s) {
        error = launch_on(api, launch, s);
        waits = error == 0 && stream_launch_blocks(s);
        stream_unlock(s);
    }
    if (error != 0 || kernel_binary_image(launch->binary))
        kernel_binary_unref(launch->binary);
    return waits ? stream_synchronize(api, stream, -1) : error;
}

/* --- in place of another kernel of a graph --- */

/* The reference to the binary is the launch's. NULL is a kernel that was launched by its record. */
static int find_changed(const char *api, const struct kernel_task *of, aclrtFuncHandle func,
                        struct kernel_launch *launch, struct kernel_function *copy)
{
    if (func)
        return kernel_launch_find(api, func, kernel_function_find, launch, copy);
    if (of->function)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: funcHandle is NULL", api);
    launch->kernel = &of->kernel;
    launch->binary = of->binary;
    pthread_mutex_lock(&process->kernel_lock);
    kernel_binary_ref(launch->binary);
    pthread_mutex_unlock(&process->kernel_lock);
    return 0;
}

/* The reference to the binary becomes the task's. NULL with *error set. */
static struct kernel_task *make_changed(const struct kernel_task *of, const char *api,
                                        const struct kernel_launch *launch, int *error)
{
    struct kernel_task *t = NULL;
    struct place at = {0};

    *error = check_launch(api, launch, of->session, of->device);
    if (*error == 0 && launch->device_args)
        *error = place_find_device(of->session, api, of->device, "args", launch->device_args,
                                   launch->size, &at);
    if (*error == 0) {
        t = make_task(launch);
        if (t)
            t->session = of->session;
        if (!t || !keep_placeholders(t, launch))
            *error = error_no_memory(api);
    }
    if (*error == 0) {
        t->ctrl = of->ctrl;
        t->stream = of->stream;
        t->device = of->device;
        t->id = of->id;
        t->reads_args = launch->device_args != NULL;
        t->device_args = at;
        return t;
    }
    if (t)
        free_task(&t->work);
    else
        kernel_binary_unref(launch->binary);
    return NULL;
}

struct stream_work *kernel_task_replace(const struct stream_work *of, const char *api,
                                        struct kernel_launch *launch, int *error)
{
    const struct kernel_task *before = (const struct kernel_task *)(const void *)of;
    struct kernel_task *t;

    launch->config = before->config;
    launch->size = before->size;
    launch->args = before->args;
    launch->placeholders = before->placeholders;
    launch->n_placeholders = before->n_placeholders;
    t = make_changed(before, api, launch, error);
    if (!t)
        return NULL;
    t->reads_args = before->reads_args;
    t->device_args = before->device_args;
    return &t->work;
}

static struct stream_work *change_task(const struct stream_work *w, const char *api,
                                       const aclmdlRIKernelTaskParams *p, int *error)
{
    const struct kernel_task *of = (const struct kernel_task *)(const void *)w;
    struct kernel_launch launch = {.blocks = p->numBlocks,
                                   .size = p->argsSize,
                                   .args = p->isHostArgs ? p->args : NULL,
                                   .device_args = p->isHostArgs ? NULL : p->args};
    struct kernel_function copy;
    struct kernel_task *t = NULL;

    *error = !p->args || p->argsSize == 0
                 ? error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: args is NULL, or argsSize 0", api)
                 : kernel_config_read(api, p->cfg, &launch.config);
    if (launch.args && launch.size == of->size) {
        launch.placeholders = of->placeholders;
        launch.n_placeholders = of->n_placeholders;
    }
    if (*error == 0)
        *error = find_changed(api, of, p->funcHandle, &launch, &copy);
    if (*error == 0)
        t = make_changed(of, api, &launch, error);
    return t ? &t->work : NULL;
}
