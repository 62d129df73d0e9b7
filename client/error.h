/*
 * Errors of the library: the code goes back to the caller, the sentence to aclGetRecentErrMsg(),
 * the code also to aclrtGetLastError() when it is one of the runtime layer (1070xx, 2070xx,
 * 5070xx). Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Record a sentence for the calling thread; the value is code. A macro, so that compilers and analysers see that what is returned
 * is not 0.
 */
#define error_set(code, ...) (error_store((code), __VA_ARGS__), (code))

/** The same without touching the last-error record, for answers that the API excepts from it. */
#define error_soft(code, ...) (error_store_soft((code), __VA_ARGS__), (code))

void error_store(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
void error_store_soft(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/**
 * Errors that a program polls for: what render would write is put into words only when somebody asks for it, and the same one after itself is told
 * once. function is a literal. Returns code.
 */
typedef void error_render_fn(char *text, size_t size, const char *function, uint32_t a, uint32_t b);
int error_defer(int code, error_render_fn *render, const char *function, uint32_t a, uint32_t b);

/** A function that is declared but not there. Returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
int error_unsupported(const char *function) __attribute__((cold));

/** A required pointer argument is NULL. Returns ACL_ERROR_INVALID_PARAM. */
int error_null(const char *function, const char *argument) __attribute__((cold));

/** While on, errors of the calling thread are recorded nowhere: for an attempt that may fail unnoticed. */
void error_mute(bool on);

/** Where sentences go: one store for the process (err_msg_mode "1") instead of one per thread. */
void error_use_process_store(int on);

#define REQUIRE(argument)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(argument), 0))                                                      \
            return error_null(__func__, #argument);                                                \
    } while (0)
