#include "client/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/process.h"
#include "client/thread.h"

#define SENTENCE_MAX 512
#define STORE_MAX    4096 /* older sentences fall off */

static _Atomic bool process_wide;

void error_use_process_store(int on)
{
    process_wide = on;
}

/* Put a line in front of what is there. */
static void prepend(struct error_text *e, const char *line)
{
    size_t n = strlen(line), old = e->text ? strlen(e->text) : 0;

    if (!e->text) {
        e->text = malloc(STORE_MAX);
        if (!e->text)
            return;
        e->size = STORE_MAX;
    }
    if (n + old + 2 > STORE_MAX)
        old = STORE_MAX - n - 2;
    memmove(e->text + n + (old ? 1 : 0), e->text, old);
    memcpy(e->text, line, n);
    if (old)
        e->text[n] = '\n';
    e->text[n + (old ? 1 : 0) + old] = '\0';
}

static void store(int code, const char *fmt, va_list ap)
{
    int saved = errno;
    char line[SENTENCE_MAX];
    int n = snprintf(line, sizeof(line), "[%d] ", code);

    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    if (process_wide) {
        pthread_mutex_lock(&process->store_lock);
        prepend(&process->store, line);
        pthread_mutex_unlock(&process->store_lock);
    } else {
        prepend(&thread_self()->errors, line);
    }
    errno = saved;
}

void error_mute(bool on)
{
    thread_self()->muted = on;
}

static bool of_runtime_layer(int code)
{
    int class = code / 1000;

    return class == 107 || class == 207 || class == 507;
}

void error_store(int code, const char *fmt, ...)
{
    struct thread *t = thread_self();
    va_list ap;

    if (t->muted)
        return;
    va_start(ap, fmt);
    store(code, fmt, ap);
    va_end(ap);
    if (of_runtime_layer(code))
        t->last_error = code;
}

void error_store_soft(int code, const char *fmt, ...)
{
    va_list ap;

    if (thread_self()->muted)
        return;
    va_start(ap, fmt);
    store(code, fmt, ap);
    va_end(ap);
}

int error_unsupported(const char *function)
{
    return error_soft(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not implemented by npud", function);
}

int error_null(const char *function, const char *argument)
{
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", function, argument);
}

const char *aclGetRecentErrMsg(void)
{
    struct thread *t = thread_self();
    struct error_text *from = process_wide ? &process->store : &t->errors;
    struct error_text previous = t->shown;

    if (process_wide)
        pthread_mutex_lock(&process->store_lock);
    t->shown = *from;
    *from = (struct error_text){0};
    if (process_wide)
        pthread_mutex_unlock(&process->store_lock);
    error_text_deinit(&previous);
    return t->shown.text;
}

aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    struct thread *t = thread_self();
    aclError last = t->last_error;

    if (level != ACL_RT_THREAD_LEVEL)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtGetLastError: level %d is unknown", level);
    t->last_error = 0;
    return last;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    if (level != ACL_RT_THREAD_LEVEL)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtPeekAtLastError: level %d is unknown",
                         level);
    return thread_self()->last_error;
}
