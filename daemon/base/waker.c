#include "daemon/base/waker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "daemon/base/hash.h"
#include "daemon/base/schedule.h"
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
    _Atomic uint32_t *word;
    void *map;         /* of the word, to be unmapped afterwards; NULL: none */
    uint32_t left;     /* to be woken at most */
    bool again;        /* asked for while the thread wakes some */
    struct job *woken; /* sent afterwards; NULL: none */
    struct rest *prev, *next;
    UT_hash_handle hh; /* by word */
};

static struct waker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stop;
    struct rest *first; /* has its turn next */
    struct rest *by_word;
    unsigned n;
} waker = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Under the lock. */
static void free_rest(struct rest *rest)
{
    HASH_DEL(waker.by_word, rest);
    waker.n--;
    if (rest->map)
        munmap(rest->map, WAKER_PAGE);
    if (rest->woken)
        job_send(rest->woken);
    free(rest);
}

/* One turn of the first word. Under the lock, which it lets go of for that time. */
static void wake_some(void)
{
    struct rest *rest = waker.first;
    unsigned n;

    DL_DELETE(waker.first, rest);
    pthread_mutex_unlock(&waker.lock);
    n = futex_wake_some(rest->word, PER_TURN);
    pthread_mutex_lock(&waker.lock);
    if (rest->again)
        rest->left = SLEEPERS_MAX;
    else if (n < PER_TURN || rest->left <= PER_TURN)
        rest->left = 0;
    else
        rest->left -= PER_TURN;
    rest->again = false;
    if (rest->left > 0)
        DL_APPEND(waker.first, rest);
    else
        free_rest(rest);
}

static void *wake_rests(void *arg)
{
    pthread_mutex_lock(&waker.lock);
    while (waker.first || !waker.stop)
        if (waker.first)
            wake_some();
        else
            pthread_cond_wait(&waker.changed, &waker.lock);
    pthread_mutex_unlock(&waker.lock);
    return arg;
}

/* Under the lock. NULL: there is no thread to wake it, it has too much to do, or no memory. */
static struct rest *find_rest(_Atomic uint32_t *word)
{
    struct rest *rest;

    if (!waker.started)
        return NULL;
    HASH_FIND_PTR(waker.by_word, &word, rest);
    if (rest || waker.n == WORDS_MAX)
        return rest;
    rest = calloc(1, sizeof(*rest));
    if (!rest)
        return NULL;
    rest->word = word;
    HASH_ADD_PTR(waker.by_word, word, rest);
    if (!rest->hh.tbl) {
        free(rest);
        return NULL;
    }
    waker.n++;
    DL_APPEND(waker.first, rest);
    pthread_cond_signal(&waker.changed);
    return rest;
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
        rest->left = SLEEPERS_MAX;
    }
    pthread_mutex_unlock(&waker.lock);
    if (!rest)
        futex_wake_all(word);
}

/* If the thread wakes its sleepers already, it wakes all of them, and then unmaps the word. */
static bool unmap_later(_Atomic uint32_t *word, void *map)
{
    struct rest *rest;

    pthread_mutex_lock(&waker.lock);
    HASH_FIND_PTR(waker.by_word, &word, rest);
    if (rest) {
        rest->map = map;
        rest->again = true;
        rest->left = SLEEPERS_MAX;
    }
    pthread_mutex_unlock(&waker.lock);
    return rest != NULL;
}

void waker_wake_and_unmap(_Atomic uint32_t *word, void *map)
{
    if (unmap_later(word, map))
        return;
    waker_wake(word);
    if (!unmap_later(word, map))
        munmap(map, WAKER_PAGE);
}

/* Under the lock. */
static struct rest *rest_of(const _Atomic uint32_t *word)
{
    struct rest *rest;

    HASH_FIND_PTR(waker.by_word, &word, rest);
    return rest;
}

bool waker_wakes(const _Atomic uint32_t *word)
{
    bool wakes;

    pthread_mutex_lock(&waker.lock);
    wakes = rest_of(word) != NULL;
    pthread_mutex_unlock(&waker.lock);
    return wakes;
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

bool waker_await(const _Atomic uint32_t *word, struct job *woken)
{
    struct rest *rest;

    pthread_mutex_lock(&waker.lock);
    rest = rest_of(word);
    if (rest)
        rest->woken = woken;
    pthread_mutex_unlock(&waker.lock);
    return rest != NULL;
}

void waker_forget(const struct job *woken)
{
    struct rest *rest;

    pthread_mutex_lock(&waker.lock);
    for (rest = waker.by_word; rest; rest = rest->hh.next)
        if (rest->woken == woken)
            rest->woken = NULL;
    pthread_mutex_unlock(&waker.lock);
}

int waker_start(void)
{
    int r;

    waker.stop = false;
    r = pthread_create(&waker.thread, NULL, wake_rests, NULL);
    waker.started = r == 0;
    return -r;
}

void waker_stop(void)
{
    if (!waker.started)
        return;
    pthread_mutex_lock(&waker.lock);
    waker.stop = true;
    waker.started = false;
    pthread_cond_signal(&waker.changed);
    pthread_mutex_unlock(&waker.lock);
    pthread_join(waker.thread, NULL);
}
