/*
 * npuctl: which process holds what, and which waits for which. Everything that is printed is read
 * through protobuf-c's descriptors of npud.proto, so a new field appears by itself, and a new
 * report needs one row in `commands`.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npuctl/command.h"
#include "client/tools/npuctl/field.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/clock.h"
#include "proto/util/lift_fd.h"
#include "proto/util/number_text.h"

static void print_usage(FILE *f)
{
    fputs("Usage: npuctl [OPTION]... COMMAND\n"
          "       npuctl [OPTION]... kill SESSION\n"
          "       npuctl [OPTION]... inject fail|stall|lose-device [RULE-OPTION]...\n"
          "       npuctl [OPTION]... inject list | clear [RULE]\n"
          "       npuctl [OPTION]... who device|queue|event NUMBER\n"
          "       npuctl [OPTION]... metrics [--listen [ADDRESS]]\n"
          "       npuctl [OPTION]... top [--once]\n"
          "       npuctl [OPTION]... inspect SESSION\n"
          "       npuctl [OPTION]... graph [--svg]\n"
          "       npuctl [OPTION]... monitor | doctor\n"
          "       npuctl [OPTION]... upgrade\n"
          "       npuctl [OPTION]... cdi\n"
          "       npuctl [OPTION]... trace start [--size=SIZE] [--calls] | stop | stream\n"
          "       npuctl [OPTION]... trace dump [--html] [--from=FILE] | stats FILE\n"
          "       npuctl [OPTION]... check start DIRECTORY | stop | report DIRECTORY\n"
          "Ask npud what each process holds, and which process waits for which; end a\n"
          "session; make tasks fail; replace npud; or tell containers of it.\n"
          "\n",
          f);
    for (size_t i = 0; i < commands_n; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs(
        "\n"
        "  --kind=KIND        rules are for tasks of this kind (copy, delay, ipc-record, ...),\n"
        "  --session=SESSION  of this session,\n"
        "  --device=DEVICE    on this device (with lose-device alone: the one to lose)\n"
        "  --stream=STREAM    and in this stream. They hit all of these, or\n"
        "  --nth=N            the Nth and, with\n"
        "  --count=N          from there on N in all,\n"
        "  --probability=P    each with this probability, drawn from\n"
        "  --seed=SEED        this seed\n"
        "  --code=CODE        what they fail with, a number or a name; default 507000\n"
        "\n"
        "  -j, --json         print one JSON object, {\"COMMAND\": [{...}, ...]}; for\n"
        "                     status an object in place of the list. Keys are the headings\n"
        "                     of the table in lower case with _ for -. Later versions may\n"
        "                     add keys, and change none\n"
        "      --html         of trace dump: a page with all in it, which needs no network\n"
        "      --from=FILE    of trace dump: what trace stream has written there, - for standard\n"
        "                     input\n"
        "      --size=SIZE    of trace start: bytes of each ring, 64M or so, if that is more\n"
        "                     than 2 MiB of a process and 8 MiB of a device\n"
        "      --calls        of trace start: calls of the library, too\n"
        "      --findings=FILE of trace dump: draws what npu-check has found, from its report\n"
        "  -b, --bytes        print exact sizes in tables, too: bytes, not KiB, MiB and so on\n"
        "  -w, --watch[=SECONDS]\n"
        "                     print again every SECONDS (default 1) until interrupted\n"
        "  -i, --interval=SECONDS\n"
        "                     measure rates for SECONDS (default 0.2); of monitor: look for\n"
        "                     deadlocks every SECONDS (default 5)\n"
        "      --listen[=ADDRESS]\n"
        "                     of metrics: serve them as http://ADDRESS/metrics until SIGTERM;\n"
        "                     IP:PORT, [IPV6]:PORT or a socket's path, default\n"
        "                     " LISTEN_DEFAULT "\n"
        "      --text         of metrics: in the format before OpenMetrics, for promtool\n"
        "      --once         of top: print once, and show no screen\n"
        "      --svg          of graph: the picture, which Graphviz's dot draws\n"
        "  -o, --output=FILE  with cdi and graph: the file to write, - for standard output\n"
        "  -s, --socket=PATH  ask the npud that listens there; default $NPUD_ADMIN_SOCKET,\n"
        "                     else " NPUD_ADMIN_SOCKET_DEFAULT "\n"
        "  -V, --version      print the version and exit\n"
        "  -h, --help         print this and exit\n"
        "\n"
        "Rows are sorted, by the first column first. Numbers are sizes, seconds (-S),\n"
        "milliseconds (-MS), or counts. Bytes of a text that cannot be printed are shown as\n"
        "\\xHH, and so are blanks in names that programs choose; an empty text is shown as -.\n"
        "In JSON sizes are bytes, and what is not UTF-8 becomes U+FFFD.\n"
        "\n"
        "If npud ends before it has answered, the next one is asked the same again; a\n"
        "command is carried out once.\n"
        "\n"
        "Exit status: 0 printed; 1 npud answered with an error, what is asked for is not\n"
        "there, or the output could not be written; 2 wrong usage; 3 no npud could be\n"
        "reached.\n",
        f);
}

/*
 * Again and again, at even distances, until it fails or a signal ends it. What it has slept
 * through, stopped by a shell or with the machine, is not made up for: the next report comes at the
 * next even distance.
 */
