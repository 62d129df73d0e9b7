/*
 * The benchmark behind `make bench`: the rows with a budget, each beside the raw primitive
 * it is compared with.
 *
 * A measurement is a contest of two sides. They take turns within milliseconds, for many short
 * rounds; the ratio is taken per round, and its median and spread (10th to 90th percentile) are
 * what counts. A noisy machine shifts both sides.
 *
 * Processes: the one that the user starts runs itself again under npu-run, once per group of rows,
 * so that every group has an npud of its own. That one measures, and appends its results to a file.
 * Its helpers (helper.h) are this program as well.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <stdio.h>

#include "acl/acl.h"

struct result {
    char row[16];
    char what[96];
    char note[96];
    char unit[16];                          /* of value and baseline; empty: ns */
    double value_ns, value_low, value_high; /* median, 10th and 90th percentile */
    double baseline_ns, baseline_low, baseline_high;
    double ratio, low, high;
    double spin_ns; /* placement_measure() of its process */
    double budget;
    bool at_least; /* the ratio is one of rates: baseline time / value time */
    bool ok;
};

/** What a row is called and what it must reach. */
#define BUDGET_NONE (-1.0)

struct row {
    const char *name;
    const char *what;
    double budget; /* BUDGET_NONE: the figure is told and not judged */
    bool at_least;
};

/** Do n operations; the nanoseconds that one of them took. */
typedef double (*side_fn)(void *arg, unsigned n);

struct contest {
    side_fn value, baseline;
    void *arg; /* for both sides */
    unsigned n_value, n_baseline;
    unsigned rounds;
};

struct options {
    bool smoke;
    bool ab;             /* this process is one of two that are compared: ab.h */
    bool restartable;    /* every npud comes back */
    double spin_ns;      /* placement_measure() */
    const char *results; /* file that measuring processes append to */
    const char *bindir;  /* where npu-run is */
};

extern struct options options;

/* --- measure.c --- */

uint64_t now_ns(void);

/** The full count, or the tiny one of a smoke run. */
unsigned count_of(unsigned full, unsigned smoke);

/** Run the contest. The caller may add a note before it hands the result to result_emit(). */
struct result contest_run(const struct row *row, const struct contest *contest);

/** The result of samples that have a fixed baseline. */
struct result result_of_samples(const struct row *row, double *samples, unsigned n,
                                double baseline_ns);

/**
 * Median of n samples, and the one that `tail` percent lie below and the one that as many lie
 * above. Sorts them.
 */
void samples_spread(double *samples, unsigned n, unsigned tail, double *low, double *median,
                    double *high);

/**
 * The result of n pairs, value and baseline of a round each. Sorts both arrays. tail: how many
 * percent of the ratios lie below `low`, and as many above `high`.
 */
struct result result_of_pairs(const struct row *row, double *values, double *baselines, unsigned n,
                              unsigned tail);

/** Append to the results file. */
void result_emit(const struct result *result);

/**
 * Emit all, and before them one row `name` that repeats the one with the worst ratio (but for
 * ab.h).
 */
void results_emit_worst(const char *name, const struct result *results, unsigned n);

/** One getppid system call: the unit of the rows about the cost of a call. */
double side_getppid(void *arg, unsigned n);

/** End this process after so long: a benchmark that hangs must not keep its user waiting. */
void watchdog_start(unsigned seconds);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The npud that listens at NPUD_SOCKET. */
pid_t bench_npud_pid(void);

/** Wait until its threads sleep, and its heap has given back what is free. */
void await_quiet(pid_t pid);

/** Fork a process that runs fn(arg), or die. */
pid_t start_process(int (*fn)(void *arg), void *arg);
/** What has ended with this status must have exited with 0. */
void expect_success(const char *name, int status);

/** End with the library's message if the call failed. */
#define CHECK(call) check_acl((call), #call)
void check_acl(aclError error, const char *call);

/* --- groups of rows --- */

void rows_query(void);           /* 1 */
void rows_record(void);          /* 2 */
void rows_submit(void);          /* 3 */
void rows_ipc(void);             /* 4 */
void rows_ipc_asleep(void);      /* 4b, under an npud that never spins */
void rows_sleepers(void);        /* 4s */
void rows_crowd(void);           /* 5 */
void rows_mbuf(void);            /* 6 */
void rows_idle(void);            /* 12 */
void rows_copy(void);            /* 9 */
void rows_copy_strict(void);     /* 9s, of strict devices */
void rows_request(void);         /* 10 */
void rows_request_one_cpu(void); /* 10, under an npud on the same CPU */
void rows_first_use(void);       /* 11 */
void rows_callback(void);        /* 13 */
void rows_python(void);          /* 14 */
void rows_queue_polling(void);   /* 7 */
void rows_queue_asleep(void);    /* 8 */
void rows_queue_rate(void);      /* 15 */
void rows_restart(void);         /* 16, under an npud that comes back */
void rows_register(void);        /* 17 */
void rows_memory(void);          /* 18 */
void rows_growth(void);          /* 19 */

/* 20, each under an npud of its own; and under one that comes back */
void rows_footprint_session(void);
void rows_footprint_device(void);
void rows_footprint_event(void);
void rows_footprint_stream(void);
void rows_kept_session(void);
void rows_kept_device(void);
void rows_kept_event(void);
void rows_kept_stream(void);
void rows_check(void);  /* 21 */
void rows_kernel(void); /* 22 */
void rows_check(void);
void rows_graph(void);   /* 24 */
void rows_channel(void); /* 26 */

/* 28, over a vendor's library that is none, and over npud's own */
void rows_null_awake(void);
void rows_null_asleep(void);
void rows_null_idle(void);
void rows_restart_executors(void);
void rows_nested(void);

/**
 * What `bench --crowd N` does, under an npud of its own: assembles N clients of it, prints their
 * npud's socket, and lets them go at the end of its input.
 */
int crowd_main(char **argv);

/** What `bench --first-use` does: once through, and prints the nanoseconds. */
int first_use_main(void);
