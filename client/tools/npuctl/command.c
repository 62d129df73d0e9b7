#include "client/tools/npuctl/command.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/cdi.h"
#include "client/tools/npuctl/check.h"
#include "client/tools/npuctl/doctor.h"
#include "client/tools/npuctl/draw.h"
#include "client/tools/npuctl/explain.h"
#include "client/tools/npuctl/inspect.h"
#include "client/tools/npuctl/metrics.h"
#include "client/tools/npuctl/monitor.h"
#include "client/tools/npuctl/top.h"
#include "client/tools/npuctl/trace_dump.h"
#include "client/tools/npuctl/who.h"

static const char *refuse_more_words(char **words, int n, const char **about)
{
    *about = n > 0 ? words[0] : NULL;
    return n > 0 ? "unexpected argument" : NULL;
}

static const char *parse_kill(char **words, int n, struct task *task, const char **about)
{
    if (n == 0)
        return "kill needs the number of a session";
    *about = words[0];
    if (!inject_parse_number(words[0], 1, UINT64_MAX, &task->request.end_session))
        return "no number of a session:";
    return refuse_more_words(words + 1, n - 1, about);
}

static const char *parse_explain(char **words, int n, struct task *task, const char **about)
{
    task->run = explain_run;
    task->takes = OPTION_WATCH;
    return refuse_more_words(words, n, about);
}

static const char *const objects[] = {
    [WHO_DEVICE] = "device", [WHO_QUEUE] = "queue", [WHO_EVENT] = "event"};
#define OBJECTS (sizeof(objects) / sizeof(objects[0]))

static const char *parse_who(char **words, int n, struct task *task, const char **about)
{
    size_t i = 0;

    task->run = who_run;
    task->takes = OPTION_WATCH;
    *about = n > 0 ? words[0] : NULL;
    if (n == 0)
        return "who needs device, queue or event, and a number";
    while (i < OBJECTS && strcmp(words[0], objects[i]) != 0)
        i++;
    if (i == OBJECTS)
        return "who takes device, queue or event, not";
    task->who.object = (enum who_object)i;
    if (n == 1)
        return "who needs a number after";
    *about = words[1];
    if (!inject_parse_number(words[1], 0, UINT64_MAX, &task->who.number))
        return "no number:";
    return refuse_more_words(words + 2, n - 2, about);
}

static const char *parse_metrics(char **words, int n, struct task *task, const char **about)
{
    *about = "--json";
    if (task->json)
        return "metrics are text, and do not go with";
    task->run = metrics_run;
    task->takes = task->given & OPTION_WATCH    ? OPTION_WATCH | OPTION_TEXT
                  : task->given & OPTION_LISTEN ? OPTION_LISTEN
                                                : OPTION_TEXT;
    /* `--listen ADDRESS`: the value of an option that may have none is a word of its own here. */
    if (n > 0 && task->given & OPTION_LISTEN && !task->listen) {
        task->listen = words[0];
        words++;
        n--;
    }
    return refuse_more_words(words, n, about);
}

static const char *parse_top(char **words, int n, struct task *task, const char **about)
{
    *about = "--once";
    if (task->json && !(task->given & OPTION_ONCE))
        return "as JSON, top needs";
    task->run = top_run;
    task->takes = OPTION_ONCE;
    return refuse_more_words(words, n, about);
}

static const char *parse_doctor(char **words, int n, struct task *task, const char **about)
{
    task->run = doctor_run;
    return refuse_more_words(words, n, about);
}

static const char *parse_inspect(char **words, int n, struct task *task, const char **about)
{
    task->run = inspect_run;
    task->takes = OPTION_WATCH;
    if (n == 0)
        return "inspect needs the number of a session";
    *about = words[0];
    if (!inject_parse_number(words[0], 1, UINT64_MAX, &task->session))
        return "no number of a session:";
    return refuse_more_words(words + 1, n - 1, about);
}

static const char *parse_graph(char **words, int n, struct task *task, const char **about)
{
    *about = "--json";
    if (task->json)
        return "a graph is a drawing, and does not go with";
    task->run = draw_run;
    task->takes = OPTION_OUTPUT | OPTION_SVG;
    return refuse_more_words(words, n, about);
}

static const char *parse_monitor(char **words, int n, struct task *task, const char **about)
{
    task->run = monitor_run;
    return refuse_more_words(words, n, about);
}

static const char *parse_upgrade(char **words, int n, struct task *task, const char **about)
{
    task->request.upgrade = true;
    return refuse_more_words(words, n, about);
}

