/* Options, the processes of a run, the table and bench.json. */
#include "tests/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/ab.h"
#include "tests/bench/budget.h"
#include "tests/bench/helper.h"
#include "tests/bench/placement.h"

#define PAIRS       7 /* of processes, for two builds */
#define RESULTS_MAX (64 * PAIRS)

static const struct group {
    const char *row;
    void (*run)(void);
    const char *setting; /* of npud; NULL: defaults */
    bool one_cpu;        /* everybody on one CPU, npud too */
    bool no_contest;     /* nothing that two builds can take turns in */
    bool restartable;    /* npud comes back when it is killed */
    enum { SIMULATED, NULL_LIBRARY, NESTED } devices;
} groups[] = {
    {"1", rows_query},
    {"2", rows_record},
    {"3", rows_submit},
    {"4", rows_ipc},
    {"4b", rows_ipc_asleep, "engine.spin_us=0"},
    {"4s", rows_sleepers},
    {"5", rows_crowd},
    {"6", rows_mbuf},
    {"7", rows_queue_polling},
    {"8", rows_queue_asleep},
    {"9", rows_copy},
    {"9s", rows_copy_strict, "sim.strict=yes"},
    {"10", rows_request},
    {"10", rows_request_one_cpu, NULL, true},
    {"11", rows_first_use},
    {"12", rows_idle, .no_contest = true},
    {"13", rows_callback},
    {"14", rows_python},
    {"15", rows_queue_rate},
    {"16", rows_restart, .no_contest = true, .restartable = true},
    {"17", rows_register, .no_contest = true},
    {"18", rows_memory},
    {"19", rows_growth, .no_contest = true},
    {"20", rows_footprint_session, .no_contest = true},
    {"20", rows_footprint_device, .no_contest = true},
    {"20", rows_footprint_event, .no_contest = true},
    {"20", rows_footprint_stream, .no_contest = true},
    {"20", rows_kept_session, .no_contest = true, .restartable = true},
    {"20", rows_kept_device, .no_contest = true, .restartable = true},
    {"20", rows_kept_event, .no_contest = true, .restartable = true},
    {"20", rows_kept_stream, .no_contest = true, .restartable = true},
    {"21", rows_check, .no_contest = true},
    {"22", rows_kernel},
    {"24", rows_graph},
    {"26", rows_channel},
    {"28", rows_null_awake, .devices = NULL_LIBRARY},
    {"28", rows_null_asleep, "engine.spin_us=0", .devices = NULL_LIBRARY},
    {"28", rows_null_idle, "vendor.hang_s=1", .no_contest = true, .devices = NULL_LIBRARY},
    {"28", rows_restart_executors, .no_contest = true, .restartable = true,
     .devices = NULL_LIBRARY},
    {"28", rows_nested, "engine.spin_us=0", .no_contest = true, .devices = NESTED},
};

#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

static const char usage[] =
    "usage: bench [--smoke] [--rows 1,2,...] [--bindir DIR] [--json FILE] [--against DIR]\n"
    "\n"
    "Measures what has a budget against an npud that it starts through npu-run,\n"
    "prints a table, and writes the same to a JSON file. Missed budgets are marked, and are\n"
    "not an error.\n"
    "\n"
    "  --smoke       a few rounds only: shows that everything runs, the numbers mean nothing\n"
    "  --rows LIST   only these rows: 1 2 3 4 4b 4s 5 6 7 8 9 9s 10 11 12 13 14 15 16 17 18 19 20 "
    "21 22 24 26 28\n"
    "  --bindir DIR  where npu-run is (default: beside this program)\n"
    "  --json FILE   what to write (default: bench.json in the bindir; empty: nothing)\n"
    "  --restartable all rows with an npud that comes back (16 always is); with --against that of\n"
    "                this build only: compared with itself, what it costs to come back\n"
    "  --against DIR compare this build with the one in DIR: several pairs of processes, which "
    "take\n"
    "                turns round by round; prints the median of their ratios and its quartiles\n";

