/*
 * The files of a profile: Chrome's trace format, an array of events in JSON, one event a line. One
 * file of the process (host) and one of each device.
 *
 * Each write ends the array, and the next one begins over that end: so a process that dies leaves
 * whole JSON that lacks what was in memory. The kernel may cut a write of a process that is killed
 * at a page: then the last line is cut. The file and its folder are made with the first write.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Set up by profile_file_init(); written between profile_file_begin() and profile_file_end(). */
struct profile_file {
    pthread_mutex_t lock; /* of all that follows */
    char *path;           /* NULL: not begun, and events are dropped */
    int fd;               /* -1: not made yet */
    char *events;
    size_t used, size; /* of events that are not written yet */
    off_t end;         /* of events in the file, without what ends the array */
    bool any;          /* an event was put */
    uint64_t limit;    /* bytes; 0: none */
    int error;         /* errno of the first write that failed; 0: none */
};

/** When the library is loaded, and in a forked child: what there was is the parent's. */
void profile_file_init(struct profile_file *f);

/** A file <folder>/<name>/trace_<pid>.json. 0, or an errno. */
int profile_file_begin(struct profile_file *f, const char *folder, const char *name,
                       uint64_t limit);

/** Has no event been put so far? */
bool profile_file_is_empty(struct profile_file *f);

/**
 * An event: an object of JSON without its braces and without "pid". Any thread; writes when there
 * is much.
 */
void profile_file_put(struct profile_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Writes what is in memory. 0, or the errno of the first write that has failed so far. */
int profile_file_flush(struct profile_file *f);

/** Writes, and closes. As profile_file_flush(). */
int profile_file_end(struct profile_file *f);

/** Closes, and writes nothing: for a forked child, before profile_file_init(). Without the lock. */
void profile_file_drop(struct profile_file *f);

/**
 * Text as a string of JSON, in quotes, in out, which has room for PROFILE_QUOTED(size of text).
 * What is no UTF-8 becomes "?". Returns out.
 */
#define PROFILE_QUOTED(size) (6 * (size) + 3)
char *profile_quote(char *out, const char *text);