static enum status watch_report(const struct task *task)
{
    bool terminal = isatty(STDOUT_FILENO);
    uint64_t step = (uint64_t)(task->watch * (double)NSEC_PER_SEC), next = clock_ns();
    uint64_t now;
    enum status status;

    for (;;) {
        if (terminal)
            fputs("\033[H\033[2J", stdout); /* home, clear */
        status = task->run(task);
        if (status != STATUS_OK)
            return status;
        if (!terminal && !task->json)
            puts("");
        next += step;
        now = clock_ns();
        if (next < now)
            next += (now - next + step - 1) / step * step;
        clock_sleep_until(next);
    }
}

static const struct option long_options[] = {
    {"json", no_argument, NULL, 'j'},
    {"bytes", no_argument, NULL, 'b'},
    {"watch", optional_argument, NULL, 'w'},
    {"interval", required_argument, NULL, 'i'},
    {"socket", required_argument, NULL, 's'},
    {"output", required_argument, NULL, 'o'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {"html", no_argument, NULL, OPTION_HTML},
    {"findings", required_argument, NULL, OPTION_FINDINGS},
    {"svg", no_argument, NULL, OPTION_SVG},
    {"from", required_argument, NULL, OPTION_FROM},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"calls", no_argument, NULL, OPTION_CALLS},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"listen", optional_argument, NULL, OPTION_LISTEN},
    {"text", no_argument, NULL, OPTION_TEXT},
    INJECT_OPTIONS(INJECT_LONG_OPTION){NULL, 0, NULL, 0},
};

static enum status refuse_usage(const char *what, const char *about)
{
    fprintf(stderr, "npuctl: %s%s%s%s\nTry 'npuctl --help'.\n", what, about ? " \"" : "",
            about ? about : "", about ? "\"" : "");
    return STATUS_USAGE;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = text ? strtod(text, &end) : 1;
    return !text || (end != text && !*end && *seconds >= 0.01 && *seconds <= 86400);
}

/* An option that changes what is done: the task remembers it. NULL, or what it wants. */
static const char *take_option(int option, struct task *task)
{
    switch (option) {
    case 'j':
        task->json = true;
        break;
    case 'b':
        field_show_exact_sizes();
        break;
    case 'w':
        task->given |= OPTION_WATCH;
        return parse_seconds(optarg, &task->watch) ? NULL
                                                   : "--watch wants 0.01 to 86400 seconds, not";
    case 'i':
        return parse_seconds(optarg, &task->interval)
                   ? NULL
                   : "--interval wants 0.01 to 86400 seconds, not";
    case 's':
        task->path = optarg;
        task->named = true;
        break;
    case 'o':
        task->given |= OPTION_OUTPUT;
        task->output = optarg;
        break;
    case OPTION_LISTEN:
        task->given |= OPTION_LISTEN;
        task->listen = optarg;
        break;
    case OPTION_FINDINGS:
        task->given |= OPTION_FINDINGS;
        task->findings = optarg;
        break;
    case OPTION_FROM:
        task->given |= OPTION_FROM;
        task->from = optarg;
        break;
    case OPTION_SIZE:
        task->given |= OPTION_SIZE;
        return trace_size_read(optarg, &task->request.trace_size)
                   ? NULL
                   : "--size wants bytes, as 64M, of up to 4G, not";
    case OPTION_CALLS:
        task->request.trace_calls = true;
        task->given |= OPTION_CALLS;
        break;
    case OPTION_HTML:
    case OPTION_SVG:
    case OPTION_ONCE:
    case OPTION_TEXT:
        task->given |= (unsigned)option;
        break;
    default:
        task->rule.value[option - INJECT_KIND] = optarg;
        break;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct task task = {.path = socket_find("NPUD_ADMIN_SOCKET", NPUD_ADMIN_SOCKET_DEFAULT),
                        .request = NPUD__ADMIN_REQUEST__INIT};
    const char *wrong = NULL, *about = NULL;
    int c;

    occupy_standard_fds();
    while (!wrong && (c = getopt_long(argc, argv, "jbw::i:s:o:Vh", long_options, NULL)) != -1) {
        switch (c) {
        case 'V':
            puts("npuctl " NPUD_VERSION);
            return print_end(true);
        case 'h':
            print_usage(stdout);
            return print_end(true);
        case '?':
            fputs("Try 'npuctl --help'.\n", stderr);
            return STATUS_USAGE;
        default:
            wrong = take_option(c, &task);
            about = optarg;
            break;
        }
    }
    if (!wrong)
        wrong = command_parse(argv + optind, argc - optind, &task, &about);
    if (wrong)
        return refuse_usage(wrong, about);
    return task.given & OPTION_WATCH ? watch_report(&task) : task.run(&task);
}
