/* Callbacks for failed tasks. */
#pragma once

struct session;

/* Described in client/core/upcall.h, through which rooms below call them. */
void exception_drain(struct session *s);
void exception_copier_ended(struct session *s);
