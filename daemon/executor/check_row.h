/*
 * The rows of npud --check-backend. Each runs in a process of its own, which has loaded the library
 * anew: one that hangs or crashes is the end of its row. A row may start further processes, its
 * parts. The process that prints the table never loads the library.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/executor/vendor.h"

enum check_answer { CHECK_NOT_KNOWN, CHECK_YES, CHECK_NO, CHECK_DIFFERS };

#define CHECK_VALUES 12

/** What a row has found. Sent as it is, from the row's process. */
struct check_result {
    uint32_t answer; /* enum check_answer */
    uint32_t over;   /* else the last word if the row hangs or crashes behind it */
    char text[2048]; /* room for the names of all symbols that a library may lack */
    uint32_t n;      /* values */
    struct check_value {
        char name[28];
        char unit[8];
        double value;
    } values[CHECK_VALUES];
};

/** The run: what the command line says, and what a row's process has opened. */
struct check {
    const char *spec; /* "acl:PATH" */
    const struct vendor *vendor;
    const char *path;
    bool nesting;
    uint32_t device;
    unsigned limit_s; /* of each row; 0: its own */
    const char *json;
    const char *rows; /* "1,3,5"; NULL: all */
    const char *kernel_file, *kernel_name;
    const char *part; /* what this process is; NULL: the one that prints */
    uid_t uid;        /* of this process; (uid_t)-1: as it is */

    struct vendor_library *library;
    struct vendor_lane *lane;
    struct check_result *result;
};

/** Rows that are asked without a device, and the one that says whether there is one. */
enum { CHECK_ROW_LIBRARY = 1, CHECK_ROW_DEVICE = 2, CHECK_ROW_NPUD = 19 };

/** A row says all about itself. */
struct check_row {
    unsigned number;
    const char *what;
    bool required;
    unsigned limit_s; /* it is ended then */
    void (*run)(struct check *c);
    /* What npud does: with "yes", and with "no" and "differs". */
    const char *yes, *no;
};

extern const struct check_row check_rows[];
extern const unsigned check_n_rows;

/* --- in a row's process --- */

/** The answer so far, in a sentence. */
void check_say(struct check *c, enum check_answer answer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Behind what check_say() has said. */
void check_add(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void check_value(struct check *c, const char *name, const char *unit, double value);
/** The result so far is to stand if the row comes to no end. */
void check_so_far(struct check *c);
/** Answer that the table of the library refused `what`; false if code is 0. */
bool check_refused(struct check *c, const char *what, int32_t code);
/** End the row here if a call of the table fails. */
#define CHECK_DO(c, what, call)                                                                    \
    do {                                                                                           \
        if (check_refused((c), (what), (call)))                                                    \
            return;                                                                                \
    } while (0)
/** End the row as not known if the table lacks the function. */
#define CHECK_NEED(c, function)                                                                    \
    do {                                                                                           \
        if (!(c)->vendor->function) {                                                              \
            check_say((c), CHECK_NO, "the library has nothing for it (" #function ")");            \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/** Open the library; then the device, with a lane. 0 or an error, which has been said. */
int32_t check_open(struct check *c);
int32_t check_begin(struct check *c);

/** One task on c->lane and the wait for it; a lane that has gone is replaced. */
int32_t check_copy(struct check *c, uint64_t dst, uint64_t src, uint64_t size, enum vendor_way way);
int32_t check_sync(struct check *c);
/** Bytes free on the device; 0: not known. */
uint64_t check_free_memory(struct check *c);
/** Is the device used by others, as far as its memory tells? */
bool check_is_busy(struct check *c);

/** Bytes that belong to a seed, and whether these are all of them. */
void check_fill(void *bytes, uint64_t size, uint64_t seed);
bool check_matches(const void *bytes, uint64_t size, uint64_t seed);
/** The same, on the device. code: of the copies. */
int32_t check_fill_device(struct check *c, uint64_t address, uint64_t size, uint64_t seed);
int32_t check_matches_device(struct check *c, uint64_t address, uint64_t size, uint64_t seed,
                             bool *matches);

/** Milliseconds and microseconds since a time of clock_ns(). */
double check_ms(uint64_t since);
double check_us(uint64_t since);
/** Of n times, which are sorted. */
double check_median(double *times, unsigned n);

/* --- rows --- */

void check_library(struct check *c);
void check_device(struct check *c);
void check_copies(struct check *c);
void check_rates(struct check *c);
void check_client_pages(struct check *c);
void check_progress(struct check *c);
void check_start(struct check *c);
void check_share(struct check *c);
void check_exporter_killed(struct check *c);
void check_importer_killed(struct check *c);
void check_memory_back(struct check *c);
void check_waits(struct check *c);
void check_old_bytes(struct check *c);
void check_stop_lane(struct check *c);
void check_lanes(struct check *c);
void check_abort(struct check *c);
void check_call(struct check *c);
void check_kernel(struct check *c);
void check_npud_killed(struct check *c);
