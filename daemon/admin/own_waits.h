/*
 * The request of a user about the waits of the processes of this user. Its handler stands here and
 * not in control/, because it makes a report (dispatch.h).
 */
#pragma once

#include <stdint.h>

struct call;
struct session;

/** Handler of the request OwnWaits. */
int32_t own_waits_answer(struct call *call);

/** The session ends: what there is of its report is freed. */
void own_waits_drop(struct session *session);
