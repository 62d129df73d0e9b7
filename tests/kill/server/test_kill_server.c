/*
 * The death of the real server at every place of daemon/base/kill_here.h that it passes.
 *
 * Two processes do a bit of everything that npud keeps (workload.h). The first time nothing dies,
 * which tells which places are passed and how often. Then, once for each of them, the server ends
 * itself with SIGKILL at the first pass, the second, one in the middle, and the last. The workload
 * must not notice: each process checks all that it gets. Afterwards npud has nothing, and its
 * keeper has as many descriptors as before.
 *
 * In each run the server is killed once between two steps as well, so that there is a recovery with
 * all kinds of record, and its places are passed, too. NPUD_TEST_TABLE=1 prints each place.
 *
 * Skipped under TSan: the same as test_kill.
 * Skipped under chaos: the server dies where this test says.
 * Runs long: 60 s.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/actor.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"
#include "tests/kill/server/kill_here_switch.h"
#include "tests/common/workload.h"

#define TRIES     3 /* how often an engine passes a place is up to the machine */
#define OFTEN     3 /* passes that another run has as well */
#define KILL_STEP 3 /* before it the server is killed: both processes have what they share */

static const struct {
    const char *name, *what;
} places[] = {
#define PLACE_ROW(name, what) {#name, what},
    KILL_PLACES(PLACE_ROW)
#undef PLACE_ROW
};

static struct kill_here_switch *kill_switch;
static char path[64];

static void make_switch(void)
{
    int fd;

    snprintf(path, sizeof(path), "/tmp/npud-kill-here.%d", (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(*kill_switch)), 0);
    kill_switch = mmap(NULL, sizeof(*kill_switch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(kill_switch, MAP_FAILED);
    close(fd);
    setenv("NPUD_KILL_HERE", path, 1);
}

static void start(void)
{
    make_switch();
    workload = child_share(sizeof(*workload));
    npud_start_restartable((const char *const[]){"--set=engine.spin_us=0", NULL});
    npud_await_sessions(0);
}

static void stop(void)
{
    npud_teardown();
    unlink(path);
}

/* One step of one process, and then of the other. */
static void run_steps(struct actor *first, struct actor *second)
{
    for (int i = 0; i < WORKLOAD_STEPS; i++) {
        if (i == KILL_STEP)
            npud_kill_server();
        actor_next_step(first);
        actor_await_step(first);
        actor_next_step(second);
        actor_await_step(second);
    }
}

/* What the keeper has is no one's but npud's: with no session it is as it was. */
static unsigned keeper_fds(void)
{
    return proc_usage(npud_keeper_pid()).fds;
}

/* Did the server die at the place? */
static bool run_workload(uint32_t place, uint32_t pass, unsigned keeper)
{
    struct actor first, second;

    memset(workload, 0, sizeof(*workload));
    memset(kill_switch, 0, sizeof(*kill_switch));
    atomic_store(&kill_switch->place, place);
    atomic_store(&kill_switch->pass, pass);
    atomic_store(&kill_switch->on, 1);
    actor_start(&first, first_main, NULL);
    actor_start(&second, second_main, NULL);
    workload->second = second.pid;
    run_steps(&first, &second);
    actor_end(&first);
    actor_end(&second);
    npud_expect_empty();
    if (keeper > 0)
        EVENTUALLY(keeper_fds() == keeper, "the keeper has %u descriptors, before %u", keeper_fds(),
                   keeper);
    atomic_store(&kill_switch->on, 0);
    return atomic_load(&kill_switch->died) != 0;
}

/* The n-th pass to try; 0: there are no more. */
static uint32_t choose_pass(uint32_t hits, unsigned n)
{
    const uint32_t passes[] = {1, 2, hits / 2 + 1, hits};
    unsigned found = 0;

    for (unsigned i = 0; i < 4; i++) {
        bool twice = passes[i] > hits;

        for (unsigned k = 0; k < i; k++)
            twice |= passes[k] == passes[i];
        if (!twice && found++ == n)
            return passes[i];
    }
    return 0;
}

static bool try_pass(uint32_t place, uint32_t pass, unsigned keeper)
{
    for (int i = 0; i < TRIES; i++)
        if (run_workload(place + 1, pass, keeper))
            return true;
    return false;
}

/* The server that has begun last has the keeper's full attention: its descriptors are all there. */
static unsigned count_before(void)
{
    run_workload(0, 0, 0);
    return keeper_fds();
}

#define PARTS 4 /* of the places: each test takes one */

START_TEST(every_place)
{
    unsigned keeper = count_before(), passed = 0, deaths = 0;
    uint32_t hits[KILL_PLACE_COUNT];

    ck_assert(!run_workload(0, 0, keeper));
    for (uint32_t p = 0; p < KILL_PLACE_COUNT; p++)
        hits[p] = atomic_load(&kill_switch->hits[p]);
    for (uint32_t p = (uint32_t)_i; p < KILL_PLACE_COUNT; p += PARTS) {
        unsigned died = 0, n = 0;
        uint32_t pass;

        passed += hits[p] > 0;
        for (; (pass = choose_pass(hits[p], n)) != 0; n++) {
            fprintf(stderr, "place %s, pass %u of %u\n", places[p].name, pass, hits[p]);
            died += try_pass(p, pass, keeper);
        }
        deaths += died;
        if (getenv("NPUD_TEST_TABLE"))
            printf("kill server | %-18s | %-50s | %5u passes, %u of %u died\n", places[p].name,
                   places[p].what, hits[p], died, n);
        ck_assert_msg(hits[p] < OFTEN || died > 0, "the server never dies at %s", places[p].name);
    }
    printf("kill server: %u places passed, %u deaths\n", passed, deaths);
    fflush(stdout);
}
END_TEST

/* The npud that is built with this program, whichever one the other tests are about. */
static void use_own_npud(void)
{
    char self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *tests;

    self[n > 0 ? n : 0] = '\0';
    tests = strstr(self, "/tests/kill/server/");
    if (!tests)
        return;
    *tests = '\0';
    setenv("NPUD_BINDIR", self, 1);
}

int main(void)
{
    Suite *suite = suite_create("kill server");
    TCase *t = suite_case(suite, "places", choose_effort(600, 1800), start, stop);

    use_own_npud();
    tcase_add_loop_test(t, every_place, 0, PARTS);
    return run_suite(suite);
}
