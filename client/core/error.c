#include "client/core/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/core/upcall.h"
#include "client/core/process.h"
#include "client/core/thread.h"

#define STORE_MAX 4096 /* older sentences fall off */

static _Atomic bool process_wide;

void error_use_process_store(int on)
{
    process_wide = on;
}

/*
 * Sentences of the whole process. How long they are stands beside their lock in the page that a
 * fork wipes: a child has none, in whatever state another thread of its parent had the text at that
 * moment.
 */
static char process_text[STORE_MAX];

/*
 * Put a line in front of the `old` characters that are in text, of STORE_MAX bytes. Returns how
 * many there are now.
 */
static size_t prepend_line(char *text, size_t old, const char *line)
{
    size_t n = strlen(line), behind = n + 1;

    if (behind + old + 1 > STORE_MAX)
        old = STORE_MAX - behind - 1;
    if (old == 0)
        behind = n;
    memmove(text + behind, text, old);
    memcpy(text, line, n);
    if (old > 0)
        text[n] = '\n';
    text[behind + old] = '\0';
    return behind + old;
}

static void store_for_process(const char *line)
{
    pthread_mutex_lock(&process->store_lock);
    process->store_length = prepend_line(process_text, process->store_length, line);
    pthread_mutex_unlock(&process->store_lock);
}

static void store_for_thread(const char *line)
{
    struct thread *t = thread_self();

    if (!t->errors)
        t->errors = calloc(1, STORE_MAX);
    if (t->errors)
        prepend_line(t->errors, strlen(t->errors), line);
}

/* What was deferred comes before what happened after it. */
static void store_deferred(struct thread *t)
{
    char line[ERROR_SENTENCE_MAX];
    int n;

    if (!t->deferred.render)
        return;
    n = snprintf(line, sizeof(line), "[%d] ", t->deferred.code);
    t->deferred.render(line + n, sizeof(line) - (size_t)n, t->deferred.function, t->deferred.a,
                       t->deferred.b);
    t->deferred.render = NULL;
    store_for_thread(line);
}

static void store_sentence(int code, const char *fmt, va_list ap)
{
    int saved = errno;
    char line[ERROR_SENTENCE_MAX];
    int n = snprintf(line, sizeof(line), "[%d] ", code);

    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    store_deferred(thread_self());
    if (process_wide)
        store_for_process(line);
    else
        store_for_thread(line);
    errno = saved;
}

static __attribute__((format(printf, 2, 3))) void store_line(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    store_sentence(code, fmt, ap);
    va_end(ap);
}

void error_save(struct error_saved *saved)
{
    struct thread *t = thread_self();

    saved->outer = t->saved;
    saved->code = 0;
    /* Several threads may have the dummy, and a saved error is one's: theirs are told at once. */
    if (t == thread_current)
        t->saved = saved;
}

void error_save_end(struct error_saved *saved)
{
    thread_self()->saved = saved->outer;
}

int error_store_saved(const struct error_saved *saved, int error)
{
    return saved->code != 0 ? error_store(saved->code, "%s", saved->sentence) : error;
}

static bool of_runtime_layer(int code)
{
    int class = code / 1000;

    return class == 107 || class == 207 || class == 507;
}

/*
 * The code to return for an error: if the session has ended, the code that says so. Codes of other
 * layers stay: they tell of arguments and of the library's own state.
 */
static int final_code(int code)
{
    struct session *s = atomic_load_explicit(&process->session, memory_order_acquire);

    if (!s || !of_runtime_layer(code) || !upcalls->session_ended(s) ||
        !upcalls->session_npud_gone(s))
        return code;
    return ACL_ERROR_RT_SOCKET_CLOSE;
}

/*
 * A replaced code gets the sentence of the new one. Each sentence begins with the function. What is
 * kept may be told after the session has ended, so its code is replaced then.
 */
static void store_final(struct thread *t, int code, int final, const char *fmt, va_list ap)
{
    char line[ERROR_SENTENCE_MAX];

    if (t->saved) {
        t->saved->code = code;
        vsnprintf(t->saved->sentence, sizeof(t->saved->sentence), fmt, ap);
        return;
    }
    if (final == code) {
        store_sentence(code, fmt, ap);
        return;
    }
    vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, ": ")] = '\0';
    store_line(final, ERROR_LOST_SENTENCE, line);
}

int error_store(int code, const char *fmt, ...)
{
    struct thread *t = thread_self();
    int final = final_code(code);
    va_list ap;

    va_start(ap, fmt);
    store_final(t, code, final, fmt, ap);
    va_end(ap);
    if (!t->saved && of_runtime_layer(final))
        t->last_error = final;
    return final;
}

int error_store_soft(int code, const char *fmt, ...)
{
    int final = final_code(code);
    va_list ap;

    va_start(ap, fmt);
    store_final(thread_self(), code, final, fmt, ap);
    va_end(ap);
    return final;
}

int error_defer(int code, error_render_fn *render, const char *function, uint32_t a, uint32_t b)
{
    struct thread *t = thread_self();
    bool again = t->deferred.render == render && t->deferred.function == function &&
                 t->deferred.a == a && t->deferred.b == b;
    char text[ERROR_SENTENCE_MAX];

    if (__builtin_expect(final_code(code) != code, 0))
        return upcalls->session_error_lost(function);
    /* A program that polls: nothing has changed. */
    if (__builtin_expect(again && t->deferred.code == code && !t->saved && !process_wide, 1)) {
        if (of_runtime_layer(code))
            t->last_error = code;
        return code;
    }
    if (t->saved || process_wide) {
        render(text, sizeof(text), function, a, b);
        return error_set(code, "%s", text);
    }
    store_deferred(t);
    t->deferred.render = render;
    t->deferred.code = code;
    t->deferred.function = function;
    t->deferred.a = a;
    t->deferred.b = b;
    if (of_runtime_layer(code))
        t->last_error = code;
    return code;
}

int error_unsupported(const char *function)
{
    /* The session has nothing to do with it: also when it has ended. */
    if (!thread_self()->saved)
        store_line(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not implemented by npud", function);
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

int error_no_memory(const char *function)
{
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
}

int error_null(const char *function, const char *argument)
{
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", function, argument);
}

aclError aclnpudReportError(aclError code, const char *sentence)
{
    return code == 0 || !sentence ? code : error_store(code, "%s", sentence);
}

static char *take_of_process(void)
{
    char *text = NULL;

    pthread_mutex_lock(&process->store_lock);
    if (process->store_length > 0)
        text = strdup(process_text);
    if (text)
        process->store_length = 0;
    pthread_mutex_unlock(&process->store_lock);
    return text;
}

const char *aclGetRecentErrMsg(void)
{
    struct thread *t = thread_self();

    store_deferred(t);
    free(t->shown);
    if (process_wide) {
        t->shown = take_of_process();
    } else {
        t->shown = t->errors;
        t->errors = NULL;
    }
    return t->shown;
}

aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    struct thread *t = thread_self();
    aclError last = t->last_error;

    if (level != ACL_RT_THREAD_LEVEL)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtGetLastError: level is %d, must be ACL_RT_THREAD_LEVEL (0)", level);
    t->last_error = 0;
    return last;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    if (level != ACL_RT_THREAD_LEVEL)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtPeekAtLastError: level is %d, must be ACL_RT_THREAD_LEVEL (0)",
                         level);
    return thread_self()->last_error;
}
