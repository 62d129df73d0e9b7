#include "daemon/base/waker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/hash.h"
#include "daemon/base/worker.h"
#include "proto/util/futex.h"

/* Of a word, before the next one has its turn. */
#define PER_TURN 64
/* Words with sleepers left. Each has had more than WAKER_AT_ONCE of them. */
#define WORDS_MAX 4096
/*
 * The kernel wakes the threads first that have slept longest. A thread that goes to sleep again
 * meanwhile stands behind them, and would be woken once more. After so many wake-ups, all threads
 * that slept when waker_wake() was called have been woken.
 */
#define SLEEPERS_MAX (1u << 20)

struct rest {
    struct errand errand;
    _Atomic uint32_t *word;
    uint32_t remaining; /* to be woken at most */
    bool again;         /* asked for while the thread wakes some */
    UT_hash_handle hh;  /* by word */
};

static enum errand_end wake_some(struct errand *errand);

static struct {
    struct worker worker;
    pthread_mutex_t lock; /* of what follows */
    struct rest *by_word;
    unsigned n;
} waker = {.worker = WORKER("waker", wake_some), .lock = PTHREAD_MUTEX_INITIALIZER};

/* One turn of a word. */
static enum errand_end wake_some(struct errand *errand)
{
    struct rest *rest = (struct rest *)errand; /* its first member */
    unsigned n = futex_wake_some(rest->word, PER_TURN);
    enum errand_end end = ERRAND_AGAIN;

    pthread_mutex_lock(&waker.lock);
    if (rest->again) {
        rest->remaining = SLEEPERS_MAX;
    } else if (n < PER_TURN || rest->remaining <= PER_TURN) {
        HASH_DEL(waker.by_word, rest);
        waker.n--;
        end = ERRAND_DONE;
    } else {
        rest->remaining -= PER_TURN;
    }
    rest->again = false;
    pthread_mutex_unlock(&waker.lock);
    return end;
}

/* Under the lock. NULL: there is no thread to wake it, it has too much to do, or no memory. */
static struct rest *find_rest(_Atomic uint32_t *word)
{
    struct rest *rest;

    HASH_FIND_PTR(waker.by_word, &word, rest);
    if (rest || waker.n == WORDS_MAX)
        return rest;
    rest = calloc(1, sizeof(*rest));
    if (!rest)
        return NULL;
    rest->word = word;
    HASH_ADD_PTR(waker.by_word, word, rest);
    if (rest->hh.tbl && worker_put(&waker.worker, &rest->errand)) {
        waker.n++;
        return rest;
    }
    if (rest->hh.tbl)
        HASH_DEL(waker.by_word, rest);
    free(rest);
    return NULL;
}

void waker_wake(_Atomic uint32_t *word)
{
    struct rest *rest;

    if (futex_wake_some(word, WAKER_AT_ONCE) < WAKER_AT_ONCE)
        return;
    pthread_mutex_lock(&waker.lock);
    rest = find_rest(word);
    if (rest) {
        rest->again = true;
        rest->remaining = SLEEPERS_MAX;
    }
    pthread_mutex_unlock(&waker.lock);
    if (!rest)
        futex_wake_all(word);
}

bool waker_wakes_in(const void *from, size_t bytes)
{
    const struct rest *rest;
    bool wakes = false;

    pthread_mutex_lock(&waker.lock);
    for (rest = waker.by_word; rest && !wakes; rest = rest->hh.next)
        wakes = (uintptr_t)rest->word - (uintptr_t)from < bytes;
    pthread_mutex_unlock(&waker.lock);
    return wakes;
}

int waker_start(void)
{
    return worker_start(&waker.worker);
}

void waker_stop(void)
{
    worker_stop(&waker.worker);
}
