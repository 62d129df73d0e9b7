/*
 * What a stream that may stand still (stream_hold()) can be asked without guessing at times. Calls
 * of the library, in the process that has the stream; what must not fail is asserted.
 */
#pragma once

#include <stdbool.h>

#include "tests/common/harness.h"

#define BLOCKED_MS 2      /* how long a call is left to block that must block for ever */
#define LIMIT_MS   300000 /* against hanging: something that must happen has not */
#define LIMIT_S    100    /* a limit of a stream wait that never passes */

/** Has s come to its end within BLOCKED_MS? For what must not happen use idle() after
 * engine_turn(). */
bool drains(aclrtStream s);
/** Is s at its end now? */
bool idle(aclrtStream s);

/**
 * A task there and back on `probe`, a stream with nothing else to do: when it returns, the engine
 * of its device has looked at whatever this process had submitted before. A stream of the device
 * that is not idle() then is blocked.
 */
void engine_turn(aclrtStream probe);

/** The calls that make a stream wait, with the limit that each takes in its own way. */
enum wait_form {
    WAIT_PLAIN,   /* aclrtStreamWaitEvent; no limit */
    WAIT_TIMEOUT, /* aclrtStreamWaitEventWithTimeout */
    WAIT_FLAG,    /* aclrtStreamWaitEventWithFlag, its own limit */
    WAIT_OP,      /* aclrtStreamWaitEvent, limit of aclrtSetOpWaitTimeout */
    WAIT_FLAG_OP, /* aclrtStreamWaitEventWithFlag, limit of aclrtSetOpWaitTimeout */
    WAIT_FORMS
};
extern const char *const wait_form_names[WAIT_FORMS];

/** One of them. The process-wide limit is none again afterwards. Returns what the call said. */
aclError wait_by(enum wait_form form, aclrtStream s, aclrtEvent e, unsigned seconds);
