/* Answers to npud. */
#pragma once

#include <stddef.h>

#include "proto/wire/executor_message.h"

/**
 * Sends it, with `size` bytes behind it, of at most ANSWER_MORE, and a descriptor that stays the
 * caller's; -1: none. An answer with an error gets the calling thread's vendor_text(). Any thread.
 * Does not return when npud is gone.
 */
void answer_send(struct executor_answer *answer, const void *more, size_t size, int fd);

#define ANSWER_MORE 4096u

/** npud is not at the other end any more, or the socket is not ours: the process ends. */
_Noreturn void answer_nobody(int error);
