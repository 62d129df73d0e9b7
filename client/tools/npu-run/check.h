/*
 * npu-run --check: a directory into which the processes of the command write what they do, and
 * npu-check, which tells at the end what is wrong.
 */
#pragma once

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

struct check {
    bool wanted;
    /* What options say; NULL: nothing. */
    const char *kinds, *host, *report, *write_suppressions, *keep;
    const char **suppressions; /* n of them */
    unsigned n_suppressions;
    bool verbose;
    int exit_code;                /* for findings, of a command that has succeeded */
    int judged;                   /* npu-check's status */
    char findings[PATH_MAX + 16]; /* a file in the directory; its name is none of a process's */
    char directory[PATH_MAX];
};

#define CHECK_EXIT_CODE 86

/**
 * An option of npu-run, by its number in the table of options (CHECK_OPTION_*). False: the value is
 * refused, and a message has been printed. `argc` is a bound for the number of options.
 */
bool check_read_option(struct check *c, int option, const char *value, int argc);

enum check_option {
    CHECK_OPTION_CHECK = 256,
    CHECK_OPTION_HOST,
    CHECK_OPTION_REPORT,
    CHECK_OPTION_SUPPRESSIONS,
    CHECK_OPTION_WRITE_SUPPRESSIONS,
    CHECK_OPTION_EXIT_CODE,
    CHECK_OPTION_KEEP,
};

/**
 * Makes the directory, and lets npu-check look at it while it is empty: an option that it refuses,
 * or a file that cannot be written, is told before the command has run for hours. npu-check gets
 * the signal mask. False: a message has been printed, and nothing is left.
 */
bool check_begin(struct check *c, const sigset_t *mask);

/** In the command, before it is executed. */
void check_set_environment(const struct check *c);

/** The command has ended: tells what is wrong. */
void check_judge(struct check *c, const sigset_t *mask, bool for_trace);
/** The findings as JSON, after check_judge() for a trace; NULL: there are none. */
const char *check_findings(const struct check *c);
/** Returns the status for npu-run, `status` being the command's. Removes the directory. */
int check_end(struct check *c, int status);
/** The command did not run: only removes the directory. Returns `status`. */
int check_give_up(struct check *c, int status);
void check_free(struct check *c);
