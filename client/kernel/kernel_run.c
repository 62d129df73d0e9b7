/*
 * Compiled with -fexceptions: a kernel that ends its thread fails, and no other thread waits for
 * it.
 */
#include "client/kernel/kernel_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "client/kernel/block_pool.h"
#include "client/kernel/kernel_call.h"
#include "client/kernel/kernel_fault.h"
#include "client/memory/memory_key.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

static bool shall_end(const struct kernel_run *run)
{
    return atomic_load_explicit(&run->code, memory_order_relaxed) != 0;
}

/* --- how it fails --- */

enum failure_kind { FAILURE_FAULT, FAILURE_TRAP, FAILURE_TIMEOUT };

static int failure_code(const aclnpudKernel *kernel, enum failure_kind kind)
{
    static const int core[] = {ACL_ERROR_RT_AICORE_EXCEPTION, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION,
                               ACL_ERROR_RT_AICORE_TIMEOUT};
    static const int vector[] = {ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
                                 ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION,
                                 ACL_ERROR_RT_VECTOR_CORE_TIMEOUT};
    static const int cpu[] = {ACL_ERROR_RT_AICPU_EXCEPTION, ACL_ERROR_RT_AICPU_EXCEPTION,
                              ACL_ERROR_RT_AICPU_TIMEOUT};

    if (kernel->kind == ACL_KERNEL_TYPE_VECTOR)
        return vector[kind];
    return kernel->kind == ACL_KERNEL_TYPE_AICPU ? cpu[kind] : core[kind];
}

static int failure_of_signal(const aclnpudKernel *kernel, int signal)
{
    bool trap = signal == SIGTRAP || signal == SIGILL; /* __builtin_trap() makes either */

    return failure_code(kernel, trap ? FAILURE_TRAP : FAILURE_FAULT);
}

/* Under the lock. */
static void interrupt_all(const struct kernel_run *run)
{
    const struct kernel_thread *t;

    DL_FOREACH (run->threads, t)
        kernel_fault_interrupt(t);
}

/* The first failure counts, and makes all threads leave. */
static void fail_run(struct kernel_run *run, int code, const struct kernel_failure *failure)
{
    int none = 0;

    pthread_mutex_lock(&run->lock);
    if (atomic_compare_exchange_strong(&run->code, &none, code)) {
        run->failure = *failure;
        interrupt_all(run);
    }
    pthread_mutex_unlock(&run->lock);
}

void kernel_run_end(struct kernel_run *run, int code)
{
    bool asked = shall_end(run);

    fail_run(run, code, &(struct kernel_failure){0});
    if (!asked)
        return;
    pthread_mutex_lock(&run->lock);
    interrupt_all(run);
    pthread_mutex_unlock(&run->lock);
}

/* --- memory of a block --- */

struct block_memory {
    struct block_memory *next;
    _Alignas(64) unsigned char bytes[];
};

static void free_block_memory(struct kernel_thread *t)
{
    struct block_memory *m;

    while ((m = t->memory)) {
        t->memory = m->next;
        free(m);
    }
}

/* The calling thread's, if it is inside of a kernel. A child that was forked there is not. */
static struct kernel_thread *find_inside(void)
{
    struct kernel_thread *t = kernel_thread_current;

    return t && t->inside && t->process == process_id() ? t : NULL;
}

void *aclnpudBlockMemory(size_t size)
{
    struct kernel_thread *t = find_inside();
    struct block_memory *m = NULL;

    if (!t)
        return NULL;
    kernel_hold_begin(t);
    if (size < SIZE_MAX / 2)
        m = aligned_alloc(64, (sizeof(*m) + size + 63) / 64 * 64);
    if (m) {
        memset(m->bytes, 0, size);
        LL_PREPEND(t->memory, m);
    }
    kernel_hold_end(t);
    if (!m)
        kernel_fault_leave(t, SIGTRAP);
    return m->bytes;
}

/* --- blocks that wait for each other --- */

/* Under the lock: the round is over if all blocks have come or returned. */
static void end_round(struct kernel_run *run)
{
    if (run->arrived == 0 || run->arrived + atomic_load(&run->returned) < run->blocks)
        return;
    run->arrived = 0;
    atomic_fetch_add(&run->round, 1);
    futex_wake_all(&run->round);
}

