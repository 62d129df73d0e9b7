/* Callbacks for failed tasks. */
#pragma once

struct session;

/** Described in client/core/upcall.h, through which rooms below call it. */
void exception_drain(struct session *s);
