#include "client/kernel/block_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "client/core/api_call.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"
#include "client/core/thread.h"

struct pool_thread {
    struct pool_thread *next; /* idle */
    pthread_cond_t given;
    void (*run)(void *arg); /* NULL: nothing */
    void *arg;
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

static CALLS_PROGRAM void *pool_main(void *arg)
{
    struct pool_thread *p __attribute__((cleanup(free_thread))) = arg;
    pid_t me = process_id();

    (void)thread_self(); /* so that what rooms keep of the thread goes with it */
    while (process_id() == me) {
        void (*run)(void *) = p->run;

        assert(run);
        p->run = NULL;
        run(p->arg);
        if (process_id() == me)
            await_run(p);
    }
    return NULL;
}

static bool start_thread(void (*run)(void *arg), void *arg)
{
    struct pool_thread *p = calloc(1, sizeof(*p));
    pthread_t id;

    if (!p)
        return false;
    pthread_cond_init(&p->given, NULL);
    p->run = run;
    p->arg = arg;
    if (thread_start(&id, pool_main, p, "npud-block", 0) != 0) {
        free_thread(&p);
        return false;
    }
    pthread_detach(id);
    return true;
}

bool block_pool_start(void (*run)(void *arg), void *arg)
{
    struct pool_thread *p;

    pthread_mutex_lock(&lock);
    p = idle;
    if (p) {
        LL_DELETE(idle, p);
        p->run = run;
        p->arg = arg;
        pthread_cond_signal(&p->given);
    }
    pthread_mutex_unlock(&lock);
    return p || start_thread(run, arg);
}

/* The threads are the parent's. */
static void forget_threads(void)
{
    pthread_mutex_init(&lock, NULL);
    idle = NULL;
}

const struct part block_pool_part = {.fork_child = forget_threads};
