#include "client/profile/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/core/lock_order.h"
#include "proto/util/lift_fd.h"

#define WRITE_AT  (64u * 1024) /* bytes of events that are put together */
#define EVENT_MAX 2048
#define ARRAY_END "\n]\n"

void profile_file_init(struct profile_file *f)
{
    *f = (struct profile_file){.fd = -1};
    lock_init(&f->lock, LOCK_PROFILE_FILE);
}

int profile_file_begin(struct profile_file *f, const char *folder, const char *name, uint64_t limit)
{
    char *path;

    if (asprintf(&path, "%s/%s/trace_%d.json", folder, name, (int)getpid()) < 0)
        return ENOMEM;
    pthread_mutex_lock(&f->lock);
    f->path = path;
    f->limit = limit;
    pthread_mutex_unlock(&f->lock);
    return 0;
}

bool profile_file_is_empty(struct profile_file *f)
{
    bool empty;

    pthread_mutex_lock(&f->lock);
    empty = !f->any;
    pthread_mutex_unlock(&f->lock);
    return empty;
}

/* The folder of the file alone: the one above it is there. */
static int make_file(struct profile_file *f)
{
    char *slash = strrchr(f->path, '/');
    int r;

    *slash = '\0';
    r = mkdir(f->path, 0750) == 0 || errno == EEXIST ? 0 : errno;
    *slash = '/';
    if (r != 0)
        return r;
    f->fd = lift_fd(open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
    return f->fd >= 0 ? 0 : errno;
}

static int write_all(int fd, const char *bytes, size_t size, off_t at)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, bytes, size, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        bytes += n;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Locked. There is always room for the end of the array behind the events. */
static void write_events(struct profile_file *f)
{
    if (f->used == 0 || f->error != 0)
        return;
    if (f->fd < 0)
        f->error = make_file(f);
    if (f->error == 0) {
        memcpy(f->events + f->used, ARRAY_END, sizeof(ARRAY_END) - 1);
        f->error = write_all(f->fd, f->events, f->used + sizeof(ARRAY_END) - 1, f->end);
    }
    if (f->error == 0)
        f->end += (off_t)f->used;
    f->used = 0;
}

/* Locked. */
static bool make_room(struct profile_file *f)
{
    size_t size = WRITE_AT + EVENT_MAX + sizeof(ARRAY_END);

    if (f->path && f->size == 0 && (f->events = malloc(size)))
        f->size = size;
    return f->path && f->size != 0 && f->error == 0 &&
           (f->limit == 0 || (uint64_t)f->end + f->used < f->limit);
}

void profile_file_put(struct profile_file *f, const char *format, ...)
{
    char event[EVENT_MAX - 64];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(event, sizeof(event), format, ap);
    va_end(ap);
    pthread_mutex_lock(&f->lock);
    if (n > 0 && (size_t)n < sizeof(event) && make_room(f)) {
        f->used += (size_t)sprintf(f->events + f->used, "%s{\"pid\":%d,%s}", f->any ? ",\n" : "[\n",
                                   (int)getpid(), event);
        f->any = true;
        if (f->used >= WRITE_AT)
            write_events(f);
    }
    pthread_mutex_unlock(&f->lock);
}

int profile_file_flush(struct profile_file *f)
{
    int error;

    pthread_mutex_lock(&f->lock);
    write_events(f);
    error = f->error;
    pthread_mutex_unlock(&f->lock);
    return error;
}

void profile_file_drop(struct profile_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->events);
    f->path = f->events = NULL;
    f->fd = -1;
    f->used = f->size = 0;
    f->end = 0;
    f->any = false;
    f->error = 0;
}

int profile_file_end(struct profile_file *f)
{
    int error;

    pthread_mutex_lock(&f->lock);
    write_events(f);
    error = f->error;
    profile_file_drop(f);
    pthread_mutex_unlock(&f->lock);
    return error;
}

/* --- text --- */

/* Bytes of the character of UTF-8 that text begins with; 0: it is none. */
static unsigned utf8_length(const unsigned char *text)
{
    unsigned n = text[0] < 0x80                       ? 1
                 : text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                 : (text[0] & 0xf0) == 0xe0           ? 3
                 : text[0] >= 0xf0 && text[0] <= 0xf4 ? 4
                                                      : 0;

    for (unsigned i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return n;
}

char *profile_quote(char *out, const char *text)
{
    char *to = out;

    *to++ = '"';
    while (*text) {
        unsigned n = utf8_length((const unsigned char *)text);

        if (n == 0) {
            *to++ = '?';
            text++;
        } else if (n > 1) {
            memcpy(to, text, n);
            to += n;
            text += n;
        } else if (*text == '"' || *text == '\\') {
            *to++ = '\\';
            *to++ = *text++;
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            to += sprintf(to, "\\u%04x", (unsigned)(unsigned char)*text++);
        } else {
            *to++ = *text++;
        }
    }
    *to++ = '"';
    *to = '\0';
    return out;
}
