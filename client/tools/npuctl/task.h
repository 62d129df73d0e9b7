/* What npuctl has to do, and the commands that say so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/tools/npuctl/inject.h"
#include "proto/util/clock.h"
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

/** Options that go with some commands only. As getopt_long() returns them: no letters. */
enum task_option {
    OPTION_WATCH = 1,
    OPTION_HTML = 2, /* a trace as a page */
    OPTION_ONCE = 4, /* top prints, and shows no screen */
    OPTION_LISTEN = 8,
    OPTION_OUTPUT = 16,
    OPTION_TEXT = 32, /* metrics in the format before OpenMetrics */
    OPTION_FINDINGS = 64,
    OPTION_SVG = 128,   /* a graph as a picture */
    OPTION_SIZE = 256,  /* of rings of a trace */
    OPTION_CALLS = 512, /* a trace tells calls, too */
    OPTION_FROM = 1024, /* a trace is printed from a file */
};

/** What to do, from the command line. */
struct task {
    const char *path;
    bool named;                                  /* path was given on the command line */
    enum status (*run)(const struct task *task); /* does it */
    Npud__AdminRequest request;                  /* what npud is asked or told */
    const struct command *report; /* prints the answer; NULL: npud answers without a report */
    unsigned given, takes;        /* enum task_option: on the command line; by the command */
    bool json;
    double watch;         /* OPTION_WATCH: seconds from one report to the next */
    double interval;      /* seconds, of --interval; 0: not given */
    const char *output;   /* OPTION_OUTPUT: file for what cdi makes of the report; else NULL */
    const char *listen;   /* OPTION_LISTEN: address for scrapers of the metrics; else NULL */
    const char *from;     /* OPTION_FROM: what `trace stream` has written; else NULL */
    const char *stats;    /* of `trace stats`: a trace that was printed */
    const char *findings; /* OPTION_FINDINGS: a report of npu-check, for a trace; else NULL */
    struct inject_options rule; /* of the command inject */
    struct who who;             /* of the command who */
    uint64_t session;           /* of the command inspect */
    char **check;               /* of `check report`: arguments of npu-check */
};

#define RATES_S 0.2 /* between the two questions of a report with rates, if not told otherwise */

/** What --interval says, or `otherwise` seconds. */
static inline uint64_t task_interval_ns(const struct task *task, double otherwise)
{
    return (uint64_t)((task->interval > 0 ? task->interval : otherwise) * (double)NSEC_PER_SEC);
}

/** A command that prints a report is named as the field of Report, and as the key of its JSON. */
struct command {
    const char *name;
    const char *help;
    /**
     * Takes the words after the name and fills the task: run, if it is not ask_npud(), and takes.
     * NULL, or what is wrong: text, and *about the word or option it is about (NULL: none). NULL
     * for a report, which takes no words.
     */
    const char *(*parse)(char **words, int n, struct task *task, const char **about);
    /* NULL: as a table or JSON. A report of its own form is in its own order. */
    enum status (*print)(const Npud__Report *report, const struct task *task);
    const char *also; /* a second list of the same report, printed below if it is not empty */
    Npud__AdminRequest__Topic topic;
    bool single; /* one row by nature: printed as lines, and no list in JSON */
};