/* --- running --- */

struct words {
    const char *argv[40];
    unsigned n;
    char text[3][PATH_MAX + 64];
};

static void add_words(struct words *w, const char *const *words)
{
    for (; *words; words++)
        w->argv[w->n++] = *words;
}

/* What its devices are, of an npud that has no simulated ones. */
static void add_devices(struct words *w, const struct group *group, const char *bindir)
{
    const char *const settings[] = {"--set", "npud.backend=acl", "--set", "limits.executors=1000",
                                    "--set", w->text[0],         "--set", w->text[1],
                                    "--set", w->text[2],         NULL};
    const bool nested = group->devices == NESTED;
    char dir[PATH_MAX]; /* npud takes no other path */

    if (group->devices == SIMULATED) {
        add_words(w, (const char *const[]){"--devices", "2", NULL});
        return;
    }
    if (!realpath(bindir, dir))
        die("%s: %m", bindir);
    snprintf(w->text[0], sizeof(w->text[0]), "vendor.library=%s/%s", dir,
             nested ? "libaclclient.so.1" : "tests/vendor/libfake_vendor.so");
    snprintf(w->text[1], sizeof(w->text[1]), "vendor.nesting=%s", nested ? "yes" : "no");
    snprintf(w->text[2], sizeof(w->text[2]), "vendor.environment=%s%s",
             nested ? "NPUD_SOCKET=" : "FAKE_VENDOR_DEVICES=2",
             nested ? getenv("BENCH_INNER_SOCKET") : "");
    add_words(w, settings);
}

static void begin_words(struct words *w, const char *runner, const struct group *group)
{
    *w = (struct words){.argv = {runner}, .n = 1};
    if (group->setting)
        add_words(w, (const char *const[]){"--set", group->setting, NULL});
}

static _Noreturn void exec_words(struct words *w)
{
    w->argv[w->n] = NULL;
    execv(w->argv[0], (char *const *)w->argv);
    fprintf(stderr, "bench: %s: %s\n", w->argv[0], strerror(errno));
    _exit(127);
}

/* Where the library and npud come from. role: --measure, or --outer, which comes to that. */
static _Noreturn void exec_group(const struct group *group, const char *self, const char *bindir,
                                 const char *role, enum ab_side side)
{
    char runner[PATH_MAX], index[16];
    struct words w;

    snprintf(runner, sizeof(runner), "%s/npu-run", bindir);
    snprintf(index, sizeof(index), "%zu", (size_t)(group - groups));
    begin_words(&w, runner, group);
    if (strcmp(role, "--outer") == 0)
        add_words(&w, (const char *const[]){"--strict", NULL});
    else
        add_devices(&w, group, bindir);
    if (group->restartable || (options.restartable && side == AB_NEW))
        add_words(&w, (const char *const[]){"--restartable", NULL});
    add_words(&w, (const char *const[]){"--", self, role, index, options.results,
                                        options.smoke ? "smoke" : "full", bindir, NULL});
    exec_words(&w);
}

/* In an npud that is to be the inner one. */
static _Noreturn void outer_main(const char *self, char **argv)
{
    size_t index = strtoul(argv[0], NULL, 10);

    if (index >= N_GROUPS)
        die("no group %zu", index);
    options.results = argv[1];
    options.smoke = strcmp(argv[2], "smoke") == 0;
    setenv("BENCH_INNER_SOCKET", getenv("NPUD_SOCKET"), 1);
    exec_group(&groups[index], self, argv[3], "--measure", AB_NEW);
}

static pid_t start_group(const struct group *group, const char *self, const char *bindir,
                         const char *page, enum ab_side side)
{
    pid_t pid = fork();

    if (pid < 0)
        die("fork: %m");
    if (pid > 0)
        return pid;
    if (group->one_cpu)
        pin(0);
    if (page)
        ab_share(page, side, bindir);
    exec_group(group, self, bindir, group->devices == NESTED ? "--outer" : "--measure", side);
}

