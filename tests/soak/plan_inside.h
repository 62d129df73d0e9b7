/* What the parts of plan.c share. */
#pragma once

#include "tests/soak/plan.h"

#define LOST ACL_ERROR_RT_SUSPECT_REMOTE_ERROR

/* --- operations --- */

/**
 * A new one at the end of the list, which is expected to return 0. op_end() when its consequences
 * are known.
 */
struct op *op_begin(struct plan *plan, unsigned what, unsigned p);
/** Returns its number. */
uint16_t op_end(struct plan *plan, const struct op *op);
uint16_t op_index(const struct plan *plan, const struct op *op);

/** It follows from another one: for telling what led to a failure. 0: none. */
void follow(struct op *op, uint16_t cause);
/** It may return this code, too. */
void allow(struct op *op, int code);
/** It returns this code. */
void expect(struct op *op, int code);
/** It begins when the other one has returned; and then knows what that knew. 0: none. */
void need(struct plan *plan, struct op *op, uint16_t other);

/* --- clocks and gates --- */

void join(uint16_t *into, const uint16_t *clock);
/** Does a closed gate of these hold it? */
bool waits_on(const struct plan *plan, uint64_t mask);
/**
 * What the operation found depends on a closed gate of these: the process that opens it comes
 * later.
 */
void look(struct plan *plan, struct op *op, uint64_t mask);

/* --- streams --- */

struct stream_plan *stream_of(struct plan *plan, unsigned p, unsigned stream);
/** The operation gives the stream something to do. Returns where. */
uint16_t task(struct plan *plan, struct op *op, unsigned stream);
bool room_for_error(const struct plan *plan, unsigned p, unsigned stream);
/** The next synchronise returns this code; -LOST: may return LOST; 0: if this record is lost. */
void fail(struct stream_plan *s, int code, uint16_t record);

/* --- events --- */

bool is_wild(unsigned var);
unsigned kind_of(const struct plan *plan, unsigned p, unsigned var);
struct latest *latest_of(struct plan *plan, unsigned p, unsigned var);
bool recorded(const struct latest *l);
/** Does a thread sleep on it, so that it must not be recorded? */
bool asleep(const struct plan *plan, unsigned p, unsigned var);
void set_asleep(struct plan *plan, unsigned p, unsigned var, bool sleeps);
/** Does p know that it is complete? */
bool complete(const struct plan *plan, unsigned p, const struct record *r);
/** Blocked, except for records whose state the plan cannot know. */
bool surely_blocked(const struct plan *plan, const struct record *r);
/** What waits for the record return when it is lost. */
int lost_code(const struct plan *plan, const struct record *r);
/**
 * A record at this place of its stream, which is the latest task of that. Its number is
 * plan->records.
 */
struct record *new_record(struct plan *plan, const struct op *op, uint16_t pos);
/** What the stream does from the operation on comes after the record, or the operation fails. */
void comes_after(struct plan *plan, struct op *op, uint16_t record, unsigned stream);
/** Some event that p may record on its stream, for a stream of q to wait for, or NO_VAR. */
unsigned some_var(const struct plan *plan, unsigned p, unsigned from, unsigned q);

/* --- gates that are notifies --- */

bool plan_is_latch_gate(unsigned gate);
uint16_t plan_latch_gate(struct plan *plan, unsigned p, unsigned gate, unsigned stream);
/** The operation that opens it, begun. */
struct op *plan_latch_opener(struct plan *plan, unsigned p, unsigned gate);
