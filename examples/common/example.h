/*
 * What the programs of an example share: checked calls, lines that name the program, and the two
 * ways in which processes reach each other here. A handle travels in a file; "now" travels through
 * a FIFO, so that neither process has to look again and again.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"

static char example_name[32];

__attribute__((format(printf, 1, 2))) static inline void say(const char *fmt, ...)
{
    va_list ap;

    printf("%s: ", example_name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", example_name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

/* Lines of several processes end up in one terminal: each is written whole. */
__attribute__((format(printf, 1, 2))) static inline void set_name(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(example_name, sizeof(example_name), fmt, ap);
    va_end(ap);
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IOLBF, 0);
}

/* --- calls --- */

/* call is the text of a whole call; its name is enough to find it. */
static inline void check_call(aclError error, const char *call)
{
    const char *why;

    if (error == ACL_SUCCESS)
        return;
    why = aclGetRecentErrMsg();
    fail("%.*s: error %d: %s", (int)strcspn(call, "("), call, error, why ? why : "no message");
}

#define CHECK(call) check_call((call), #call)

/* For a call that has to be refused: with this code, and a sentence that says why. */
static inline void check_refused(aclError error, aclError wanted, const char *call)
{
    const char *why;

    if (error != wanted)
        fail("%s: error %d where %d was expected", call, error, wanted);
    why = aclGetRecentErrMsg();
    say("%.*s is refused: %s", (int)strcspn(call, "("), call, why ? why : "no message");
}

#define REFUSED(error, call) check_refused((call), (error), #call)

/* Of the latest record of an event, of any process: 1 is complete. */
static inline aclrtEventRecordedStatus event_status(aclrtEvent event)
{
    aclrtEventRecordedStatus status;

    CHECK(aclrtQueryEventStatus(event, &status));
    return status;
}

static inline void expect_complete(aclrtEvent event, const char *what)
{
    aclrtEventRecordedStatus status = event_status(event);

    if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        fail("%s: status %d where 1 was expected", what, status);
    say("%s: status %d", what, status);
}

/* --- from process to process --- */

struct path {
    char text[PATH_MAX];
};

static inline struct path path_in(const char *dir, const char *name, int number)
{
    struct path p;

    if (snprintf(p.text, sizeof(p.text), "%s/%s.%d", dir, name, number) >= (int)sizeof(p.text))
        fail("%s: name too long", dir);
    return p;
}

/* Under its name, the file is always whole: it gets the name when it is written. */
static inline void file_write(const char *dir, const char *name, int number, const void *bytes,
                              size_t size)
{
    struct path p = path_in(dir, name, number), tmp = path_in(dir, name, -number - 1);
    FILE *f = fopen(tmp.text, "w");

    if (!f || fwrite(bytes, size, 1, f) != 1 || fclose(f) != 0 || rename(tmp.text, p.text) < 0)
        fail("%s: cannot be written: %s", p.text, strerror(errno));
}

static inline void file_read(const char *dir, const char *name, int number, void *bytes,
                             size_t size)
{
    struct path p = path_in(dir, name, number);
    FILE *f = fopen(p.text, "r");

    if (!f || fread(bytes, size, 1, f) != 1)
        fail("%s: cannot be read: %s", p.text, strerror(errno));
    fclose(f);
}

static inline void handle_write(const char *dir, const char *name, int number,
                                const aclrtIpcEventHandle *handle)
{
    file_write(dir, name, number, handle, sizeof(*handle));
}

static inline aclrtIpcEventHandle handle_read(const char *dir, const char *name, int number)
{
    aclrtIpcEventHandle handle;

    file_read(dir, name, number, &handle, sizeof(handle));
    return handle;
}

/* The process that comes first makes the FIFO. Opening it waits for the other side. */
static inline int fifo_open(const char *dir, const char *name, int number, int flags)
{
    struct path p = path_in(dir, name, number);
    int fd = -1;

    if (mkfifo(p.text, 0600) == 0 || errno == EEXIST)
        fd = open(p.text, flags | O_CLOEXEC);
    if (fd < 0)
        fail("%s: %s", p.text, strerror(errno));
    return fd;
}

/*
 * Returns when the other process is in (or behind) its signal_wait() for the same name and number.
 */
static inline void signal_send(const char *dir, const char *name, int number)
{
    int fd = fifo_open(dir, name, number, O_WRONLY);

    if (write(fd, "!", 1) != 1)
        fail("%s.%d: %s", name, number, strerror(errno));
    close(fd);
}

static inline void signal_wait(const char *dir, const char *name, int number)
{
    int fd = fifo_open(dir, name, number, O_RDONLY);
    char c;

    if (read(fd, &c, 1) != 1)
        fail("%s.%d: the other process has gone", name, number);
    close(fd);
}

#endif
