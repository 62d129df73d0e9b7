/*
 * The request of a user about the waits of the processes of this user. Its handler stands here and
 * not in control/, because it makes a report (dispatch.h).
 */
#pragma once

#include <stdint.h>

struct call;

/** Handler of the request OwnWaits. */
int32_t own_waits_answer(struct call *call);