/*
 * A block has returned: if it does not see that others sync, the first of them sees that it has
 * returned. Both are stored before the other is loaded, all seq_cst.
 */
static void count_returned(struct kernel_run *run)
{
    atomic_fetch_add(&run->returned, 1);
    if (!atomic_load(&run->syncs))
        return;
    pthread_mutex_lock(&run->lock);
    end_round(run);
    pthread_mutex_unlock(&run->lock);
}

void aclnpudBlockSync(void)
{
    struct kernel_thread *t = find_inside();
    struct kernel_run *run;
    uint32_t round;
    bool all;

    if (!t)
        return;
    run = t->run;
    kernel_hold_begin(t);
    atomic_store(&run->syncs, true);
    pthread_mutex_lock(&run->lock);
    all = !run->short_of_threads && run->blocks <= KERNEL_BLOCKS_AT_ONCE;
    round = atomic_load(&run->round);
    run->arrived += all;
    end_round(run);
    pthread_mutex_unlock(&run->lock);
    kernel_hold_end(t);
    if (!all)
        kernel_fault_leave(t, SIGTRAP);
    while (atomic_load(&run->round) == round)
        futex_wait_until(&run->round, round, NULL);
}

const aclnpudBlock *aclnpudBlockSelf(void)
{
    static const aclnpudBlock alone = {.num = 1, .subNum = 1};
    struct kernel_thread *t = find_inside();

    return t ? &t->block : &alone;
}

/* --- printing --- */

static int print_text(const char *text, size_t length)
{
    struct kernel_thread *t = find_inside();
    size_t n;

    if (t)
        kernel_hold_begin(t);
    n = fwrite(text, 1, length, stdout);
    if (t)
        kernel_hold_end(t);
    return n == length ? (int)n : -1;
}

/*
 * The text is made before the hold: a string that cannot be read is a fault of the kernel, and
 * takes no lock of stdio with it.
 */
