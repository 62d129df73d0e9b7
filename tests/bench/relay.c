/*
 * The least that two processes can do which wake each other through a third, as clients do through
 * an engine: A stores a word, the relay sees it, stores another one and wakes B. What rows 4 and 4b
 * cost beyond that is npud's own.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"
#include "tests/common/process.h"

static bool forward_number(struct page *page, unsigned direction)
{
    uint32_t n = atomic_load_explicit(&page->relay_in[direction], memory_order_acquire);

    if (n == atomic_load_explicit(&page->relay_out[direction], memory_order_relaxed))
        return false;
    tell(&page->relay_out[direction], n);
    return true;
}

static int relay_run(void *arg)
{
    struct page *page = arg;

    for (;;) {
        uint32_t bell = atomic_load_explicit(&page->relay_bell, memory_order_acquire);
        uint32_t mode = atomic_load_explicit(&page->relay_mode, memory_order_acquire);
        bool found = forward_number(page, 0);

        if (mode == RELAY_END)
            return 0;
        found |= forward_number(page, 1);
        if (found)
            continue;
        if (mode == RELAY_SPINS)
            relax();
        else
            futex_sleep(&page->relay_bell, bell);
    }
}

pid_t relay_start(struct page *page)
{
    return start_process(relay_run, page);
}

void relay_stop(struct page *page, pid_t pid)
{
    relay_set(page, RELAY_END);
    expect_success("relay", process_end(pid));
}

static void ring_bell(struct page *page)
{
    atomic_fetch_add(&page->relay_bell, 1);
    futex_wake(&page->relay_bell);
}

void relay_set(struct page *page, enum relay_mode mode)
{
    atomic_store_explicit(&page->relay_mode, mode, memory_order_release);
    ring_bell(page);
}

static void post_number(struct page *page, unsigned direction, uint32_t n)
{
    atomic_store_explicit(&page->relay_in[direction], n, memory_order_release);
    if (atomic_load_explicit(&page->relay_mode, memory_order_relaxed) != RELAY_SPINS)
        ring_bell(page);
}

void relay_play(struct page *page, unsigned rounds, bool first)
{
    unsigned mine = first ? 0 : 1;
    uint32_t n = atomic_load_explicit(&page->relay_in[mine], memory_order_relaxed);

    for (unsigned i = 0; i < rounds; i++) {
        n++;
        if (first)
            post_number(page, 0, n);
        sleep_until(&page->relay_out[1 - mine], n);
        if (!first)
            post_number(page, 1, n);
    }
}
