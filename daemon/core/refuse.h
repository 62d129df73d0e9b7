/* The ACL error and the sentence for each cause of a refusal. Control thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/cause.h"

struct call;
struct user;

/**
 * Refuse a request: the sentence says of what is refused, in the words of fmt, why, and what to do.
 * Returns the ACL error, for the handler to return; 0 for CAUSE_NONE.
 */
#define refuse(call, cause, ...) refuse_payer(call, cause, (call)->session->user, __VA_ARGS__)

/** As refuse(), where another user than that of the session pays. */
int32_t refuse_payer(struct call *call, enum cause cause, const struct user *payer, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));

/** As refuse(), if the sentence needs no name of what is refused. Not for CAUSE_NONE. */
int32_t refuse_plainly(struct call *call, enum cause cause);

/** A client is told of a refusal: counted by its cause. CAUSE_NONE: one that the table lacks. */
void refuse_count(enum cause cause);
/** How often, since this process began. */
uint64_t refuse_counted(enum cause cause);
/** The cause as causes.inc has it, CAUSE_... */
const char *refuse_name(enum cause cause);

/** Logs, once per session, that npud or the user has no more of what it was refused for. */
void refuse_log(const struct call *call);

/**
 * Was the request refused for want of something that empty buffers have: of this user's, or, if
 * *payer is NULL, of any user's?
 */
bool refuse_lacks_buffers(const struct call *call, const struct user **payer);

/**
 * A refusal that the table does not have: the client has broken the protocol, or the code is not
 * npud's to choose. Returns error, for the handler to return.
 */
int32_t refuse_with_error(struct call *call, int32_t error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** The sentence only, for a reply that is no error. */
void refuse_explain(struct call *call, enum cause cause, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * The sentence of a refusal that is not of a request of a session. what: as above; "": the sentence
 * does without. payer: NULL if no limit of a user can be the cause. Returns the ACL error.
 */
int32_t refuse_text(char *text, size_t size, enum cause cause, const struct user *payer,
                    const char *what);
