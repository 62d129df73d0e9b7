/* The commands of npuctl: their table, and what each makes of its words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/tools/npuctl/inject.h"
#include "proto/wire/npud.pb-c.h"

/** The exit status. */
enum status {
    STATUS_OK = 0,
    STATUS_ERROR = 1,
    STATUS_USAGE = 2,
    STATUS_UNREACHABLE = 3,
};

/** Where runtimes of containers look for what cdi writes. */
#define CDI_OUTPUT_DEFAULT "/etc/cdi/npud.json"

/** Where metrics are served, if no address is named. */
#define LISTEN_DEFAULT "127.0.0.1:9835"

/** What `who` is asked about. */
struct who {
    enum who_object { WHO_DEVICE, WHO_QUEUE, WHO_EVENT } object;
    uint64_t number;
};

/** What to do, from the command line. */
struct task {
    const char *path;
    bool named;                   /* path was given on the command line */
    Npud__AdminRequest request;   /* what npud is asked or told */
    const struct command *report; /* prints the answer; NULL: npud answers without a report */
    bool json;
    bool html;          /* of a trace: as a page */
    double interval;    /* seconds between the two questions of a report with rates */
    const char *output; /* file for what cdi makes of the report */
    bool cdi;           /* the report is for that */
    const char *listen; /* address for scrapers of the metrics; NULL: they are printed */
    /* one question, `request`; or several reports */
    enum task_kind { TASK_ASK, TASK_EXPLAIN, TASK_WHO, TASK_METRICS, TASK_TOP } made_of;
    struct who who; /* TASK_WHO */
    bool once;      /* TASK_TOP: print, and show no screen */
};

/** A command that prints a report is named as the field of Report, and as the key of its JSON. */
struct command {
    const char *name;
    const char *help;
    /**
     * Takes the words after the name and fills the task. NULL, or what is wrong: text, and *about
     * the word or option it is about (NULL: none). NULL for a report, which takes no words.
     */
    const char *(*parse)(char **words, int n, const struct inject_options *options,
                         struct task *task, const char **about);
    /* NULL: as a table or JSON. A report of its own form is in its own order. */
    enum status (*print)(const Npud__Report *report);
    const char *also; /* a second list of the same report, printed below if it is not empty */
    Npud__AdminRequest__Topic topic;
    bool single; /* one row by nature: printed as lines, and no list in JSON */
};

/** All commands. */
extern const struct command commands[];
extern const size_t commands_n;

/** Fills the task from the words after the options. The answer is that of `parse` above. */
const char *command_parse(char **words, int n, const struct inject_options *options,
                          struct task *task, const char **about);
