#include "client/kernel/block_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/thread.h"
#include "client/kernel/kernel_fault.h"

struct pool_thread {
    struct pool_thread *next; /* idle */
    pthread_cond_t given;
    struct kernel_run *run; /* NULL: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool_thread *idle; /* the one that has run last is first: its caches are warm */

static void await_run(struct pool_thread *p)
{
    pthread_mutex_lock(&lock);
    LL_PREPEND(idle, p);
    while (!p->run)
        pthread_cond_wait(&p->given, &lock);
    pthread_mutex_unlock(&lock);
}

static void free_thread(struct pool_thread **pp)
{
    pthread_cond_destroy(&(*pp)->given);
    free(*pp);
}

static void *pool_main(void *arg)
{
    struct pool_thread *p __attribute__((cleanup(free_thread))) = arg;
    struct kernel_thread *t = kernel_thread_self();
    pid_t me = process_id();

    (void)thread_self();
    while (process_id() == me) {
        struct kernel_run *run = p->run;

        /* kernel_run_blocks() leaves the run, which is gone then. */
        p->run = NULL;
        if (t)
            kernel_run_blocks(run, t);
        else
            kernel_run_decline(run);
        if (process_id() == me)
            await_run(p);
    }
    return NULL;
}

static bool start_thread(struct kernel_run *run)
{
    struct pool_thread *p = calloc(1, sizeof(*p));
    pthread_t id;

    if (!p)
        return false;
    pthread_cond_init(&p->given, NULL);
    p->run = run;
    if (thread_start(&id, pool_main, p, "npud-block", 0) != 0) {
        free_thread(&p);
        return false;
    }
    pthread_detach(id);
    return true;
}

bool block_pool_start(struct kernel_run *run)
{
    struct pool_thread *p;

    pthread_mutex_lock(&lock);
    p = idle;
    if (p) {
        LL_DELETE(idle, p);
        p->run = run;
        pthread_cond_signal(&p->given);
    }
    pthread_mutex_unlock(&lock);
    return p || start_thread(run);
}

/* The threads are the parent's. */
static void forget_threads(void)
{
    pthread_mutex_init(&lock, NULL);
    idle = NULL;
}

const struct part block_pool_part = {.fork_child = forget_threads};
