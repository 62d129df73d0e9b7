#include "tests/bench/helper.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/common/process.h"

/* --- raw primitives --- */

void futex_sleep(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void tell(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    futex_wake(word);
}

void sleep_until(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        futex_sleep(word, value - 1);
}

void relax(void)
{
    let_other_run();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void spin_until(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        relax();
}

static const cpu_set_t *allowed_cpus(void)
{
    static cpu_set_t set;

    if (CPU_COUNT(&set) == 0 && sched_getaffinity(0, sizeof(set), &set) < 0)
        die("sched_getaffinity: %m");
    return &set;
}

int cpu_count(void)
{
    return CPU_COUNT(allowed_cpus());
}

bool one_cpu;

static __attribute__((constructor)) void look_at_cpus(void)
{
    one_cpu = cpu_count() == 1;
}

void pin(int nth)
{
    cpu_set_t set = *allowed_cpus();

    for (int cpu = 0, n = 0; nth >= 0 && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && n++ != nth)
            CPU_CLR(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        die("sched_setaffinity: %m");
}

uint64_t sleeps_so_far(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_nvcsw;
}

/* --- games --- */

static void spin_play(struct page *page, unsigned rounds, bool first)
{
    uint32_t n = atomic_load_explicit(first ? &page->ping : &page->pong, memory_order_relaxed);

    for (unsigned i = 0; i < rounds; i++) {
        n++;
        if (first) {
            atomic_store_explicit(&page->ping, n, memory_order_release);
            spin_until(&page->pong, n);
        } else {
            spin_until(&page->ping, n);
            atomic_store_explicit(&page->pong, n, memory_order_release);
        }
    }
}

static void futex_play(struct page *page, unsigned rounds, bool first)
{
    uint32_t n = atomic_load_explicit(first ? &page->ping : &page->pong, memory_order_relaxed);

    for (unsigned i = 0; i < rounds; i++) {
        n++;
        if (first) {
            tell(&page->ping, n);
            sleep_until(&page->pong, n);
        } else {
            sleep_until(&page->ping, n);
            tell(&page->pong, n);
        }
    }
}

static void play_game(struct page *page, enum game game, int socket, unsigned rounds, bool first)
{
    switch (game) {
    case GAME_SPIN:
        spin_play(page, rounds, first);
        break;
    case GAME_FUTEX:
        futex_play(page, rounds, first);
        break;
    case GAME_RELAY:
        relay_play(page, rounds, first);
        break;
    case GAME_PACKET:
        packet_play(socket, rounds, first, true);
        break;
    case GAME_PACKET_PLAIN:
        packet_play(socket, rounds, first, false);
        break;
    case GAME_IPC:
        ipc_play(rounds, first);
        break;
    case GAME_OVER:
        break;
    }
}

/* --- the helper --- */

static void follow_orders(struct page *page, struct seat *seat, int socket)
{
    bool first = seat == &page->seat[SEAT_FIRST];
    int cpu = -1;

    for (uint32_t n = 1;; n++) {
        uint64_t sleeps, start;

        sleep_until(&seat->command, n);
        if (seat->game == GAME_OVER)
            return;
        if (seat->cpu != cpu)
            pin(cpu = seat->cpu);
        sleeps = sleeps_so_far();
        play_game(page, (enum game)seat->game, socket, seat->warm_up, first);
        start = now_ns();
        play_game(page, (enum game)seat->game, socket, seat->rounds, first);
        seat->ns = now_ns() - start;
        seat->sleeps = sleeps_so_far() - sleeps;
        tell(&seat->finished, n);
    }
}

static struct page *page_map(int fd)
{
    struct page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (page == MAP_FAILED)
        die("mmap: %m");
    return page;
}

int helper_main(char **argv)
{
    struct page *page = page_map(atoi(argv[0]));
    int seat = atoi(argv[1]);
    int socket = atoi(argv[2]);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (socket < 0)
        ipc_setup(page, seat == SEAT_FIRST);
    follow_orders(page, &page->seat[seat], socket);
    return 0;
}

/* --- the measuring process --- */

struct page *page_new(int *fd)
{
    struct page *page;

    *fd = memfd_create("bench-page", 0);
    if (*fd < 0 || ftruncate(*fd, sizeof(*page)) < 0)
        die("memfd: %m");
    page = page_map(*fd);
    for (int i = 0; i < SEATS; i++)
        page->seat[i].cpu = -1;
    return page;
}

void page_free(struct page *page)
{
    munmap(page, sizeof(*page));
}

static void exec_helper(int fd, int seat, int socket)
{
    char fd_text[16], seat_text[16], socket_text[16];

    snprintf(fd_text, sizeof(fd_text), "%d", fd);
    snprintf(seat_text, sizeof(seat_text), "%d", seat);
    snprintf(socket_text, sizeof(socket_text), "%d", socket);
    execl("/proc/self/exe", "bench", "--helper", fd_text, seat_text, socket_text, NULL);
    _exit(127);
}

void helper_start(struct helper *helper, struct page *page, int seat, int fd, int socket)
{
    *helper = (struct helper){.page = page, .seat = &page->seat[seat], .pid = fork()};
    if (helper->pid < 0)
        die("fork: %m");
    if (helper->pid == 0)
        exec_helper(fd, seat, socket);
}

void helper_command(struct helper *helper, enum game game, unsigned warm_up, unsigned rounds)
{
    struct seat *seat = helper->seat;

    seat->game = game;
    seat->warm_up = warm_up;
    seat->rounds = rounds;
    atomic_fetch_add_explicit(&seat->command, 1, memory_order_release);
    futex_wake(&seat->command);
}

void helper_wait(struct helper *helper)
{
    struct seat *seat = helper->seat;

    sleep_until(&seat->finished, atomic_load_explicit(&seat->command, memory_order_relaxed));
}

void helper_stop(struct helper *helper)
{
    helper_command(helper, GAME_OVER, 0, 0);
    expect_success("helper", process_end(helper->pid));
}

void pair_start(struct pair *pair)
{
    int sockets[2];
    int fd;

    pair->page = page_new(&fd);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) < 0)
        die("socketpair: %m");
    helper_start(&pair->first, pair->page, SEAT_FIRST, fd, sockets[0]);
    helper_start(&pair->second, pair->page, SEAT_SECOND, fd, sockets[1]);
    close(sockets[0]);
    close(sockets[1]);
    close(fd);
}

void pair_start_ipc(struct pair *pair)
{
    int fd;

    pair->page = page_new(&fd);
    helper_start(&pair->first, pair->page, SEAT_FIRST, fd, -1);
    helper_start(&pair->second, pair->page, SEAT_SECOND, fd, -1);
    close(fd);
}

void pair_stop(struct pair *pair)
{
    helper_stop(&pair->first);
    helper_stop(&pair->second);
    page_free(pair->page);
}

double pair_play(struct pair *pair, enum game game, unsigned warm_up, unsigned rounds)
{
    helper_command(&pair->second, game, warm_up, rounds);
    helper_command(&pair->first, game, warm_up, rounds);
    helper_wait(&pair->first);
    helper_wait(&pair->second);
    return (double)pair->first.seat->ns / rounds;
}
