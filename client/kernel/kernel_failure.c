#include "client/kernel/kernel_failure.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/callback/exception.h"
#include "client/core/api_call.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/thread.h"
#include "client/kernel/kernel_fault.h"

#define KEPT      64u
#define TEXT_SIZE 320u

static struct kept {
    struct kernel_failed failed; /* but for ctrl, run and name; args: on the heap */
    uint64_t stream_name, context_name;
    uint64_t number; /* of the stream's failure, modulo 2^10 */
    char text[TEXT_SIZE];
} kept[KEPT];
static uint64_t count; /* failures so far: the latest is kept[(count - 1) % KEPT] */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- texts --- */

/* " in vector_step+0x12", or the offset in its file; "" if it is not known. */
static void describe_instruction(uintptr_t instruction, char *text, size_t size)
{
    Dl_info info;

    *text = '\0';
    if (instruction == 0 || !dladdr((void *)instruction, &info))
        return;
    if (info.dli_sname)
        snprintf(text, size, " in %s+0x%zx", info.dli_sname,
                 (size_t)(instruction - (uintptr_t)info.dli_saddr));
    else if (info.dli_fname)
        snprintf(text, size, " at 0x%zx of %s", (size_t)(instruction - (uintptr_t)info.dli_fbase),
                 info.dli_fname);
}

/* It was ended without a fault. */
static void describe_end(const struct kernel_failed *f, char *text, size_t size)
{
    const struct kernel_failure *failure = &f->run->failure;

    if (failure->thread_ended)
        snprintf(text, size, "kernel %s, block %u of %u: the kernel has ended its thread", f->name,
                 failure->block, f->run->blocks);
    else if (f->code == ACL_ERROR_RT_MEMORY_ALLOCATION)
        snprintf(text, size,
                 "kernel %s: no thread that runs it can be made: there is no memory, or there are "
                 "as many threads as the process or its user may have",
                 f->name);
    else
        snprintf(text, size,
                 "kernel %s was ended: it ran for longer than its time limit of %llu us", f->name,
                 (unsigned long long)(f->run->limit_ns / 1000));
}

static void describe_failure(const struct kernel_failed *f, char *text, size_t size)
{
    const struct kernel_failure *failure = &f->run->failure;
    char where[160];

    if (failure->signal == 0) {
        describe_end(f, text, size);
        return;
    }
    describe_instruction(failure->instruction, where, sizeof(where));
    if (failure->signal == SIGSEGV || failure->signal == SIGBUS)
        snprintf(text, size, "kernel %s, block %u of %u: %s at address 0x%zx%s", f->name,
                 failure->block, f->run->blocks, kernel_fault_name(failure->signal),
                 (size_t)failure->address, where);
    else
        snprintf(text, size, "kernel %s, block %u of %u: %s%s", f->name, failure->block,
                 f->run->blocks, kernel_fault_name(failure->signal), where);
}

/* --- keeping --- */

/* The stream is at the kernel: what fails next there is this. */
static void name_failure(struct kept *k, const struct stream_ctrl *ctrl)
{
    k->stream_name = atomic_load_explicit(&ctrl->stream_name, memory_order_relaxed);
    k->context_name = atomic_load_explicit(&ctrl->context_name, memory_order_relaxed);
    k->number = stream_error_next(atomic_load_explicit(&ctrl->error, memory_order_acquire));
}

void kernel_failure_keep(const struct kernel_failed *failed)
{
    struct kept fresh = {.failed = *failed};
    struct kept *k;

    name_failure(&fresh, failed->ctrl);
    describe_failure(failed, fresh.text, sizeof(fresh.text));
    fresh.failed.ctrl = NULL;
    fresh.failed.run = NULL;
    fresh.failed.name = NULL;
    fresh.failed.args = failed->size > 0 ? malloc(failed->size) : NULL;
    if (fresh.failed.args)
        memcpy((void *)(uintptr_t)fresh.failed.args, failed->args, failed->size);
    else
        fresh.failed.size = 0;
    pthread_mutex_lock(&lock);
    k = &kept[count++ % KEPT];
    free((void *)(uintptr_t)k->failed.args);
    *k = fresh;
    pthread_mutex_unlock(&lock);
}

