/*
 * Actors (tests/common/actor.h) that have streams and events, and make one call after the other.
 *
 * Each actor has streams on both devices, named by device and lane and made when first used. What
 * an actor is asked and answers travels in a struct act; its function runs in the actor (which is a
 * fork of the test, so any function of the test will do).
 */
#pragma once

#include "gate.h"
#include "tests/common/actor.h"

#define ACTORS_MAX 3
#define DEVICES    2
#define LANES      12

/* Names of streams, on either device. WAITING + form is the stream that waits in that form. */
enum lane { RECORD_1, RECORD_2, PROBE, SPARE, WAITING, WAITING_END = WAITING + WAIT_FORMS };
_Static_assert(WAITING_END <= LANES, "every form has its lane");

struct act {
    void (*fn)(struct act *a);
    aclrtEvent event;
    int device, lane;
    int number; /* whatever fn takes it for: form of wait, timeout in ms … */
    unsigned seconds;
    aclrtIpcEventHandle handle;
    /* The answer: what the call returned and aclGetRecentErrMsg() said, and fn's own value. */
    aclError error;
    int64_t value;
    char message[256];
};

/** Start n actors. Before the test uses the library, and after npud_start(). */
void event_actors_start(unsigned n);
/** Let them all leave, and assert that npud holds nothing any more. */
void event_actors_end(void);
/** Let one leave and assert that it went well; npud knows of it when this returns. */
void event_actor_end(unsigned who);
pid_t event_actor_pid(unsigned who);

/** Let an actor run a.fn. Returns the answer. */
struct act event_actor_ask(unsigned who, struct act a);

/** Code of an answer, which must be 0: prints code and sentence when not. */
#define DONE(call)                                                                                 \
    do {                                                                                           \
        struct act a_ = (call);                                                                    \
        if (a_.error != ACL_SUCCESS)                                                               \
            ck_abort_msg("%s: %d: %s", #call, a_.error, a_.message);                               \
    } while (0)

/** In the actor: the stream with this name, its device made current. */
aclrtStream lane_stream(int device, int lane);

/* --- what actors are asked to do to streams --- */

/** Hold the stream until lane_open(). */
struct act lane_close(unsigned who, int device, int lane);
struct act lane_open(unsigned who, int device, int lane);
struct act lane_synchronize(unsigned who, int device, int lane);
/** value: is it at its end? When `settled`, after engine_turn() on that device. */
struct act lane_idle(unsigned who, int device, int lane, bool settled);
struct act device_synchronize(unsigned who, int device, int timeout_ms);

/* --- IPC events --- */

/** One handle of an event, in one process. */
struct ref {
    unsigned who;
    aclrtEvent event;
    const char *name;
};

struct act ref_create(unsigned who, int device, struct ref *ref);
struct act ref_export(struct ref *ref, aclrtIpcEventHandle *handle);
struct act ref_open(unsigned who, int device, const aclrtIpcEventHandle *handle, struct ref *ref);
struct act ref_destroy(struct ref *ref);
struct act ref_record(struct ref *ref, int device, int lane);
/** Let a stream of ref's process wait; a limit of the form is `seconds`. */
struct act ref_wait(struct ref *ref, int device, int lane, enum wait_form form, unsigned seconds);
/** value: the aclrtEventRecordedStatus, or -1 when nothing was written. */
struct act ref_status(struct ref *ref);
/** timeout_ms 0: aclrtSynchronizeEvent(). */
struct act ref_synchronize(struct ref *ref, int timeout_ms);
/**
 * aclrtSynchronizeEvent() in a second thread of the actor, which can be asked for other things
 * meanwhile. Returns when that thread sleeps or has come back; value: it sleeps.
 */
struct act ref_synchronize_begin(struct ref *ref);
/** What became of it. Waits for it to come back, up to LIMIT_MS: then value is 0, else 1. */
struct act ref_synchronize_end(struct ref *ref);

/** Is this its status? */
bool ref_is(struct ref *ref, bool complete);