static const char *parse_inject(char **words, int n, struct task *task, const char **about)
{
    /* What `inject list` prints. */
    static const struct command list_rules = {.name = "rules",
                                              .topic = NPUD__ADMIN_REQUEST__TOPIC__RULES};
    static struct inject_command inject; /* the request points into it */
    const char *wrong = inject_parse(words, n, &task->rule, &inject, about);

    if (wrong)
        return wrong;
    switch (inject.verb) {
    case INJECT_VERB_SET:
        task->request.inject = &inject.rule;
        break;
    case INJECT_VERB_LIST:
        task->request.topic = list_rules.topic;
        task->report = &list_rules;
        task->takes = OPTION_WATCH;
        break;
    case INJECT_VERB_CLEAR:
        task->request.clear_rule = inject.clear;
        task->request.clear_rules = inject.clear == 0;
        break;
    }
    return NULL;
}

static const char *parse_cdi(char **words, int n, struct task *task, const char **about)
{
    static const struct command devices = {
        .name = "devices", .topic = NPUD__ADMIN_REQUEST__TOPIC__DEVICES, .print = cdi_print};

    task->takes = OPTION_OUTPUT;
    task->report = &devices;
    task->request.topic = devices.topic;
    return refuse_more_words(words, n, about);
}

#define REPORT(topic_) .topic = NPUD__ADMIN_REQUEST__TOPIC__##topic_

const struct command commands[] = {
    {"status", "npud itself, and totals", REPORT(STATUS), .single = true, .also = "refusals"},
    {"devices", "the NPUs and what they did", REPORT(DEVICES), .also = "hardware"},
    {"executors", "processes that do device work", REPORT(EXECUTORS)},
    {"sessions", "connected processes", REPORT(SESSIONS)},
    {"streams", "what each waits for", REPORT(STREAMS)},
    {"events", "plain and IPC events", REPORT(EVENTS)},
    {"memory", "allocations on devices, and pinned", REPORT(MEMORY)},
    {"limits", "per user: used, and allowed", REPORT(LIMITS)},
    {"notifies", "notifies and count notifies", REPORT(NOTIFIES)},
    {"pools", "shared buffers, and their owners", REPORT(POOLS)},
    {"queues", "shared queues, and how fast", REPORT(QUEUES)},
    {"grants", "what each process may do with queues", REPORT(GRANTS)},
    {"routes", "routes by which npud moves messages", REPORT(ROUTES)},
    {"waits", "which process waits for which, and deadlocks", REPORT(WAITS), .also = "deadlocks"},
    {"explain",
     "why it hangs: the longest waits, what each of them ends in, across\n"
     "             processes, and what to do about it",
     .parse = parse_explain},
    {"who", "who device|queue|event NUMBER: the processes that use it, and how",
     .parse = parse_who},
    {"metrics", "what npud counts, as OpenMetrics text; with --listen, for a scraper to fetch",
     .parse = parse_metrics},
    {"top", "devices, sessions, blocked streams and queues, live; with --once, as text",
     .parse = parse_top},
    {"inspect",
     "all of SESSION: its process, what its streams wait for, and what waits for it,\n"
     "             what it has, and shares with which processes",
     .parse = parse_inspect},
    {"graph",
     "processes, queues and IPC events, and who waits for whom, as a graph for\n"
     "             Graphviz; with --svg as a picture",
     .parse = parse_graph},
    {"monitor",
     "what happens, line by line until interrupted: sessions, deaths, refusals, lost\n"
     "             devices, deadlocks, restarts of npud; with --json, a JSON object a line",
     .parse = parse_monitor},
    {"doctor",
     "has this host what npud and its programs need? A line for each check, and what\n"
     "             mends what is not well. Exit status 1 if something does not work",
     .parse = parse_doctor},
    {"kill",
     "end SESSION (a number from `sessions`) as if its process had died: what it\n"
     "             held is free, a wait for it gets an error. The process lives on, and\n"
     "             gets 507901 from calls that need npud",
     .parse = parse_kill},
    {"inject",
     "make tasks fail, hold them, or lose a device: sets a rule and prints its\n"
     "             number. `inject list` shows the rules, `inject clear` ends all of them or\n"
     "             one: what is held goes on, and a lost device is back",
     .parse = parse_inject},
    {"trace",
     "`trace start` and `trace stop`: what all streams and processes do. `trace dump`\n"
     "             prints it for Chrome's and Perfetto's viewers, `trace dump --html` as a\n"
     "             page that shows it by itself. `trace stream >FILE` writes all events until\n"
     "             the trace is stopped, for `trace dump --from=FILE`: none is overwritten\n"
     "             that it has time for. `trace stats FILE`: a table of what was printed",
     .parse = trace_parse},
    {"check",
     "`check start DIRECTORY`: processes that connect from now on write there what\n"
     "             they do, until `check stop`. `check report DIRECTORY` says what is wrong\n"
     "             with those that have ended; options of npu-check may follow",
     .parse = check_parse},
    {"upgrade",
     "replace the npud that runs by the installed program: sessions go on.\n"
     "             Refused if that cannot read what the one that runs has written",
     .parse = parse_upgrade},
    {"cdi",
     "write " CDI_OUTPUT_DEFAULT ", by which containers get NPUs:\n"
     "             podman run --device npud/npu=0",
     .parse = parse_cdi},
};
const size_t commands_n = sizeof(commands) / sizeof(commands[0]);

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < commands_n; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* --- what was meant --- */

