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
    struct kernel_failed failed; /* but for run and name; args: on the heap */
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
        snprintf(text, size, "kernel %s: there is no memory for a thread that runs it", f->name);
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

void kernel_failure_keep(const struct kernel_failed *failed)
{
    struct kept fresh = {.failed = *failed};
    struct kept *k;

    describe_failure(failed, fresh.text, sizeof(fresh.text));
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

/* Under the lock. The latest one first. */
static struct kept *find_failure(int32_t stream, const uint32_t *task, int code)
{
    for (uint64_t i = count; i > 0 && count - i < KEPT; i--) {
        struct kept *k = &kept[(i - 1) % KEPT];

        if (k->failed.code == code && (stream < 0 || k->failed.stream == stream) &&
            (!task || k->failed.task == *task))
            return k;
    }
    return NULL;
}

bool kernel_failure_text(int32_t stream, int code, char *text, size_t size)
{
    struct kept *k;

    pthread_mutex_lock(&lock);
    k = find_failure(stream, NULL, code);
    if (k)
        snprintf(text, size, "%s", k->text);
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

/* --- of an exception --- */

static struct kept *find_of_exception(const aclrtExceptionInfo *info)
{
    return find_failure((int32_t)info->failure.stream, &info->failure.task, info->failure.code);
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
