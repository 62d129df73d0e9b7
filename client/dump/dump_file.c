#include "client/dump/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/core/api_call.h"
#include "proto/util/lift_fd.h"

static _Atomic(int32_t (*)(const acldumpChunk *, int32_t)) program_callback;

void dump_file_set_callback(int32_t (*callback)(const acldumpChunk *piece, int32_t size))
{
    atomic_store(&program_callback, callback);
}

int dump_make_folders(const char *path)
{
    char *part = strdup(path);
    int r = part ? 0 : ENOMEM;

    for (char *at = part; r == 0 && (at = strchr(at + 1, '/'));) {
        *at = '\0';
        if (mkdir(part, 0750) != 0 && errno != EEXIST)
            r = errno;
        *at = '/';
    }
    free(part);
    return r;
}

bool dump_file_begin(struct dump_file *f, const char *path)
{
    *f = (struct dump_file){.fd = -1, .callback = atomic_load(&program_callback)};
    f->piece = calloc(1, sizeof(*f->piece) + DUMP_PIECE);
    if (!f->piece)
        return false;
    if (f->callback) {
        strncpy(f->piece->fileName, path, sizeof(f->piece->fileName) - 1);
        return true;
    }
    if (dump_make_folders(path) == 0)
        f->fd = lift_fd(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
    if (f->fd >= 0)
        return true;
    free(f->piece);
    return false;
}

static CALLS_PROGRAM bool give_piece(struct dump_file *f)
{
    return f->callback(f->piece, (int32_t)(sizeof(*f->piece) + f->piece->bufLen)) == 0;
}

static bool write_piece(struct dump_file *f)
{
    const uint8_t *from = f->piece->dataBuf;
    size_t left = f->piece->bufLen;

    while (left > 0) {
        ssize_t n = write(f->fd, from, left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        left -= (size_t)n;
    }
    return true;
}

/* What is in the piece goes on; after a failure nothing does. */
static void pass_on(struct dump_file *f, bool last)
{
    f->piece->isLastChunk = last;
    if (!f->failed)
        f->failed = f->callback ? !give_piece(f) : !write_piece(f);
    f->piece->offset += f->piece->bufLen;
    f->piece->bufLen = 0;
}

void dump_file_put(struct dump_file *f, const void *bytes, size_t size)
{
    const char *from = bytes;

    while (size > 0 && !f->failed) {
        size_t part;

        /* Not before more comes: the last piece says that it is the last one. */
        if (f->piece->bufLen == DUMP_PIECE)
            pass_on(f, false);
        part = DUMP_PIECE - f->piece->bufLen;
        if (part > size)
            part = size;
        memcpy(f->piece->dataBuf + f->piece->bufLen, from, part);
        f->piece->bufLen += (uint32_t)part;
        from += part;
        size -= part;
    }
}

void dump_file_print(struct dump_file *f, const char *format, ...)
{
    char *text;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        f->failed = true;
        return;
    }
    dump_file_put(f, text, (size_t)n);
    free(text);
}

bool dump_file_end(struct dump_file *f)
{
    pass_on(f, true);
    if (f->fd >= 0)
        close(f->fd);
    free(f->piece);
    return !f->failed;
}
