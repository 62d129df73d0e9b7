/* DPDK: an mbuf of a pool, and a ring, in one thread, without huge pages and devices. */
#include "tests/bench/peers/peers.h"

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

static void begin_dpdk(void)
{
    static char *argv[] = {"peers", "--no-huge",      "-m64",          "--no-pci", "--no-shconf",
                           "-l0",   "--no-telemetry", "--log-level=3", NULL};

    peers_check(rte_eal_init(8, argv) >= 0, "rte_eal_init");
}

static struct rte_mempool *pool;
static struct rte_ring *ring;
static struct rte_mbuf *mbuf_of_one;

static void allocate_and_free(void)
{
    struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

    peers_check(m != NULL, "rte_pktmbuf_alloc");
    rte_pktmbuf_free(m);
}

static void put_and_take(void)
{
    void *taken;

    peers_check(rte_ring_enqueue(ring, mbuf_of_one) == 0 && rte_ring_dequeue(ring, &taken) == 0,
                "rte_ring");
}

struct pair_cost dpdk_measure(void)
{
    struct pair_cost cost;

    begin_dpdk();
    pool = rte_pktmbuf_pool_create("peers", 1023, 250, 0, 256, SOCKET_ID_ANY);
    ring = rte_ring_create("peers", 64, SOCKET_ID_ANY, 0); /* many producers and consumers */
    peers_check(pool && ring, "DPDK");
    cost.buffer = peers_median(allocate_and_free);
    mbuf_of_one = rte_pktmbuf_alloc(pool);
    cost.ring = peers_median(put_and_take);
    return cost;
}
