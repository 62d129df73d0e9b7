#include "client/tools/npu-run/repeat.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tools/npu-run/program.h"
#include "proto/util/random.h"

#define STATUS_DIFFERS 1

/* What a run has come to. */
struct outcome {
    int status;
    int out, error; /* memfds of its standard output and error */
};

/* --- options --- */

bool repeat_read_runs(struct repeat *r, const char *value)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    if (end == value || *end || value[0] == '-' || n == 0 || n > REPEAT_MAX) {
        warnx("--repeat=%s: it is a number from 1 to %u", value, REPEAT_MAX);
        return false;
    }
    r->runs = (unsigned)n;
    return true;
}

bool repeat_read_shuffle(struct repeat *r, const char *value)
{
    char *end;

    r->shuffles = true;
    r->shuffle = 0;
    if (!value)
        return true;
    errno = 0;
    r->shuffle = strtoull(value, &end, 10);
    /* Those of the runs that follow are greater. */
    if (end != value && !*end && value[0] != '-' && errno == 0 && r->shuffle != 0 &&
        r->shuffle <= INT64_MAX)
        return true;
    warnx("--shuffle=%s: a seed is a number from 1 to %" PRId64, value, INT64_MAX);
    return false;
}

bool repeat_draw_seed(struct repeat *r)
{
    if (!r->shuffles || r->shuffle != 0)
        return true;
    if (!random_fill(&r->shuffle, sizeof(r->shuffle)))
        return false;
    r->shuffle = r->shuffle % UINT64_C(1000000000) + 1; /* short enough to be typed */
    fprintf(stderr, "npu-run: --shuffle=%" PRIu64 "\n", r->shuffle);
    return true;
}

/* --- a run --- */

static void __attribute__((noreturn)) run_exec(char **argv, const struct outcome *o, pid_t parent)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(STATUS_OWN_FAILURE); /* it died before the line above */
    program_pass_fd(null, STDIN_FILENO);
    program_pass_fd(o->out, STDOUT_FILENO);
    program_pass_fd(o->error, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(STATUS_OWN_FAILURE);
}

static bool outcome_take(struct outcome *o, char **argv)
{
    struct program self = PROGRAM_NULL;
    pid_t parent = getpid(), pid;

    o->out = memfd_create("npu-run-output", MFD_CLOEXEC);
    o->error = memfd_create("npu-run-error", MFD_CLOEXEC);
    if (o->out < 0 || o->error < 0) {
        warn("no file for the output of a run");
        return false;
    }
    pid = program_fork(&self, "npu-run");
    if (pid == 0)
        run_exec(argv, o, parent);
    o->status = pid > 0 ? program_reap(&self) : STATUS_OWN_FAILURE;
    return pid > 0;
}

static void outcome_drop(struct outcome *o)
{
    if (o->out >= 0)
        close(o->out);
    if (o->error >= 0)
        close(o->error);
    *o = (struct outcome){.out = -1, .error = -1};
}

static void pass_on(int from, int to)
{
    char bytes[65536];
    off_t at = 0;
    ssize_t n;

    while ((n = pread(from, bytes, sizeof(bytes), at)) > 0) {
        at += n;
        for (ssize_t done = 0, m; done < n; done += m) {
            m = write(to, bytes + done, (size_t)(n - done));
            if (m < 0)
                return; /* nobody reads it */
        }
    }
}

static void outcome_print(const struct outcome *o)
{
    pass_on(o->out, STDOUT_FILENO);
    pass_on(o->error, STDERR_FILENO);
}

static bool is_same_file(int a, int b)
{
    char x[65536], y[65536];
    off_t at = 0;
    ssize_t n, m;

    do {
        n = pread(a, x, sizeof(x), at);
        m = pread(b, y, sizeof(y), at);
        if (n != m || n < 0 || memcmp(x, y, (size_t)n) != 0)
            return false;
        at += n;
    } while (n > 0);
    return true;
}

/* --- all of them --- */

struct runs {
    char **argv;
    char *shuffle; /* of argv, written anew for each run; NULL: no shuffling */
};

#define SHUFFLE_OPTION "--shuffle="

/* The last of an option's values counts: so these go behind all others. */
static bool runs_init(struct runs *all, const struct repeat *r, char **argv, int n_options,
                      char **command)
{
    size_t n = 0, words = 0;

    while (command[words])
        words++;
    all->argv = calloc((size_t)n_options + words + 8, sizeof(char *));
    all->shuffle = r->shuffles ? calloc(1, sizeof(SHUFFLE_OPTION) + 24) : NULL;
    if (!all->argv || (r->shuffles && !all->shuffle))
        return false;
    for (int i = 0; i < n_options; i++)
        if (i < n_options - 1 || strcmp(argv[i], "--") != 0)
            all->argv[n++] = argv[i];
    all->argv[n++] = (char *)"--repeat=1";
    if (all->shuffle)
        all->argv[n++] = all->shuffle;
    all->argv[n++] = (char *)"--";
    for (size_t i = 0; i < words; i++)
        all->argv[n++] = command[i];
    return true;
}

static void runs_deinit(struct runs *all)
{
    free(all->argv);
    free(all->shuffle);
}

/* The seeds of the runs follow each other: the one that is said is all that shows a run again. */
static bool run_number(const struct runs *all, const struct repeat *r, unsigned i,
                       struct outcome *o)
{
    if (all->shuffle)
        sprintf(all->shuffle, SHUFFLE_OPTION "%" PRIu64, r->shuffle + i);
    if (!outcome_take(o, all->argv))
        return false;
    if (o->status != STATUS_OWN_FAILURE)
        return true;
    /* npu-run could not run it, as it has said: that says nothing of the program. */
    outcome_print(o);
    return false;
}

static int tell_difference(const struct runs *all, unsigned i, const struct outcome *first,
                           const struct outcome *o)
{
    outcome_print(o);
    if (o->status != first->status)
        fprintf(stderr, "npu-run: run %u differs: exit status %d in place of %d\n", i + 1,
                o->status, first->status);
    else
        fprintf(stderr, "npu-run: run %u differs: its output is above\n", i + 1);
    if (all->shuffle)
        fprintf(stderr, "npu-run: %s does it again\n", all->shuffle);
    return o->status != 0 ? o->status : STATUS_DIFFERS;
}

static int compare_runs(const struct runs *all, const struct repeat *r)
{
    struct outcome first = {.out = -1, .error = -1}, o = {.out = -1, .error = -1};
    int status = STATUS_OWN_FAILURE;
    bool same = run_number(all, r, 0, &first);

    if (same) {
        outcome_print(&first);
        status = first.status;
    }
    for (unsigned i = 1; same && i < r->runs; i++) {
        if (!run_number(all, r, i, &o)) {
            status = STATUS_OWN_FAILURE;
            break;
        }
        same = o.status == first.status && is_same_file(o.out, first.out);
        if (!same)
            status = tell_difference(all, i, &first, &o);
        outcome_drop(&o);
    }
    outcome_drop(&o);
    outcome_drop(&first);
    return status;
}

int repeat_run(const struct repeat *r, char **argv, int n_options, char **command)
{
    struct runs all = {0};
    int status = STATUS_OWN_FAILURE;

    if (runs_init(&all, r, argv, n_options, command))
        status = compare_runs(&all, r);
    else
        warn("options");
    runs_deinit(&all);
    return status;
}
