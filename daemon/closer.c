#include "daemon/closer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/log.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    int *fds;
    size_t n, size;
    bool stop;
    bool started;
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* Sockets refuse descriptors: nothing that is closed can be a client's. Set by the first socket that could not. */
static bool kernel_accepts_fds;

static void *closer_main(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "closer");
    pthread_mutex_lock(&closer.lock);
    for (;;) {
        int fd;

        while (closer.n == 0 && !closer.stop)
            pthread_cond_wait(&closer.more, &closer.lock);
        if (closer.n == 0)
            break;
        fd = closer.fds[--closer.n];
        pthread_mutex_unlock(&closer.lock);
        close(fd);
        pthread_mutex_lock(&closer.lock);
    }
    pthread_mutex_unlock(&closer.lock);
    return NULL;
}

int closer_start(void)
{
    int r = pthread_create(&closer.thread, NULL, closer_main, NULL);

    closer.started = r == 0;
    return -r;
}

void closer_stop(void)
{
    if (!closer.started)
        return;
    pthread_mutex_lock(&closer.lock);
    closer.stop = true;
    pthread_cond_signal(&closer.more);
    pthread_mutex_unlock(&closer.lock);
    pthread_join(closer.thread, NULL);
    free(closer.fds);
    closer.fds = NULL;
    closer.started = false;
}

void closer_refuse_fds(int socket)
{
    int off = 0;

    if (setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
        kernel_accepts_fds = true;
}

/* False: no memory. */
static bool enqueue(int fd)
{
    bool ok = true;

    pthread_mutex_lock(&closer.lock);
    if (closer.n == closer.size) {
        size_t size = closer.size ? 2 * closer.size : 64;
        int *fds = reallocarray(closer.fds, size, sizeof(int));

        ok = fds != NULL;
        if (ok) {
            closer.fds = fds;
            closer.size = size;
        }
    }
    if (ok) {
        closer.fds[closer.n++] = fd;
        pthread_cond_signal(&closer.more);
    }
    pthread_mutex_unlock(&closer.lock);
    return ok;
}

void closer_close(int fd)
{
    if (!kernel_accepts_fds || !closer.started || !enqueue(fd))
        close(fd);
}