static int end_of(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) != pid)
        die("waitpid: %m");
    return status;
}

static int run_group(const struct group *group, const char *self)
{
    return end_of(start_group(group, self, options.bindir, NULL, AB_NEW));
}

/* When one of the two fails, the other one waits for it in vain. */
static int run_group_against(const struct group *group, const char *self, const char *other)
{
    char page[PATH_MAX];
    pid_t pid[AB_SIDES], first;
    int status, rest;

    snprintf(page, sizeof(page), "%s.page", options.results);
    ab_create(page);
    pid[AB_NEW] = start_group(group, self, options.bindir, page, AB_NEW);
    pid[AB_OLD] = start_group(group, self, other, page, AB_OLD);
    first = waitpid(-1, &status, 0);
    if (status != 0)
        kill(first == pid[AB_NEW] ? pid[AB_OLD] : pid[AB_NEW], SIGTERM);
    rest = end_of(first == pid[AB_NEW] ? pid[AB_OLD] : pid[AB_NEW]);
    unlink(page);
    return status ? status : rest;
}

static int measure_main(char **argv)
{
    size_t index = strtoul(argv[0], NULL, 10);

    if (index >= N_GROUPS)
        die("no group %zu", index);
    options.results = argv[1];
    options.smoke = strcmp(argv[2], "smoke") == 0;
    options.bindir = argv[3];
    ab_join();
    if (!options.ab)
        options.spin_ns = placement_measure();
    watchdog_start((options.smoke ? 30 : 120) * (options.ab ? 3 : 1));
    groups[index].run();
    return 0;
}

static unsigned read_results(struct result *results)
{
    FILE *f = fopen(options.results, "rb");
    size_t n = f ? fread(results, sizeof(*results), RESULTS_MAX, f) : 0;

    if (f)
        fclose(f);
    return (unsigned)n;
}

/* --- the table --- */

static const char *value_text(const struct result *r, double ns, char *buffer, size_t size)
{
    if (r->unit[0])
        snprintf(buffer, size, "%.0f %s", ns, r->unit);
    else if (ns < 1e3)
        snprintf(buffer, size, "%.1f ns", ns);
    else if (ns < 1e6)
        snprintf(buffer, size, "%.2f us", ns / 1e3);
    else
        snprintf(buffer, size, "%.2f ms", ns / 1e6);
    return buffer;
}

static void print_result(const struct result *r, int width)
{
    char value[32], baseline[32], spread[32], budget[32];

    snprintf(spread, sizeof(spread), "%.3f..%.3f", r->low, r->high);
    if (r->budget == BUDGET_NONE)
        snprintf(budget, sizeof(budget), "none");
    else
        snprintf(budget, sizeof(budget), "%s %g", r->at_least ? ">=" : "<=", r->budget);
    printf("%-13s %-*s %10s %10s %7.3f %15s %8s  %-3s %s\n", r->row, width, r->what,
           value_text(r, r->value_ns, value, sizeof(value)),
           value_text(r, r->baseline_ns, baseline, sizeof(baseline)), r->ratio, spread, budget,
           r->ok ? "yes" : "NO", r->note);
}

static int width_of(const struct result *results, unsigned n)
{
    int width = 4;

    for (unsigned i = 0; i < n; i++)
        if ((int)strlen(results[i].what) > width)
            width = (int)strlen(results[i].what);
    return width;
}

static void print_table(const struct result *results, unsigned n)
{
    int width = width_of(results, n);

    printf("%-13s %-*s %10s %10s %7s %15s %8s  %-3s %s\n", "row", width, "what", "value",
           "baseline", "ratio", "p10..p90", "budget", "ok", "note");
    for (unsigned i = 0; i < n; i++)
        print_result(&results[i], width);
}

