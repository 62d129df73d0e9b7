/* npu-check: what is wrong with a program that has run under npu-run --check. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npu-check/checker.h"
#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/reports.h"
#include "client/tools/npu-check/suppress.h"

#define STATUS_FINDINGS 86
#define STATUS_FAILED   NEED_EXIT

#define STATUS_NONE (-1) /* nothing to exit for yet */

#define REPORTS_MAX 8u

struct command {
    struct checker_options options;
    const char *directory, *write_suppressions;
    const char *reports[REPORTS_MAX];
    unsigned n_reports;
    struct suppression *suppressions;
    bool verbose;
};

static const struct {
    const char *name;
    enum finding_kind kind;
} kind_words[] = {
    {"race", FINDING_RACE},
    {"init", FINDING_UNINITIALISED},
    {"free", FINDING_USE_AFTER_FREE},
    {"leak", FINDING_LEAK},
    {"unfinished", FINDING_UNFINISHED},
    {"wait", FINDING_EMPTY_WAIT},
    {"ignored", FINDING_IGNORED},
};

#define KIND_WORDS (sizeof(kind_words) / sizeof(kind_words[0]))

static void print_usage(FILE *f)
{
    fputs("Usage: npu-check [OPTION]... DIRECTORY\n"
          "Tell what is wrong with the processes that have written the files in DIRECTORY,\n"
          "as npu-run --check does when its command has ended.\n"
          "\n"
          "  -k, --kinds=KIND[,KIND]...\n"
          "                     race, init, free, leak, unfinished, wait, ignored (default all)\n"
          "      --host=any|seen\n"
          "                     any (default): what one thread has learned, all know; seen:\n"
          "                     only edges between threads that npud has seen\n"
          "  -r, --report=FILE  write the report there as JSON; as SARIF if its name ends with\n"
          "                     .sarif; may be repeated\n"
          "  -s, --suppressions=FILE\n"
          "                     do not tell what FILE describes; may be repeated\n"
          "  -w, --write-suppressions=FILE\n"
          "                     write a suppression for each finding there\n"
          "  -v, --verbose      show all frames of each call, and whole paths\n"
          "  -V, --version      print the version and exit\n"
          "  -h, --help         print this and exit\n"
          "\n"
          "Exit status: 0 no findings; 86 findings; 125 npu-check failed.\n",
          f);
}

static const struct option long_options[] = {
    {"kinds", required_argument, NULL, 'k'},
    {"host", required_argument, NULL, 1},
    {"report", required_argument, NULL, 'r'},
    {"suppressions", required_argument, NULL, 's'},
    {"write-suppressions", required_argument, NULL, 'w'},
    {"verbose", no_argument, NULL, 'v'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int finish_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    warn("cannot write");
    return STATUS_FAILED;
}

static bool kind_choose(struct command *c, const char *name)
{
    for (size_t i = 0; i < KIND_WORDS; i++) {
        if (strcmp(kind_words[i].name, name) != 0 &&
            strcmp(finding_names[kind_words[i].kind], name) != 0)
            continue;
        c->options.kinds |= 1u << kind_words[i].kind;
        return true;
    }
    warnx("%s: there is no such kind; there are race, init, free, leak, unfinished, wait and "
          "ignored",
          name);
    return false;
}

static int kinds_read(struct command *c, char *list)
{
    c->options.kinds = 0;
    for (char *name = strsep(&list, ","); name; name = strsep(&list, ","))
        if (!kind_choose(c, name))
            return STATUS_FAILED;
    return STATUS_NONE;
}

static int host_read(struct command *c, const char *value)
{
    c->options.host_seen = strcmp(value, "seen") == 0;
    if (c->options.host_seen || strcmp(value, "any") == 0)
        return STATUS_NONE;
    warnx("--host=%s: it is any or seen", value);
    return STATUS_FAILED;
}

static int option_read(struct command *c, int option)
{
    switch (option) {
    case 'k':
        return kinds_read(c, optarg);
    case 1:
        return host_read(c, optarg);
    case 'r':
        if (c->n_reports == REPORTS_MAX) {
            warnx("--report=%s: there are %u already", optarg, REPORTS_MAX);
            return STATUS_FAILED;
        }
        c->reports[c->n_reports++] = optarg;
        return STATUS_NONE;
    case 's':
        return suppressions_read(&c->suppressions, optarg) ? STATUS_NONE : STATUS_FAILED;
    case 'w':
        c->write_suppressions = optarg;
        return STATUS_NONE;
    case 'v':
        c->verbose = true;
        return STATUS_NONE;
    case 'V':
        puts("npu-check " NPUD_VERSION);
        return finish_output(0);
    case 'h':
        print_usage(stdout);
        return finish_output(0);
    default:
        fputs("Try 'npu-check --help'.\n", stderr);
        return STATUS_FAILED;
    }
}

static int options_read(struct command *c, int argc, char **argv)
{
    int option, status = STATUS_NONE;

    while (status == STATUS_NONE &&
           (option = getopt_long(argc, argv, "k:r:s:w:vVh", long_options, NULL)) != -1)
        status = option_read(c, option);
    if (status != STATUS_NONE)
        return status;
    if (argc - optind != 1) {
        fputs("npu-check: one directory is needed\nTry 'npu-check --help'.\n", stderr);
        return STATUS_FAILED;
    }
    c->directory = argv[optind];
    return STATUS_NONE;
}

static bool *suppressed_find(const struct command *c, struct symbols *symbols,
                             const struct findings *findings)
{
    bool *suppressed = need_zeroed(findings->n, sizeof(*suppressed));

    for (size_t i = 0; i < findings->n; i++)
        suppressed[i] = suppressions_match(c->suppressions, symbols, &findings->list[i]);
    return suppressed;
}

/* The files first: a reader of the text may go away. */
static int report_everything(const struct command *c, const struct report *r)
{
    int status = report_count(r, false) ? STATUS_FINDINGS : 0;

    for (unsigned i = 0; i < c->n_reports; i++)
        if (!report_write_file(r, c->reports[i])) {
            warn("%s", c->reports[i]);
            status = STATUS_FAILED;
        }
    if (c->write_suppressions && !suppressions_write(r, c->write_suppressions)) {
        warn("%s", c->write_suppressions);
        status = STATUS_FAILED;
    }
    report_write_text(r, stdout);
    return finish_output(status);
}

static int command_run(const struct command *c)
{
    struct world world = {0};
    struct findings findings = {0};
    struct report r = {.world = &world, .findings = &findings, .verbose = c->verbose};
    bool *suppressed;
    int status;

    if (!checker_run(c->directory, &c->options, &world, &findings, NULL)) {
        warn("%s", c->directory);
        return STATUS_FAILED;
    }
    r.symbols = symbols_make(&world);
    suppressed = suppressed_find(c, r.symbols, &findings);
    r.suppressed = suppressed;
    status = report_everything(c, &r);
    symbols_free(r.symbols);
    free(suppressed);
    findings_deinit(&findings);
    world_deinit(&world);
    return status;
}

int main(int argc, char **argv)
{
    struct command c = {0};
    int status;

    setlocale(LC_CTYPE, ""); /* what the terminal can show */
    status = options_read(&c, argc, argv);
    if (status == STATUS_NONE)
        status = command_run(&c);
    suppressions_free(c.suppressions);
    return status;
}
