#include "daemon/executor/check_backend.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/executor/check_part.h"
#include "daemon/executor/check_report.h"
#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

#define ALL_S 300 /* rows that would begin later are not asked */

/* --- a row, as the process that prints sees it --- */

/* Is a result in? Else nothing more comes, or the time is over. */
static bool hear_result(struct check_child *child, struct check_result *result, uint64_t until)
{
    while (!result->over) {
        const uint64_t now = clock_ns();
        struct timeval left = {.tv_sec = 0, .tv_usec = 1};
        struct check_result next;

        if (now >= until)
            return false;
        left.tv_sec = (time_t)((until - now) / NSEC_PER_SEC);
        left.tv_usec = (suseconds_t)((until - now) % NSEC_PER_SEC / NSEC_PER_USEC) + 1;
        if (left.tv_usec > 999999)
            left.tv_usec = 999999;
        setsockopt(child->socket, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof(left));
        if (recv(child->socket, &next, sizeof(next), 0) != (ssize_t)sizeof(next))
            return false;
        *result = next;
        result->text[sizeof(result->text) - 1] = '\0';
        result->n = result->n < CHECK_VALUES ? result->n : CHECK_VALUES;
        result->answer = result->answer <= CHECK_DIFFERS ? result->answer : CHECK_NOT_KNOWN;
    }
    return true;
}

/* The row's process said nothing more. */
static void say_end(struct check *c, struct check_child *child, unsigned limit_s, bool in_time)
{
    char how[96];

    if (c->result->answer == CHECK_NOT_KNOWN)
        c->result->answer = CHECK_NO;
    if (!in_time) {
        check_add(c, "%snot over after %u s", *c->result->text ? "; " : "", limit_s);
        return;
    }
    check_child_how(child, how, sizeof(how));
    check_add(c, "%s%s", *c->result->text ? "; " : "", how);
}

static void run_row(struct check *c, const struct check_row *row, struct check_result *result)
{
    const unsigned limit_s =
        c->limit_s > 0 && c->limit_s < row->limit_s ? c->limit_s : row->limit_s;
    const uint64_t until = clock_ns() + limit_s * NSEC_PER_SEC;
    struct check_child child;
    char part[16];
    pid_t group;

    snprintf(part, sizeof(part), "row:%u", row->number);
    c->result = result;
    if (!check_child_start(c, part, (uid_t)-1, &child))
        return;
    group = child.pid;
    if (!hear_result(&child, result, until))
        say_end(c, &child, limit_s, clock_ns() < until);
    /* Processes of the row that it has left, before the next one asks about free memory. */
    kill(-group, SIGKILL);
    if (!check_child_kill(&child))
        check_add(c, "; the process cannot be killed");
}

/* --- a row, as its own process sees it --- */

/* Without the library or the device most rows are not even asked. */
static bool can_ask(struct check *c, unsigned number)
{
    const bool needs_device = number != CHECK_ROW_LIBRARY && number != CHECK_ROW_NPUD;

    if (!needs_device || !check_refused(c, "begin", check_begin(c)))
        return true;
    if (number != CHECK_ROW_DEVICE)
        c->result->answer = CHECK_NOT_KNOWN;
    return false;
}

static void run_own_row(struct check *c, unsigned number)
{
    struct check_result result = {0};

    c->result = &result;
    setpgid(0, 0);
    for (unsigned i = 0; i < check_n_rows; i++) {
        if (check_rows[i].number != number)
            continue;
        if (can_ask(c, number))
            check_rows[i].run(c);
    }
    result.over = 1;
    check_so_far(c);
}

/* Ends without giving anything back: as an executor does that is killed. */
static int run_part(struct check *c)
{
    struct check_result none = {0};
    unsigned number;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (c->uid != (uid_t)-1 && setresuid(c->uid, c->uid, c->uid) != 0)
        return 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's process has lost it */
    c->result = &none;
    if (sscanf(c->part, "row:%u", &number) == 1)
        run_own_row(c, number);
    else
        check_part_run(c);
    _exit(0);
}

/* --- all rows --- */

static bool is_asked(const struct check *c, unsigned number)
{
    const char *at = c->rows;

    while (at && *at) {
        char *end;

        if (strtoul(at, &end, 10) == number)
            return true;
        at = *end == ',' ? end + 1 : NULL;
    }
    return !c->rows;
}

static void print_head(const struct check *c)
{
    printf("npud %s, backend %s, device %u%s\n", NPUD_VERSION, c->spec, c->device,
           c->nesting ? " (nesting: the library may be npud's own)" : "");
    fflush(stdout);
}

/* The answer is in result. */
static void ask(struct check *c, const struct check_row *row, struct check_result *result,
                uint64_t since, unsigned failed)
{
    if (failed > 0 && row->number > failed)
        snprintf(result->text, sizeof(result->text), "not asked, for row %u does not hold", failed);
    else if (check_ms(since) / 1e3 > ALL_S)
        snprintf(result->text, sizeof(result->text), "no time left");
    else
        run_row(c, row, result);
}

