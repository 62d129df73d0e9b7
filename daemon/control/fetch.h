/*
 * The objects that requests are about: found by the number in the request, among those of the
 * session. Control thread.
 */
#pragma once

#include <stdint.h>

struct call;
struct ipc_open;
struct session;

/** What a request is about. */
enum need {
    NEED_NOTHING,
    NEED_DEVICE, /* that the session has opened */
    NEED_STREAM,
    NEED_EVENT,
    NEED_IPC_EVENT,
    NEED_NOTIFY,
    NEED_QUEUE, /* that the session is attached to */
    NEED_MEMORY,
    NEED_BINARY,
};

/** Set call->of to the object with this number. 0, or the ACL error with its sentence in call. */
int32_t fetch_object(struct call *call, enum need need, uint32_t number);

/** The session's open IPC event in that slot, or NULL. */
struct ipc_open *fetch_ipc_event(struct session *session, uint32_t slot);
