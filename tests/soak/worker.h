/* What the parts of a process of the soak test share. */
#pragma once

#include "acl/acl.h"
#include "tests/soak/round.h"

struct worker {
    struct common *common;
    unsigned p;
    int fd; /* to the driver */
    const struct round *round;
    const struct op *op;
    aclrtStream stream[OWN];
    char *cell[CELLS];
};
extern struct worker me;

/**
 * Tell the driver that the operation went wrong (NULL: something else), and wait to be killed. Any
 * thread.
 */
__attribute__((noreturn, format(printf, 2, 3))) void trouble(const struct op *op,
                                                             const char *format, ...);

/** A call of the operation has returned code: as it should? */
void expect_code(const struct op *op, const char *call, int code);
#define EXPECT(call) expect_code(op, #call, (call))

/** What the test itself needs must succeed. */
void must_succeed(const char *call, int code);
#define MUST(call) must_succeed(#call, (call))

/** Make the context of the device current. */
void enter(unsigned device);

/**
 * Write the content that the operation gives its cell; compare it with the one that it must have.
 */
void cell_fill(const struct op *op);
void cell_check(const struct op *op);

/*
 * --- callbacks: streams 0 to 3 and 7 have threads of the process, 4 and 5 host functions, 6 none
 * ---
 */

/** Start the threads and subscribe them. */
void callbacks_start(void);
/** Unsubscribe and end them. */
void callbacks_stop(void);
/** Give the callback of the operation to its stream. */
void callbacks_launch(const struct op *op);
/** Let the callback that the gate stands for return. */
void callbacks_open_gate(void);
/** The stream is a new one. */
void callbacks_renew(unsigned stream);
/** All blocking callbacks of the stream must have returned. */
void callbacks_check_blocking(const struct op *op, unsigned stream);
/** Wait until all of them have run. */
void callbacks_await(const struct op *op);

/* --- notifies --- */

void latches_start(void);
void latches_stop(void);
void latches_record(const struct op *op);
void latches_wait(const struct op *op);
void latches_export(const struct op *op);
void latches_admit(const struct op *op);
void latches_import(const struct op *op);
void latches_import_refused(const struct op *op);

/* --- exceptions --- */

void exceptions_start(void);
/** From now on they are taken and not looked at. */
void exceptions_expect_any(void);
/** The stream is a new one. */
void exceptions_renew(unsigned stream);
/** The operation, which may fail, has just been submitted. */
void exceptions_expect(const struct op *op);
/** All exceptions of the stream that were due have been told, and no others. */
void exceptions_check(const struct op *op, unsigned stream);
