#include "client/tools/npuctl/command.h"

#include <stdint.h>
#include <string.h>

#include "client/tools/npuctl/trace_dump.h"

static const char *refuse_more_words(char **words, int n, const char **about)
{
    *about = n > 0 ? words[0] : NULL;
    return n > 0 ? "unexpected argument" : NULL;
}

static const char *refuse_inject_options(const struct inject_options *options, const char **about)
{
    *about = inject_option_given(options);
    return *about ? "this goes with inject:" : NULL;
}

static const char *parse_kill(char **words, int n, const struct inject_options *options,
                              struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    if (n == 0)
        return "kill needs the number of a session";
    *about = words[0];
    if (!inject_parse_number(words[0], 1, UINT64_MAX, &task->request.end_session))
        return "no number of a session:";
    return refuse_more_words(words + 1, n - 1, about);
}

static const char *parse_explain(char **words, int n, const struct inject_options *options,
                                 struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    task->made_of = TASK_EXPLAIN;
    return refuse_more_words(words, n, about);
}

static const char *const objects[] = {
    [WHO_DEVICE] = "device", [WHO_QUEUE] = "queue", [WHO_EVENT] = "event"};
#define OBJECTS (sizeof(objects) / sizeof(objects[0]))

static const char *parse_who_words(char **words, int n, struct who *who, const char **about)
{
    size_t i = 0;

    *about = n > 0 ? words[0] : NULL;
    while (n > 0 && i < OBJECTS && strcmp(words[0], objects[i]) != 0)
        i++;
    if (n == 0 || i == OBJECTS)
        return "who needs device, queue or event, and a number";
    who->object = (enum who_object)i;
    if (n == 1)
        return "who needs a number after";
    *about = words[1];
    if (!inject_parse_number(words[1], 0, UINT64_MAX, &who->number))
        return "no number:";
    *about = words[n - 1];
    return n > 2 ? "unexpected argument" : NULL;
}

static const char *parse_who(char **words, int n, const struct inject_options *options,
                             struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    task->made_of = TASK_WHO;
    return parse_who_words(words, n, &task->who, about);
}

static const char *parse_metrics(char **words, int n, const struct inject_options *options,
                                 struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    *about = "--json";
    if (task->json)
        return "metrics are text, and do not go with";
    task->made_of = TASK_METRICS;
    /* `--listen ADDRESS`: the value of an option that may have none is a word of its own here. */
    if (n > 0 && task->listen && strcmp(task->listen, LISTEN_DEFAULT) == 0) {
        task->listen = words[0];
        words++;
        n--;
    }
    return refuse_more_words(words, n, about);
}

static const char *parse_top(char **words, int n, const struct inject_options *options,
                             struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    *about = "--once";
    if (task->json && !task->once)
        return "as JSON, top needs";
    task->made_of = TASK_TOP;
    return refuse_more_words(words, n, about);
}

static const char *parse_upgrade(char **words, int n, const struct inject_options *options,
                                 struct task *task, const char **about)
{
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    task->request.upgrade = true;
    return refuse_more_words(words, n, about);
}

static const char *parse_inject(char **words, int n, const struct inject_options *options,
                                struct task *task, const char **about)
{
    /* What `inject list` prints. */
    static const struct command list_rules = {.name = "rules",
                                              .topic = NPUD__ADMIN_REQUEST__TOPIC__RULES};
    static struct inject_command inject; /* the request points into it */
    const char *wrong = inject_parse(words, n, options, &inject, about);

    if (wrong)
        return wrong;
    switch (inject.verb) {
    case INJECT_VERB_SET:
        task->request.inject = &inject.rule;
        break;
    case INJECT_VERB_LIST:
        task->request.topic = list_rules.topic;
        task->report = &list_rules;
        break;
    case INJECT_VERB_CLEAR:
        task->request.clear_rule = inject.clear;
        task->request.clear_rules = inject.clear == 0;
        break;
    }
    return NULL;
}

static const char *parse_cdi(char **words, int n, const struct inject_options *options,
                             struct task *task, const char **about)
{
    static const struct command devices = {.name = "devices",
                                           .topic = NPUD__ADMIN_REQUEST__TOPIC__DEVICES};
    const char *wrong = refuse_inject_options(options, about);

    if (wrong)
        return wrong;
    task->cdi = true;
    task->report = &devices;
    task->request.topic = devices.topic;
    return refuse_more_words(words, n, about);
}

#define REPORT(topic_) .topic = NPUD__ADMIN_REQUEST__TOPIC__##topic_

const struct command commands[] = {
    {"status", "npud itself, and totals", REPORT(STATUS), .single = true, .also = "refusals"},
    {"devices", "the NPUs and what they did", REPORT(DEVICES)},
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
     "             page that shows it by itself",
     .parse = trace_parse},
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

const char *command_parse(char **words, int n, const struct inject_options *options,
                          struct task *task, const char **about)
{
    const struct command *command = n > 0 ? find_command(words[0]) : NULL;
    const char *wrong;

    *about = NULL;
    if (n == 0)
        return "no command given";
    if (command && command->parse)
        return command->parse(words + 1, n - 1, options, task, about);
    wrong = refuse_inject_options(options, about);
    if (wrong)
        return wrong;
    *about = words[0];
    if (!command)
        return "no such command:";
    task->report = command;
    task->request.topic = command->topic;
    return refuse_more_words(words + 1, n - 1, about);
}
