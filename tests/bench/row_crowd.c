/*
 * Rows 5 and 12: what a thousand sessions with ten thousand streams and a hundred thousand events
 * cost that are open and idle.
 *
 * Row 5 has two npuds side by side, one with the crowd and one without, and a pair of clients at
 * each that plays the ping-pong of row 4. They take turns; the npud whose turn it is not sleeps.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/common/crowd.h"
#include "tests/common/proc.h"
#include "tests/common/process.h"

#define WARM_UP 16

static unsigned crowd_size(void)
{
    return count_of(1000, 50);
}

static struct crowd *assemble_crowd(unsigned n)
{
    struct crowd *crowd = crowd_start(n);
    const char *wrong = crowd ? crowd_assemble(crowd) : "cannot fork";

    if (wrong)
        die("crowd: %s", wrong);
    return crowd;
}

static void dismiss_crowd(struct crowd *crowd)
{
    const char *wrong = crowd_step(crowd, CROWD_LEAVE);

    if (wrong)
        die("crowd: %s", wrong);
    wrong = crowd_end(crowd);
    if (wrong)
        die("crowd: %s", wrong);
}

/* --- the process that keeps a crowd, under an npud of its own --- */

int crowd_main(char **argv)
{
    struct crowd *crowd = assemble_crowd((unsigned)strtoul(argv[0], NULL, 10));
    char c;

    printf("%s\n", getenv("NPUD_SOCKET"));
    fflush(stdout);
    while (read(STDIN_FILENO, &c, 1) > 0)
        ;
    dismiss_crowd(crowd);
    return 0;
}

struct keeper {
    struct piped process; /* when its input is closed, the crowd leaves */
    char socket[PATH_MAX];
};

static void exec_keeper(void *arg)
{
    char runner[PATH_MAX], n[16], self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)arg;
    if (length < 0)
        die("/proc/self/exe: %m");
    self[length] = '\0';
    snprintf(runner, sizeof(runner), "%s/npu-run", options.bindir);
    snprintf(n, sizeof(n), "%u", crowd_size());
    execl(runner, runner, "--devices", "2", "--", self, "--crowd", n, NULL);
    die("%s: %m", runner);
}

static void keeper_start(struct keeper *k)
{
    if (!piped_start(&k->process, exec_keeper, NULL) ||
        !fgets(k->socket, sizeof(k->socket), k->process.from))
        die("the crowd did not assemble");
    k->socket[strcspn(k->socket, "\n")] = '\0';
}

static void keeper_stop(struct keeper *k)
{
    expect_success("the crowd", piped_end(&k->process));
}

/* --- row 5 --- */

struct crowded {
    struct pair quiet, crowded;
};

static double crowded_side(void *arg, unsigned n)
{
    return pair_play(&((struct crowded *)arg)->crowded, GAME_IPC, WARM_UP, n);
}

static double quiet_side(void *arg, unsigned n)
{
    return pair_play(&((struct crowded *)arg)->quiet, GAME_IPC, WARM_UP, n);
}

static void place_pair(struct pair *pair, int first, int second)
{
    pair->first.seat->cpu = first;
    pair->second.seat->cpu = second;
}

static void run_contest(struct crowded *c, const struct row *row)
{
    struct contest contest = {
        .value = crowded_side,
        .baseline = quiet_side,
        .arg = c,
        .n_value = 200,
        .n_baseline = 200,
        .rounds = count_of(300, 5),
    };
    struct result result = contest_run(row, &contest);

    snprintf(result.note, sizeof(result.note), "%u sessions, %u streams, %u events", crowd_size(),
             crowd_size() * CROWD_STREAMS, crowd_size() * CROWD_EVENTS);
    result_emit(&result);
}

void rows_crowd(void)
{
    static const struct row rows[] = {
        {"5", "row 4 beside a crowd that is idle; vs row 4 at another npud", 1.1},
        {"5-apart", "the same, one pinned to CPU 0, the other to CPU 1", 1.1},
    };
    struct keeper keeper;
    struct crowded c;

    keeper_start(&keeper);
    pair_start_ipc(&c.quiet);
    setenv("NPUD_SOCKET", keeper.socket, 1);
    pair_start_ipc(&c.crowded);
    run_contest(&c, &rows[0]);
    if (cpu_count() > 1) {
        place_pair(&c.quiet, 0, 1);
        place_pair(&c.crowded, 0, 1);
        run_contest(&c, &rows[1]);
    }
    pair_stop(&c.crowded);
    pair_stop(&c.quiet);
    keeper_stop(&keeper);
}

/* --- row 12 --- */

pid_t bench_npud_pid(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_SOCKET"));
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        die("%s: %m", addr.sun_path);
    close(fd);
    return cred.pid;
}

/*
 * An engine looks for work a little longer before it sleeps, and what the heap has free goes back
 * within a second (daemon/base/heap.h).
 */
#define QUIET_MS 2000

void await_quiet(pid_t pid)
{
    uint64_t before, after = proc_switches(pid);

    do {
        before = after;
        poll(NULL, 0, (int)count_of(QUIET_MS, 100));
        after = proc_switches(pid);
    } while (after != before);
}

/* npud's, and those of the processes beside it, if it comes back. */
static uint64_t count_switches(pid_t npud)
{
    static const char *const names[] = {"npud-standby", "npud-keeper"};
    pid_t supervisor = proc_child_named(getppid(), "npud-supervisor"), pid;
    uint64_t n = proc_switches(npud);

    if (supervisor == 0)
        return n;
    n += proc_switches(supervisor);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pid = proc_child_named(supervisor, names[i]);
        if (pid == 0)
            die("there is no %s", names[i]);
        n += proc_switches(pid);
    }
    return n;
}

static void emit_row(const struct row *row, double value, double baseline, const char *unit,
                     const char *note)
{
    struct result r = result_of_samples(row, &value, 1, baseline);

    snprintf(r.unit, sizeof(r.unit), "%s", unit);
    snprintf(r.note, sizeof(r.note), "%s", note);
    result_emit(&r);
}

static void emit_memory(const struct proc_usage *before, const struct proc_usage *after)
{
    static const struct row row = {"12-memory", "npud's own memory for each, in KiB", 32};
    double n = crowd_size();
    char note[96];

    snprintf(note, sizeof(note), "and %.1f KiB of page tables, %.1f shared with it, %.1f fds",
             (double)(after->pte - before->pte) / 1024 / n,
             (double)(after->shmem - before->shmem) / 1024 / n,
             (double)(after->fds - before->fds) / n);
    emit_row(&row, (double)(after->anon - before->anon) / n, 1024, "bytes", note);
}

void rows_idle(void)
{
    static const struct row row = {"12", "an idle npud with 1,000 sessions: wake-ups in 10 s", 0};
    pid_t pid = bench_npud_pid();
    struct proc_usage before = proc_usage(pid), after;
    struct crowd *crowd = assemble_crowd(crowd_size());
    uint64_t switches;
    char note[96];

    await_quiet(pid);
    after = proc_usage(pid);
    switches = count_switches(pid);
    poll(NULL, 0, (int)count_of(10000, 300));
    switches = count_switches(pid) - switches;
    snprintf(note, sizeof(note), "context switches of all its threads; %u sessions", crowd_size());
    emit_row(&row, (double)switches, 1, "wake-ups", note);
    emit_memory(&before, &after);
    dismiss_crowd(crowd);
}