/*
 * How fast a process is differs from the next one of the same build: by where its memory happens to
 * lie, for one. So there are several pairs of processes, and what counts of each is its median: of
 * these the median and the quartiles are shown. Returns how many rows there are.
 */
static unsigned merge_pairs(struct result *results, unsigned n)
{
    unsigned rows = 0;

    for (unsigned i = 0; i < n; i++) {
        struct result merged = results[i];
        double ratio[PAIRS], new[PAIRS], old[PAIRS], ignored;
        unsigned pairs = 0;

        for (unsigned k = 0; k < rows && merged.row[0]; k++)
            if (strcmp(results[k].row, merged.row) == 0)
                merged.row[0] = '\0'; /* merged already */
        if (!merged.row[0])
            continue;
        for (unsigned k = i; k < n && pairs < PAIRS; k++) {
            if (strcmp(results[k].row, merged.row) != 0)
                continue;
            ratio[pairs] = results[k].ratio;
            new[pairs] = results[k].value_ns;
            old[pairs++] = results[k].baseline_ns;
        }
        samples_spread(ratio, pairs, 25, &merged.low, &merged.ratio, &merged.high);
        samples_spread(new, pairs, 25, &ignored, &merged.value_ns, &ignored);
        samples_spread(old, pairs, 25, &ignored, &merged.baseline_ns, &ignored);
        results[rows++] = merged;
    }
    return rows;
}

/* Two builds: what the rows are otherwise compared with is not there. */
static void print_pairs(struct result *results, unsigned n)
{
    char new[32], old[32], spread[32];
    int width;

    for (unsigned i = 0; i < n; i++)
        results[i].what[strcspn(results[i].what, ";")] = '\0';
    width = width_of(results, n);
    printf("%-13s %-*s %10s %10s %9s %15s\n", "row", width, "what", "new", "old", "new/old",
           "p25..p75");
    for (unsigned i = 0; i < n; i++) {
        const struct result *r = &results[i];

        snprintf(spread, sizeof(spread), "%.3f..%.3f", r->low, r->high);
        printf("%-13s %-*s %10s %10s %9.3f %15s\n", r->row, width, r->what,
               value_text(r, r->value_ns, new, sizeof(new)),
               value_text(r, r->baseline_ns, old, sizeof(old)), r->ratio, spread);
    }
}

static void write_json(const char *path, const struct result *results, unsigned n)
{
    FILE *f = fopen(path, "w");

    if (!f)
        die("%s: %m", path);
    fprintf(f, "{\"rows\": [\n");
    for (unsigned i = 0; i < n; i++) {
        const struct result *r = &results[i];

        fprintf(f, "  {\"row\": \"%s\", \"what\": \"%s\", ", r->row, r->what);
        fprintf(f, "\"value_ns\": %.2f, \"value_low\": %.2f, \"value_high\": %.2f, ", r->value_ns,
                r->value_low, r->value_high);
        fprintf(f, "\"baseline_ns\": %.2f, \"baseline_low\": %.2f, \"baseline_high\": %.2f, ",
                r->baseline_ns, r->baseline_low, r->baseline_high);
        fprintf(f, "\"ratio\": %.4f, \"spread_low\": %.4f, \"spread_high\": %.4f, ", r->ratio,
                r->low, r->high);
        if (r->budget == BUDGET_NONE)
            fprintf(f, "\"budget\": null, ");
        else
            fprintf(f, "\"budget\": %g, ", r->budget);
        fprintf(f, "\"at_least\": %s, \"ok\": %s, ", r->at_least ? "true" : "false",
                r->ok ? "true" : "false");
        fprintf(f, "\"spin_ns\": %.0f, ", r->spin_ns);
        fprintf(f, "\"unit\": \"%s\", \"note\": \"%s\"}%s\n", r->unit[0] ? r->unit : "ns", r->note,
                i + 1 < n ? "," : "");
    }
    fprintf(f, "], \"budgets\": [");
    budgets_write(f, results, n);
    fprintf(f, "\n]}\n");
    if (fclose(f) != 0)
        die("%s: %m", path);
}

