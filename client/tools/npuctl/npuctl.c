/*
 * npuctl: which process holds what, and which waits for which. Everything that is printed is read
 * through protobuf-c's descriptors of npud.proto, so a new field appears by itself, and a new
 * report needs one row in `commands`.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/command.h"
#include "client/tools/npuctl/explain.h"
#include "client/tools/npuctl/field.h"
#include "client/tools/npuctl/metrics.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "client/tools/npuctl/top.h"
#include "client/tools/npuctl/who.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"
#include "proto/wire/packet.h"

static void print_usage(FILE *f)
{
    fputs("Usage: npuctl [OPTION]... COMMAND\n"
          "       npuctl [OPTION]... kill SESSION\n"
          "       npuctl [OPTION]... inject fail|stall|lose-device [RULE-OPTION]...\n"
          "       npuctl [OPTION]... inject list | clear [RULE]\n"
          "       npuctl [OPTION]... who device|queue|event NUMBER\n"
          "       npuctl [OPTION]... metrics [--listen [ADDRESS]]\n"
          "       npuctl [OPTION]... top [--once]\n"
          "       npuctl [OPTION]... upgrade\n"
          "       npuctl [OPTION]... cdi\n"
          "       npuctl [OPTION]... trace start | stop | dump [--html]\n"
          "Ask npud what each process holds, and which process waits for which; end a\n"
          "session; make tasks fail; replace npud; or tell containers of it.\n"
          "\n",
          f);
    for (size_t i = 0; i < commands_n; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\n"
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
          "  -b, --bytes        print exact sizes in tables, too: bytes, not KiB, MiB and so on\n"
          "  -w, --watch[=SECONDS]\n"
          "                     print again every SECONDS (default 1) until interrupted\n"
          "  -i, --interval=SECONDS\n"
          "                     rates are over so many seconds (default 0.2)\n"
          "      --listen[=ADDRESS]\n"
          "                     of metrics: serve them as http://ADDRESS/metrics until SIGTERM;\n"
          "                     IP:PORT, [IPV6]:PORT or a socket's path, default\n"
          "                     " LISTEN_DEFAULT "\n"
          "      --once         of top: print once, and show no screen\n"
          "  -o, --output=FILE  with cdi: the file to write, - for standard output\n"
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
          "Exit status: 0 printed; 1 npud answered with an error, or the output could not be\n"
          "written; 2 wrong usage; 3 no npud could be reached.\n",
          f);
}

static enum status run_task(const struct task *task)
{
    switch (task->made_of) {
    case TASK_EXPLAIN:
        return explain_run(task);
    case TASK_WHO:
        return who_run(task);
    case TASK_TOP:
        return top_run(task);
    case TASK_METRICS:
        return metrics_run(task);
    default:
        return ask_npud(task);
    }
}

/*
 * Again and again, at even distances, until it fails or a signal ends it. What it has slept
 * through, stopped by a shell or with the machine, is not made up for: the next report comes at the
 * next even distance.
 */
static enum status watch_report(const struct task *task, double seconds)
{
    bool terminal = isatty(STDOUT_FILENO);
    uint64_t step = (uint64_t)(seconds * (double)NSEC_PER_SEC), next = clock_ns();
    uint64_t now;
    enum status status;

    for (;;) {
        if (terminal)
            fputs("\033[H\033[2J", stdout); /* home, clear */
        status = run_task(task);
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
    {"json", no_argument, NULL, 'j'},         {"bytes", no_argument, NULL, 'b'},
    {"watch", optional_argument, NULL, 'w'},  {"interval", required_argument, NULL, 'i'},
    {"socket", required_argument, NULL, 's'}, {"output", required_argument, NULL, 'o'},
    {"version", no_argument, NULL, 'V'},      {"help", no_argument, NULL, 'h'},
    {"html", no_argument, NULL, 'H'},         {"once", no_argument, NULL, 'O'},
    {"listen", optional_argument, NULL, 'L'}, INJECT_OPTIONS(INJECT_LONG_OPTION){NULL, 0, NULL, 0},
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

int main(int argc, char **argv)
{
    struct task task = {.path = socket_find("NPUD_ADMIN_SOCKET", NPUD_ADMIN_SOCKET_DEFAULT),
                        .interval = 0.2,
                        .request = NPUD__ADMIN_REQUEST__INIT};
    struct inject_options options = {0};
    double seconds = 0;
    const char *wrong, *about;
    int c;

    task.request.id = 1;
    task.request.protocol = PROTOCOL_ADMIN;
    while ((c = getopt_long(argc, argv, "jbw::i:s:o:Vh", long_options, NULL)) != -1) {
        switch (c) {
        case 'j':
            task.json = true;
            break;
        case 'b':
            field_show_exact_sizes();
            break;
        case 'w':
            if (!parse_seconds(optarg, &seconds))
                return refuse_usage("--watch wants 0.01 to 86400 seconds, not", optarg);
            break;
        case 'i':
            if (!parse_seconds(optarg, &task.interval))
                return refuse_usage("--interval wants 0.01 to 86400 seconds, not", optarg);
            break;
        case 's':
            task.path = optarg;
            task.named = true;
            break;
        case 'o':
            task.output = optarg;
            break;
        case 'H':
            task.html = true;
            break;
        case 'O':
            task.once = true;
            break;
        case 'L':
            task.listen = optarg ? optarg : LISTEN_DEFAULT;
            break;
        case 'V':
            puts("npuctl " NPUD_VERSION);
            return print_end(true);
        case 'h':
            print_usage(stdout);
            return print_end(true);
        default:
            if (c >= INJECT_KIND && c < INJECT_END) {
                options.value[c - INJECT_KIND] = optarg;
                break;
            }
            fputs("Try 'npuctl --help'.\n", stderr);
            return STATUS_USAGE;
        }
    }
    wrong = command_parse(argv + optind, argc - optind, &options, &task, &about);
    if (wrong)
        return refuse_usage(wrong, about);
    if (task.output && !task.cdi)
        return refuse_usage("--output goes with cdi", NULL);
    if (task.html && !(task.report && task.report->print))
        return refuse_usage("--html goes with trace dump", NULL);
    if (task.once && task.made_of != TASK_TOP)
        return refuse_usage("--once goes with top", NULL);
    if (seconds > 0 && task.made_of == TASK_TOP)
        return refuse_usage("--watch goes with reports", NULL);
    if (task.listen && (task.made_of != TASK_METRICS || seconds > 0))
        return refuse_usage("--listen goes with metrics, without --watch", NULL);
    if (seconds > 0 && task.made_of == TASK_ASK && (!task.report || task.report->print || task.cdi))
        return refuse_usage("--watch goes with reports", NULL);
    if (!task.report && task.made_of == TASK_ASK &&
        !random_fill(&task.request.token, sizeof(task.request.token))) {
        fputs("npuctl: the kernel gives no random bytes, which commands are told apart by\n",
              stderr);
        return STATUS_ERROR;
    }
    return seconds > 0 ? watch_report(&task, seconds) : run_task(&task);
}
