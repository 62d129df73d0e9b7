#include "client/core/thread.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/core/lifecycle.h"
#include "client/core/ring_guard.h"

__thread struct thread *thread_current;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_free(void *arg)
{
    struct thread *t = arg;

    LIFECYCLE_WALK(thread_exit, t);
    ring_guard_free(t->guard);
    free(t->errors);
    free(t->shown);
    free(t->recent);
    free(t);
    thread_current = NULL;
}

/* The main thread never runs key destructors when it leaves through exit(). */
static __attribute__((destructor)) void free_last(void)
{
    if (thread_current)
        thread_free(thread_current);
}

static void make_key(void)
{
    pthread_key_create(&key, thread_free);
}

struct thread *thread_new(void)
{
    static struct thread dummy;
    struct thread *t = calloc(1, sizeof(*t));

    pthread_once(&once, make_key);
    if (!t)
        return &dummy;
    t->tid = (uint32_t)syscall(SYS_gettid);
    t->last_task = UINT32_MAX;
    pthread_setspecific(key, t);
    thread_current = t;
    return t;
}

struct ring_guard *thread_new_guard(void)
{
    struct thread *t = thread_self();

    /* The dummy is several threads', a guard is one's. */
    if (t == thread_current)
        t->guard = ring_guard_new();
    return t->guard;
}

int thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg, const char *name,
                 size_t stack)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int r;

    pthread_attr_init(&attr);
    if (stack > 0)
        pthread_attr_setstacksize(&attr, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(thread, &attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (r == 0)
        pthread_setname_np(*thread, name);
    return r;
}

/* The calling thread is another one than that of the parent which forked. */
static void renew_thread(void)
{
    struct thread *t = thread_self();

    t->tid = (uint32_t)syscall(SYS_gettid);
    t->last_task = UINT32_MAX;
    t->context = NULL;
    t->in_callback = t->in_kernel = false;
    t->res_stream = NULL;
    t->run.times = 0; /* they are the parent's */
}

const struct part thread_part = {.fork_child = renew_thread};