int aclnpudKernelPrint(const char *format, ...)
{
    char text[4096];
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (n < 0)
        return n;
    return print_text(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* --- one block --- */

/* Also when the kernel has ended its thread. */
static void leave_block(struct kernel_thread **tp)
{
    struct kernel_thread *t = *tp;
    struct kernel_run *run = t->run;

    if (t->process != process_id())
        return;
    if (t->inside) {
        t->inside = 0;
        fail_run(run, failure_code(run->kernel, FAILURE_FAULT),
                 &(struct kernel_failure){.block = t->block.index, .thread_ended = true});
    }
    memory_key_open(false);
    thread_self()->in_callback = thread_self()->in_kernel = false;
    free_block_memory(t);
    count_returned(run);
}

/*
 * A signal that comes before `inside` is stored finds that out, and the look at the code after it
 * finds what the signal was sent for.
 */
static CALLS_PROGRAM void run_block(struct kernel_thread *t, struct kernel_run *run, uint32_t block)
{
    struct kernel_thread *left __attribute__((cleanup(leave_block))) = t;

    (void)left;
    t->block.index = block;
    t->signal = t->stays = 0;
    thread_self()->in_callback = thread_self()->in_kernel = true;
    memory_key_open(true);
    if (sigsetjmp(t->jump, 0) == 0) {
        t->inside = 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (!shall_end(run))
            kernel_call(run->kernel, run->args);
    }
    t->inside = 0;
    t->holds = 0;
    if (t->signal != 0)
        fail_run(run, failure_of_signal(run->kernel, t->signal),
                 &(struct kernel_failure){.signal = t->signal,
                                          .block = block,
                                          .address = t->address,
                                          .instruction = t->instruction});
}

/* --- threads --- */

static void run_on_pool(void *arg);

/* Another thread for it, if there are blocks that it could run. */
static bool start_another(struct kernel_run *run)
{
    bool started = false;
    uint32_t most = run->blocks < KERNEL_BLOCKS_AT_ONCE ? run->blocks : KERNEL_BLOCKS_AT_ONCE;

    pthread_mutex_lock(&run->lock);
    if (run->started < most && !run->short_of_threads && !shall_end(run) &&
        atomic_load_explicit(&run->next, memory_order_relaxed) < run->blocks) {
        started = block_pool_start(run_on_pool, run);
        run->started += started;
        run->inside += started;
        run->short_of_threads = !started;
    }
    pthread_mutex_unlock(&run->lock);
    return started;
}

/* Until a thread has left, or this time (CLOCK_MONOTONIC). False: it has come. Under the lock. */
static bool await_one(struct kernel_run *run, uint64_t until)
{
    const struct timespec deadline = timespec_from_ns(until);

    return pthread_cond_timedwait(&run->left, &run->lock, &deadline) == 0;
}

/* Under the lock. Once it shall end: until no thread is in it, or another one sees to that. */
static void insist(struct kernel_run *run)
{
    if (run->insisted)
        return;
    run->insisted = true;
    while (run->threads)
        if (!await_one(run, clock_ns() + KERNEL_INSIST_NS))
            interrupt_all(run);
    run->insisted = false;
}

static void leave_run(struct kernel_thread **tp)
{
    struct kernel_thread *t = *tp;
    struct kernel_run *run = t->run;

    if (t->process != process_id())
        return;
    pthread_mutex_lock(&run->lock);
    DL_DELETE(run->threads, t);
    t->run = NULL;
    pthread_cond_broadcast(&run->left);
    if (shall_end(run))
        insist(run);
    run->inside--;
    pthread_cond_broadcast(&run->left);
    pthread_mutex_unlock(&run->lock);
}

static void run_blocks(struct kernel_run *run, struct kernel_thread *t)
{
    struct kernel_thread *left __attribute__((cleanup(leave_run))) = t;
    uint32_t block;

    (void)left;
    t->block = (aclnpudBlock){.num = run->blocks, .subNum = 1};
    pthread_mutex_lock(&run->lock);
    t->run = run;
    t->code = &run->code;
    t->function = run->kernel->function;
    DL_APPEND(run->threads, t);
    pthread_mutex_unlock(&run->lock);
    block = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
    if (block + 1 < run->blocks)
        start_another(run);
    while (block < run->blocks && !shall_end(run)) {
        run_block(t, run, block);
        if (t->process != process_id())
            return;
        block = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
    }
}

static void run_on_pool(void *arg)
{
    struct kernel_thread *t = kernel_thread_self();
    struct kernel_run *run = arg;

    if (t) {
        run_blocks(run, t);
        return;
    }
    kernel_run_end(run, ACL_ERROR_RT_MEMORY_ALLOCATION);
    pthread_mutex_lock(&run->lock);
    run->inside--;
    pthread_cond_broadcast(&run->left);
    pthread_mutex_unlock(&run->lock);
}

/* Until all threads have left. At the limit, they shall. */
static void await_threads(struct kernel_run **rp)
{
    struct kernel_run *run = *rp;
    uint64_t at = run->limit_ns == 0 ? 0 : clock_ns() + run->limit_ns;

    if (run->process != process_id())
        return;
    pthread_mutex_lock(&run->lock);
    while (run->inside > 0) {
        if (shall_end(run))
            insist(run);
        if (run->inside > 0 && (run->limit_ns == 0 || shall_end(run)))
            pthread_cond_wait(&run->left, &run->lock);
        if (run->inside == 0 || run->limit_ns == 0 || shall_end(run) || await_one(run, at))
            continue;
        pthread_mutex_unlock(&run->lock);
        kernel_run_end(run, failure_code(run->kernel, FAILURE_TIMEOUT));
        pthread_mutex_lock(&run->lock);
    }
    pthread_mutex_unlock(&run->lock);
}

void kernel_run(struct kernel_run *run)
{
    struct kernel_run *awaited __attribute__((cleanup(await_threads))) = run;
    struct kernel_thread *t = kernel_thread_self();

    (void)awaited;
    run->process = process_id();
    if (!t) {
        kernel_run_end(run, ACL_ERROR_RT_MEMORY_ALLOCATION);
        return;
    }
    kernel_fault_prepare();
    if (run->limit_ns > 0) {
        /* Without a second thread no limit would hold. */
        if (!start_another(run))
            kernel_run_end(run, ACL_ERROR_RT_MEMORY_ALLOCATION);
        return;
    }
    pthread_mutex_lock(&run->lock);
    run->started++;
    run->inside++;
    pthread_mutex_unlock(&run->lock);
    run_blocks(run, t);
}
