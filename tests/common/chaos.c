#include "tests/common/chaos.h"

#include <check.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "tests/common/chance.h"
#include "tests/common/child.h"
#include "tests/common/proc.h"

#define LOOK_NS (1 * NSEC_PER_MSEC) /* for the next server */
/* Deaths in recovery in a row. The next one serves before it dies: a recovery that takes longer
 * than the mean time would never end. */
#define DEATHS_IN_RECOVERY 4

/* Shared with the killer, so that the test needs no descriptor for it. */
struct chaos {
    _Atomic uint32_t kills;
    _Atomic int32_t ended; /* a server that the killer has not killed; 0: there was none */
};

static struct {
    struct chaos *shared;
    pid_t killer; /* 0: there is none */
    uint64_t seed;
} chaos;

static double mean_ms(void)
{
    const char *text = getenv("NPUD_CHAOS");

    return text ? atof(text) : 0;
}

bool chaos_is_on(void)
{
    return mean_ms() > 0;
}

/* --- the killer --- */

static int timer = -1;

static void set_timer(uint64_t ns)
{
    struct itimerspec spec = {
        .it_value = {.tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC)}};

    timerfd_settime(timer, 0, &spec, NULL);
}

static void await_timer(void)
{
    uint64_t n;

    if (read(timer, &n, sizeof(n)) < 0)
        _exit(1);
}

/* Of a killed one only the remains may be there; the next one has its name when it may go. */
static int await_server(pid_t supervisor, pid_t *pid)
{
    for (;;) {
        int fd = -1;

        *pid = proc_child_named(supervisor, "npud");
        if (*pid != 0)
            fd = (int)syscall(SYS_pidfd_open, *pid, 0);
        if (fd >= 0 && proc_child_named(supervisor, "npud") == *pid)
            return fd;
        if (fd >= 0)
            close(fd);
        set_timer(LOOK_NS);
        await_timer();
    }
}

/* Without memory, so that each instruction of npud is as likely as any other, also in recovery. */
static uint64_t draw_ns(uint64_t *rng, double mean)
{
    double u = ((double)(draw_random(rng) >> 11) + 1) / 9007199254740993.0;

    return (uint64_t)(-log(u) * mean * (double)NSEC_PER_MSEC) + 1;
}

/* Until the time comes, or the server has ended by itself: then false. */
static bool server_lives_on(int server)
{
    struct pollfd p[] = {{.fd = timer, .events = POLLIN}, {.fd = server, .events = POLLIN}};

    poll(p, 2, -1);
    return !(p[1].revents & POLLIN);
}

static void await_end(int server)
{
    struct pollfd p = {.fd = server, .events = POLLIN};

    poll(&p, 1, -1);
    close(server);
}

/* The supervisor starts the next standby then. */
static bool serves(pid_t supervisor)
{
    return proc_child_named(supervisor, "npud-standby") != 0;
}

/* Or until it has ended by itself. */
static void await_service(pid_t supervisor, int server)
{
    for (bool lives = true; lives && !serves(supervisor);) {
        set_timer(LOOK_NS);
        lives = server_lives_on(server);
    }
}

static _Noreturn void kill_for_ever(pid_t supervisor, double mean)
{
    uint64_t rng = chaos.seed;
    unsigned in_recovery = 0;

    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    for (;;) {
        pid_t pid;
        int server = await_server(supervisor, &pid);

        if (in_recovery >= DEATHS_IN_RECOVERY)
            await_service(supervisor, server);
        set_timer(draw_ns(&rng, mean));
        if (server_lives_on(server)) {
            in_recovery = serves(supervisor) ? 0 : in_recovery + 1;
            syscall(SYS_pidfd_send_signal, server, SIGKILL, NULL, 0);
            atomic_fetch_add(&chaos.shared->kills, 1);
        } else {
            atomic_store(&chaos.shared->ended, pid);
        }
        await_end(server);
    }
}

/* Nothing that the test waits for the end of is the killer's, too. */
static _Noreturn void run_killer(pid_t test, pid_t supervisor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "chaos");
    if (getppid() != test)
        _exit(0);
    signal(SIGALRM, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    kill_for_ever(supervisor, mean_ms());
}

/* --- the test --- */

static uint64_t choose_seed(void)
{
    const char *text = getenv("NPUD_CHAOS_SEED");

    return text ? strtoull(text, NULL, 0) : clock_ns() ^ (uint64_t)getpid() << 32;
}

void chaos_begin(pid_t supervisor)
{
    pid_t test = getpid();

    if (!chaos_is_on())
        return;
    ck_assert_int_eq(chaos.killer, 0);
    if (!chaos.shared)
        chaos.shared = child_share(sizeof(*chaos.shared));
    memset(chaos.shared, 0, sizeof(*chaos.shared));
    chaos.seed = choose_seed();
    printf("chaos: NPUD_CHAOS_SEED=%llu\n", (unsigned long long)chaos.seed);
    fflush(stdout);
    chaos.killer = fork();
    ck_assert_int_ge(chaos.killer, 0);
    if (chaos.killer == 0)
        run_killer(test, supervisor);
}

bool chaos_end(void)
{
    pid_t ended;

    if (chaos.killer == 0)
        return false;
    kill(chaos.killer, SIGKILL);
    waitpid(chaos.killer, NULL, 0);
    chaos.killer = 0;
    ended = atomic_load(&chaos.shared->ended);
    printf("chaos: %u kills\n", atomic_load(&chaos.shared->kills));
    fflush(stdout);
    ck_assert_msg(ended == 0, "the server (pid %d) has ended by itself", (int)ended);
    return true;
}
