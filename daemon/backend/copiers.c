#include "daemon/backend/copiers.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/backend/mapped.h"
#include "daemon/base/filled.h"
#include "daemon/base/worker.h"
#include "daemon/core/device.h"
#include "proto/util/futex.h"

#define COPIERS_MAX 64u
/* Lent at once: half a millisecond, beside which the way to a copier and back is short. */
#define LENT_BYTES (UINT64_C(4) << 20)

/*
 * `of` says whose the copier is: an engine takes it by a swap, and gives it back. In between, all
 * is that engine's, but what the thread writes until `back`.
 */
struct copier {
    struct errand errand; /* first */
    struct worker worker;
    struct copiers *all;
    _Atomic(struct work *) of; /* the work as its stream has it: its address alone. NULL: free */
    _Atomic uint32_t device;
    _Atomic bool cut;
    _Atomic uint32_t back; /* the thread is through; a futex for copiers_recall() */
    bool told;             /* by poll() */
    struct work work;      /* a copy; the thread's until `back` */
    uint64_t end;          /* of the bytes that are lent */
    uint64_t filled;       /* bytes of pages: base/filled.h */
    const struct mapped *dst, *src;
};

struct copiers {
    copiers_watch_fn watch;
    void *watch_arg;
    unsigned n;
    /* By device. */
    unsigned lent[DEVICES_MAX];
    int wake[DEVICES_MAX]; /* an eventfd, which outlives the engine: a copier may be late. -1 */
    bool watched[DEVICES_MAX];
    _Atomic bool asleep[DEVICES_MAX];
    struct copier copier[];
};

static enum errand_end move_lent(struct errand *errand)
{
    struct copier *c = (struct copier *)errand;
    struct copiers *all = c->all;
    uint32_t device = atomic_load_explicit(&c->device, memory_order_relaxed);

    /* Pages that had to be filled are charged before there are more. */
    do
        mapped_step(&c->work, c->dst, c->src);
    while (c->work.progress < c->end && !filled_any() &&
           !atomic_load_explicit(&c->cut, memory_order_relaxed));
    c->filled = filled_take();
    /*
     * From here on it may be lent again. Dekker with copiers_sleep(), which stores `asleep` and
     * then looks at `back`, and with a recall, which stores `cut` and then sleeps on `back`.
     */
    atomic_store(&c->back, 1);
    if (atomic_load(&c->cut))
        futex_wake_all(&c->back);
    if (atomic_load(&all->asleep[device]))
        eventfd_write(all->wake[device], 1);
    return ERRAND_GONE;
}

static unsigned default_number(void)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof(set), &set) < 0 ? 0 : CPU_COUNT(&set);

    return cpus < 4 ? 0 : (unsigned)cpus / 2 - 1;
}

static bool make_wakes(struct copiers *all, uint32_t devices)
{
    bool good = true;

    for (unsigned i = 0; i < DEVICES_MAX; i++)
        all->wake[i] = -1;
    for (unsigned i = 0; i < devices && good; i++) {
        all->wake[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        good = all->wake[i] >= 0;
    }
    return good;
}

struct copiers *copiers_new(unsigned n, uint32_t devices, copiers_watch_fn watch, void *arg)
{
    struct copiers *all;

    if (n == 0)
        n = default_number();
    if (n > COPIERS_MAX)
        n = COPIERS_MAX;
    all = calloc(1, sizeof(*all) + n * sizeof(all->copier[0]));
    if (!all)
        return NULL;
    all->watch = watch;
    all->watch_arg = arg;
    if (!make_wakes(all, n > 0 ? devices : 0)) {
        copiers_free(all);
        return NULL;
    }
    for (struct copier *c = all->copier; all->n < n; all->n++, c++) {
        c->all = all;
        c->worker = (struct worker)WORKER("copier", move_lent);
        if (worker_start(&c->worker) < 0)
            break;
    }
    return all;
}

void copiers_free(struct copiers *all)
{
    if (!all)
        return;
    for (unsigned i = 0; i < all->n; i++)
        worker_stop(&all->copier[i].worker);
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (all->wake[i] >= 0)
            close(all->wake[i]);
    free(all);
}

static bool can_wake(struct copiers *all, uint32_t device)
{
    if (!all->watched[device])
        all->watched[device] = all->watch(all->watch_arg, device, all->wake[device]) == 0;
    return all->watched[device];
}

static struct copier *take_free(struct copiers *all, struct work *work)
{
    for (unsigned i = 0; i < all->n; i++) {
        struct work *none = NULL;

        if (!atomic_load_explicit(&all->copier[i].of, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&all->copier[i].of, &none, work,
                                                    memory_order_acquire, memory_order_relaxed))
            return &all->copier[i];
    }
    return NULL;
}

bool copiers_lend(struct copiers *all, uint32_t device, struct work *work, const struct mapped *dst,
                  const struct mapped *src)
{
    uint64_t rest = work->size - work->progress;
    struct copier *c = all->n > 0 && can_wake(all, device) ? take_free(all, work) : NULL;

    if (!c)
        return false;
    atomic_store_explicit(&c->device, device, memory_order_relaxed);
    atomic_store_explicit(&c->cut, false, memory_order_relaxed);
    c->told = false;
    c->work = *work;
    c->end = work->progress + (rest < LENT_BYTES ? rest : LENT_BYTES);
    c->dst = dst;
    c->src = src;
    all->lent[device]++;
    worker_put(&c->worker, &c->errand); /* it is there until copiers_free() */
    return true;
}

static struct copier *find_lent(struct copiers *all, uint32_t device, const struct work *work)
{
    for (unsigned i = 0; all->lent[device] > 0 && i < all->n; i++)
        if (atomic_load_explicit(&all->copier[i].of, memory_order_relaxed) == work)
            return &all->copier[i];
    return NULL;
}

bool copiers_recall(struct copiers *all, uint32_t device, struct work *work, bool cut)
{
    struct copier *c = find_lent(all, device, work);

    if (!c)
        return true;
    if (cut)
        atomic_store(&c->cut, true);
    while (atomic_load(&c->back) == 0) {
        if (!cut)
            return false;
        futex_wait_until(&c->back, 0, NULL);
    }
    work->progress = c->work.progress;
    filled_add(c->filled);
    all->lent[device]--;
    atomic_store_explicit(&c->back, 0, memory_order_relaxed);
    atomic_store_explicit(&c->of, NULL, memory_order_release);
    return true;
}

/*
 * Its work is over, and nobody was told. What was lent by another device's engine may be lent anew
 * meanwhile: behind `back`, `device` is that of this loan, or of a later one, and no other thread
 * lends for this device now.
 */
static bool is_news(struct copier *c, uint32_t device)
{
    return atomic_load(&c->back) != 0 &&
           atomic_load_explicit(&c->device, memory_order_relaxed) == device && !c->told;
}

void copiers_poll(struct copiers *all, uint32_t device, void (*over)(struct work *work))
{
    for (unsigned i = 0; all->lent[device] > 0 && i < all->n; i++)
        if (is_news(&all->copier[i], device)) {
            all->copier[i].told = true;
            over(atomic_load_explicit(&all->copier[i].of, memory_order_relaxed));
        }
}

bool copiers_sleep(struct copiers *all, uint32_t device, bool asleep)
{
    bool over = false;

    if (all->n == 0)
        return true;
    atomic_store(&all->asleep[device], asleep);
    for (unsigned i = 0; asleep && all->lent[device] > 0 && i < all->n; i++)
        over |= is_news(&all->copier[i], device);
    if (over)
        atomic_store_explicit(&all->asleep[device], false, memory_order_relaxed);
    return !over;
}
