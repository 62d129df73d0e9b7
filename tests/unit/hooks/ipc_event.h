/*
 * daemon/core/ipc_event.c for test_ipc_model: each atomic operation is a step, a page has four
 * slots, and the locks and survivors of sessions are those of the model.
 */
#pragma once

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/hash.h"
#include "daemon/base/waitlist.h"
#include "daemon/base/waker.h"
#include "tests/unit/interleave_steps.h"

#define IPC_SLOTS 4u
#include "daemon/core/session.h"
#include "daemon/core/survivor.h"

struct survivor *model_survivor_of(struct session *session);
void engine_lock_all(struct session *session);
void engine_unlock_all(struct session *session);
#define waitlist_lock(list)     ((void)(list), interleave_lock())
#define waitlist_unlock(list)   ((void)(list), interleave_unlock())
#define waker_wake(word)        futex_wake_all(word)
#define survivor_of(session)    model_survivor_of(session)
#define session_lock(session)   engine_lock_all(session)
#define session_unlock(session) engine_unlock_all(session)