/* The latest one first. */
#define FOREACH_KEPT(k)                                                                            \
    for (uint64_t i_ = count; i_ > 0 && count - i_ < KEPT && ((k) = &kept[(i_ - 1) % KEPT]); i_--)

/* Under the lock. */
static struct kept *find_failure(const struct stream_ctrl *ctrl, uint64_t error, bool of_context)
{
    uint64_t stream = atomic_load_explicit(&ctrl->stream_name, memory_order_relaxed);
    uint64_t context = atomic_load_explicit(&ctrl->context_name, memory_order_relaxed);
    struct kept *k;

    FOREACH_KEPT(k)
    if (k->failed.code == stream_error_code(error) &&
        (of_context ? k->context_name == context
                    : k->stream_name == stream && stream_error_has_number(error, k->number)))
        return k;
    return NULL;
}

bool kernel_failure_text(const struct stream_ctrl *ctrl, uint64_t error, bool of_context,
                         char *text, size_t size)
{
    struct kept *k;

    pthread_mutex_lock(&lock);
    k = find_failure(ctrl, error, of_context);
    if (k)
        snprintf(text, size, "%s", k->text);
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

/* --- of an exception --- */

/* Under the lock. */
static struct kept *find_of_exception(const aclrtExceptionInfo *info)
{
    struct kept *k;

    FOREACH_KEPT(k)
    if (k->failed.code == info->failure.code && k->failed.stream == (int32_t)info->failure.stream &&
        k->failed.task == info->failure.task)
        return k;
    return NULL;
}

void kernel_failure_tell(aclrtExceptionInfo *info)
{
    aclrtBinHandle binary;
    struct kept *k;

    pthread_mutex_lock(&lock);
    k = find_of_exception(info);
    binary = k ? k->failed.binary : NULL;
    pthread_mutex_unlock(&lock);
    if (binary)
        kernel_binary_tell(binary, info);
}

aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *func)
{
    CALL_SCOPE;
    struct kept *k;

    REQUIRE_OR(-1, info);
    REQUIRE(func);
    pthread_mutex_lock(&lock);
    k = find_of_exception(info);
    if (k && k->failed.function)
        *func = k->failed.function;
    else
        k = NULL;
    pthread_mutex_unlock(&lock);
    return k ? 0
             : error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtGetFuncHandleFromExceptionInfo: the task that failed was no kernel "
                         "that has a handle");
}

/* What the latest aclrtGetArgsFromExceptionInfo() of the thread has told. */
static __thread void *told_args;

static void *copy_args(const struct kept *k)
{
    void *copy = k->failed.size > 0 ? malloc(k->failed.size) : NULL;

    if (copy)
        memcpy(copy, k->failed.args, k->failed.size);
    return copy;
}

aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info, void **devArgsPtr,
                                       uint32_t *devArgsLen)
{
    CALL_SCOPE;
    struct kept *k;

    REQUIRE_OR(-1, info);
    REQUIRE(devArgsPtr);
    REQUIRE(devArgsLen);
    (void)thread_self(); /* so that the copy is freed with the thread */
    pthread_mutex_lock(&lock);
    k = find_of_exception(info);
    if (k) {
        free(told_args);
        told_args = copy_args(k);
        *devArgsPtr = told_args;
        *devArgsLen = told_args ? (uint32_t)k->failed.size : 0;
    }
    pthread_mutex_unlock(&lock);
    return k ? 0
             : error_set(-1, "aclrtGetArgsFromExceptionInfo: the task that failed was no kernel, "
                             "and has no arguments");
}

static void free_told(struct thread *unused)
{
    (void)unused;
    free(told_args);
    told_args = NULL;
}

static void forget_all(void)
{
    pthread_mutex_init(&lock, NULL);
    count = 0;
    memset(kept, 0, sizeof(kept));
}

const struct part kernel_failure_part = {.fork_child = forget_all, .thread_exit = free_told};