/* --- main --- */

/* Is row among those of the list? */
static bool is_wanted(const char *row, const char *list)
{
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        if (strlen(row) == len && strncmp(row, list, len) == 0)
            return true;
    }
    return false;
}

static int run_pairs(const struct group *group, const char *self, const char *other)
{
    int status = 0;

    for (unsigned i = 0; i < count_of(PAIRS, 2) && status == 0; i++)
        status = run_group_against(group, self, other);
    return status;
}

static int run_rows(const char *rows, const char *self, const char *against)
{
    int failed = 0;

    for (size_t i = 0; i < N_GROUPS; i++) {
        int status;

        if ((rows && !is_wanted(groups[i].row, rows)) || (against && groups[i].no_contest))
            continue;
        status = against ? run_pairs(&groups[i], self, against) : run_group(&groups[i], self);
        if (status != 0) {
            fprintf(stderr, "bench: row %s failed (status %#x)\n", groups[i].row, status);
            failed = 1;
        }
    }
    return failed;
}

static const char *self_path(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n < 0)
        die("/proc/self/exe: %m");
    path[n] = '\0';
    return path;
}

static const char *self_dir(void)
{
    static char dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%s", self_path());
    return dirname(dir);
}

static int bench_main(const char *rows, const char *bindir, const char *json, const char *against)
{
    static struct result results[RESULTS_MAX];
    char path[] = "/tmp/bench-results.XXXXXX";
    char default_json[PATH_MAX];
    int fd = mkstemp(path);
    unsigned n;
    int failed;

    if (fd < 0)
        die("%s: %m", path);
    close(fd);
    options.results = path;
    if (!bindir)
        bindir = self_dir();
    options.bindir = bindir;
    if (against)
        placement_print();
    failed = run_rows(rows, self_path(), against);
    n = read_results(results);
    unlink(path);
    if (n == 0 && !failed)
        die("no such rows: %s", rows);
    if (options.smoke)
        printf("Smoke run: too short for the numbers to mean anything.\n");
    if (against) {
        print_pairs(results, merge_pairs(results, n));
        return failed;
    }
    print_table(results, n);
    budgets_print(results, n);
    if (!json) {
        snprintf(default_json, sizeof(default_json), "%s/bench.json", bindir);
        json = default_json;
    }
    if (json[0])
        write_json(json, results, n);
    return failed;
}

/* The parts that this program plays for itself. False: it was started by a user. */
static bool play_part(int argc, char **argv, int *status)
{
    if (argc == 6 && strcmp(argv[1], "--measure") == 0)
        *status = measure_main(argv + 2);
    else if (argc == 6 && strcmp(argv[1], "--outer") == 0)
        outer_main(self_path(), argv + 2);
    else if (argc == 5 && strcmp(argv[1], "--helper") == 0)
        *status = helper_main(argv + 2);
    else if (argc == 3 && strcmp(argv[1], "--crowd") == 0)
        *status = crowd_main(argv + 2);
    else if (argc == 2 && strcmp(argv[1], "--first-use") == 0)
        *status = first_use_main();
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"smoke", no_argument, NULL, 's'},         {"rows", required_argument, NULL, 'r'},
        {"bindir", required_argument, NULL, 'b'},  {"json", required_argument, NULL, 'j'},
        {"against", required_argument, NULL, 'a'}, {"restartable", no_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    const char *rows = NULL, *bindir = NULL, *json = NULL, *against = NULL;
    int option, status;

    if (play_part(argc, argv, &status))
        return status;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case 's':
            options.smoke = true;
            break;
        case 'r':
            rows = optarg;
            break;
        case 'b':
            bindir = optarg;
            break;
        case 'j':
            json = optarg;
            break;
        case 'R':
            options.restartable = true;
            break;
        case 'a':
            against = optarg;
            break;
        default:
            fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    return bench_main(rows, bindir, json, against);
}