static int run_all(struct check *c)
{
    struct check_result *results = calloc(check_n_rows, sizeof(*results));
    const struct check_result *asked[64] = {0};
    const uint64_t from = clock_ns();
    unsigned failed = 0; /* the library does not open, or there is no device */
    bool holds = true;

    if (!results)
        return 1;
    print_head(c);
    for (unsigned i = 0; i < check_n_rows; i++) {
        const struct check_row *row = &check_rows[i];

        if (!is_asked(c, row->number))
            continue;
        asked[i] = &results[i];
        ask(c, row, &results[i], from, failed);
        holds = holds && (!row->required || results[i].answer == CHECK_YES);
        if (!holds && failed == 0 && row->number <= CHECK_ROW_DEVICE)
            failed = row->number;
        check_print_row(row, &results[i]);
    }
    printf("%s, in %.0f s\n", holds ? "All required rows hold" : "A required row does not hold",
           check_ms(from) / 1e3);
    if (c->json && !check_write_json(c, asked, check_ms(from) / 1e3, holds)) {
        fprintf(stderr, "%s: %s\n", c->json, strerror(errno));
        holds = false;
    }
    free(results);
    return holds ? 0 : 1;
}

/* --- the command line --- */

static int usage(void)
{
    fputs("Usage: npud --check-backend acl:PATH|cuda[:PATH] [OPTION]...\n"
          "Ask a device's library what npud needs to know of it: a table on stdout. Needs no\n"
          "npud. Takes a free device, at most 1 GiB of its memory and five minutes, and never\n"
          "resets it.\n"
          "\n"
          "  --device=N          the device (default 0)\n"
          "  --json=FILE         write the table there, too\n"
          "  --kernel=FILE:NAME  launch that kernel, with the address of 4 KiB as its argument\n"
          "  --rows=N[,N]...     these rows only\n"
          "  --limit=S           at most so many seconds for each row\n"
          "  --nesting           the library may be npud's own\n"
          "\n"
          "Exit status: 0 all required rows hold, 1 one does not, 2 wrong usage.\n",
          stderr);
    return 2;
}

/* "acl:PATH", "cuda" or "cuda:PATH". */
static bool read_spec(struct check *c, const char *spec)
{
    char name[16];
    const char *colon = strchr(spec, ':');
    const size_t length = colon ? (size_t)(colon - spec) : strlen(spec);

    if (length >= sizeof(name))
        return false;
    memcpy(name, spec, length);
    name[length] = '\0';
    c->spec = spec;
    c->vendor = vendor_find(name);
    c->path = colon ? colon + 1 : NULL;
    return c->vendor && (c->path || strcmp(name, "cuda") == 0);
}

static bool read_number(const char *text, unsigned long *n)
{
    char *end;

    errno = 0;
    *n = strtoul(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *n <= UINT32_MAX;
}

static bool read_kernel(struct check *c, char *text)
{
    char *colon = strrchr(text, ':');

    if (!colon || colon == text || !colon[1])
        return false;
    *colon = '\0';
    c->kernel_file = text;
    c->kernel_name = colon + 1;
    return true;
}

static bool read_option(struct check *c, int option)
{
    unsigned long n;

    switch (option) {
    case 'd':
        if (!read_number(optarg, &n) || n >= EXECUTOR_DEVICES)
            return false;
        c->device = (uint32_t)n;
        return true;
    case 'j':
        c->json = optarg;
        return true;
    case 'k':
        return read_kernel(c, optarg);
    case 'r':
        c->rows = optarg;
        return true;
    case 'l':
        if (!read_number(optarg, &n) || n == 0)
            return false;
        c->limit_s = (unsigned)n;
        return true;
    case 'n':
        c->nesting = true;
        return true;
    case 'p':
        c->part = optarg;
        return true;
    case 'u':
        if (!read_number(optarg, &n))
            return false;
        c->uid = (uid_t)n;
        return true;
    default:
        return false;
    }
}

int check_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"json", required_argument, NULL, 'j'},
        {"kernel", required_argument, NULL, 'k'},
        {"rows", required_argument, NULL, 'r'},
        {"limit", required_argument, NULL, 'l'},
        {"nesting", no_argument, NULL, 'n'},
        {"part", required_argument, NULL, 'p'},
        {"uid", required_argument, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    struct check c = {.uid = (uid_t)-1};
    int option;

    /* Behind "--check" there is the backend. */
    if (argc < 3 || !read_spec(&c, argv[2]))
        return usage();
    optind = 3;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!read_option(&c, option))
            return usage();
    if (optind < argc)
        return usage();
    signal(SIGPIPE, SIG_IGN);
    return c.part ? run_part(&c) : run_all(&c);
}