#define NAME_MAX_CHARS 16 /* of a command; longer words are none of them */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Characters to insert, delete or change until one word is the other; two may change places. */
static unsigned count_edits(const char *a, const char *b)
{
    unsigned cost[NAME_MAX_CHARS + 1][NAME_MAX_CHARS + 1];
    size_t n = strlen(a), m = strlen(b);

    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = (unsigned)(i + j);
                continue;
            }
            cost[i][j] = least(least(cost[i - 1][j], cost[i][j - 1]) + 1,
                               cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    return cost[n][m];
}

/* The command that a word begins, or that a third of its letters is wrong of, at most; or NULL. */
static const char *find_nearest(const char *word)
{
    size_t n = strlen(word);
    unsigned best = (unsigned)n / 3 + 1;
    const char *nearest = NULL;

    if (n < 2 || n > NAME_MAX_CHARS)
        return NULL;
    for (size_t i = 0; i < commands_n; i++) {
        unsigned edits =
            strncmp(commands[i].name, word, n) == 0 ? 0 : count_edits(word, commands[i].name);

        if (edits < best) {
            best = edits;
            nearest = commands[i].name;
        }
    }
    return nearest;
}

static const char *refuse_command(const char *word)
{
    static char text[64];
    const char *nearest = find_nearest(word);

    if (!nearest)
        return "no such command:";
    snprintf(text, sizeof(text), "no such command (did you mean %s?):", nearest);
    return text;
}

static const char *parse_words(const struct command *command, char **words, int n,
                               struct task *task, const char **about)
{
    task->run = ask_npud;
    task->takes = 0;
    if (command->parse)
        return command->parse(words, n, task, about);
    task->takes = OPTION_WATCH;
    task->report = command;
    task->request.topic = command->topic;
    return refuse_more_words(words, n, about);
}

static const char *refuse_options(const struct task *task)
{
    static const struct {
        enum task_option option;
        const char *says;
    } places[] = {
        {OPTION_OUTPUT, "--output goes with cdi and graph"},
        {OPTION_HTML, "--html goes with trace dump"},
        {OPTION_SVG, "--svg goes with graph"},
        {OPTION_FINDINGS, "--findings goes with trace dump"},
        {OPTION_FROM, "--from goes with trace dump"},
        {OPTION_SIZE, "--size goes with trace start"},
        {OPTION_CALLS, "--calls goes with trace start"},
        {OPTION_ONCE, "--once goes with top"},
        {OPTION_LISTEN, "--listen goes with metrics, without --watch"},
        {OPTION_TEXT, "--text goes with metrics, without --listen"},
        {OPTION_WATCH, "--watch goes with reports"},
    };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (task->given & ~task->takes & places[i].option)
            return places[i].says;
    return NULL;
}

const char *command_parse(char **words, int n, struct task *task, const char **about)
{
    const struct command *command = n > 0 ? find_command(words[0]) : NULL;
    const char *wrong;

    *about = NULL;
    if (n == 0)
        return "no command given";
    *about = words[0];
    if (!command)
        return refuse_command(words[0]);
    *about = command->parse == parse_inject ? NULL : inject_option_given(&task->rule);
    if (*about)
        return "this goes with inject:";
    wrong = parse_words(command, words + 1, n - 1, task, about);
    if (wrong)
        return wrong;
    *about = NULL;
    return refuse_options(task);
}
