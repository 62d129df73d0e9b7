#include "gate.h"

#include <stdlib.h>

const char *const wait_form_names[WAIT_FORMS] = {
    [WAIT_PLAIN] = "StreamWait",
    [WAIT_TIMEOUT] = "StreamWaitWithTimeout",
    [WAIT_FLAG] = "StreamWaitWithFlag",
    [WAIT_OP] = "StreamWait, SetOpWaitTimeout",
    [WAIT_FLAG_OP] = "StreamWaitWithFlag, SetOpWaitTimeout",
};

bool drains(aclrtStream s)
{
    aclError error = aclrtSynchronizeStreamWithTimeout(s, BLOCKED_MS);

    ck_assert_msg(error == 0 || error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "synchronise: %d",
                  error);
    return error == 0;
}

bool idle(aclrtStream s)
{
    aclrtStreamStatus status;

    OK(aclrtStreamQuery(s, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

/*
 * Three times. During the first, the engine may not have looked at the doorbells yet. During the
 * second, it has, but a stream that rang may come behind the probe in the round. When the third is
 * seen, that round is over.
 */
static void turn_three_times(aclrtStream probe)
{
    for (int i = 0; i < 3; i++) {
        OK(aclnpudLaunchDelay(0, 0, probe));
        OK(aclrtSynchronizeStreamWithTimeout(probe, LIMIT_MS));
    }
}

void engine_turn(aclrtStream probe)
{
    pid_t server;

    /* Of one engine: with chaos, the server may be another one after each of them. */
    do {
        server = getenv("NPUD_CHAOS") ? npud_server_pid() : 0;
        turn_three_times(probe);
    } while (server != 0 && server != npud_server_pid());
}

aclError wait_by(enum wait_form form, aclrtStream s, aclrtEvent e, unsigned seconds)
{
    aclError error;

    if (form == WAIT_OP || form == WAIT_FLAG_OP)
        OK(aclrtSetOpWaitTimeout(seconds));
    if (form == WAIT_TIMEOUT)
        error = aclrtStreamWaitEventWithTimeout(s, e, (int32_t)seconds);
    else if (form == WAIT_FLAG)
        error = aclrtStreamWaitEventWithFlag(s, e, seconds, ACL_EVENT_WAIT_DEFAULT);
    else if (form == WAIT_FLAG_OP)
        error = aclrtStreamWaitEventWithFlag(s, e, UINT32_MAX, ACL_EVENT_WAIT_DEFAULT);
    else
        error = aclrtStreamWaitEvent(s, e);
    if (form == WAIT_OP || form == WAIT_FLAG_OP)
        OK(aclrtSetOpWaitTimeout(0));
    return error;
}
