/*
 * Errors of the library: the code goes back to the caller, the sentence to aclGetRecentErrMsg(),
 * the code also to aclrtGetLastError() when it is one of the runtime layer (1070xx, 2070xx,
 * 5070xx). Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Of ACL_ERROR_RT_SOCKET_CLOSE. */
#define ERROR_LOST_SENTENCE                                                                        \
    "%s: npud has ended or closed the connection. Call aclFinalize and aclInit to connect anew. "  \
    "If it happens again, an administrator can see why: journalctl -u npud; under npu-run, add "   \
    "--verbose"

/**
 * Record a sentence for the calling thread; the value is the code to return, which is not 0. A
 * macro, so that compilers and analysers see that.
 */
#define error_set(code, ...) ERROR_NOT_ZERO(error_store((code), __VA_ARGS__))

/** The same without touching the last-error record, for answers that the API excepts from it. */
#define error_soft(code, ...) ERROR_NOT_ZERO(error_store_soft((code), __VA_ARGS__))

/**
 * Both return the code that the caller of the API gets. Here, and nowhere else, an error becomes a
 * code: once the session has ended, every code of the runtime layer becomes
 * ACL_ERROR_RT_SOCKET_CLOSE, because npud rewrites what the session had before it closes the
 * connection, and a refusal that comes of that must not be reported as a mistake of the program.
 */
int error_store(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
int error_store_soft(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

#define ERROR_NOT_ZERO(stored)                                                                     \
    ({                                                                                             \
        int stored_ = (stored);                                                                    \
        if (stored_ == 0)                                                                          \
            __builtin_unreachable();                                                               \
        stored_;                                                                                   \
    })

/**
 * Errors that a program polls for: the sentence is written only when the program asks for it, and
 * the same error twice in a row is one sentence. function is a literal. The value as of
 * error_set().
 */
typedef void error_render_fn(char *text, size_t size, const char *function, uint32_t a, uint32_t b);
int error_defer(int code, error_render_fn *render, const char *function, uint32_t a, uint32_t b);

/** A function that is declared but not there. Returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
int error_unsupported(const char *function) __attribute__((cold));

/** The heap is exhausted. Returns ACL_ERROR_RT_MEMORY_ALLOCATION. */
int error_no_memory(const char *function) __attribute__((cold));

/** A required pointer argument is NULL. Returns ACL_ERROR_INVALID_PARAM. */
int error_null(const char *function, const char *argument) __attribute__((cold));

#define ERROR_SENTENCE_MAX 512

/**
 * For an attempt that may fail unnoticed: between error_save() and error_save_end() the errors of
 * the calling thread go here alone, and the last one stays. error_tell() records it after all. Each
 * pair may stand inside of another one.
 */
struct error_saved {
    struct error_saved *outer;
    int code; /* 0: none */
    char sentence[ERROR_SENTENCE_MAX];
};
void error_save(struct error_saved *saved);
void error_save_end(struct error_saved *saved);

/** After error_save_end(): the program learns of `error`, which the attempt has returned. */
#define error_tell(saved, error) ERROR_NOT_ZERO(error_store_saved((saved), (error)))
int error_store_saved(const struct error_saved *saved, int error);

/** Where sentences go: one store for the process (err_msg_mode "1") instead of one per thread. */
void error_use_process_store(int on);

/** A step of a function that returns an error: if it fails, the function ends with its error. */
#define RETURN_IF_ERROR(step)                                                                      \
    do {                                                                                           \
        int error_ = (step);                                                                       \
        if (__builtin_expect(error_ != 0, 0))                                                      \
            return error_;                                                                         \
    } while (0)

/**
 * What lookup(..., &error) finds; if that is NULL, the function ends with the error.
 * s = FIND_OR_RETURN(stream_find, __func__, stream);
 */
#define FIND_OR_RETURN(lookup, ...)                                                                \
    ({                                                                                             \
        int error_;                                                                                \
        __typeof__(lookup(__VA_ARGS__, &error_)) found_ = lookup(__VA_ARGS__, &error_);            \
        if (__builtin_expect(!found_, 0))                                                          \
            return ERROR_NOT_ZERO(error_);                                                         \
        found_;                                                                                    \
    })

#define REQUIRE(argument)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(argument), 0))                                                      \
            return error_null(__func__, #argument);                                                \
    } while (0)

/** The same for functions that have another code for it. */
#define REQUIRE_OR(code, argument)                                                                 \
    do {                                                                                           \
        if (__builtin_expect(!(argument), 0))                                                      \
            return error_set((code), "%s: %s is NULL", __func__, #argument);                       \
    } while (0)
