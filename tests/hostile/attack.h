/*
 * What hostile processes of the second user tell the test that has started them (test_state.c), and
 * what several attacks need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/task.h"
#include "tests/common/raw.h"

/** In the test, before the processes start. */
void attack_begin(void);
/** How many processes have built their state, and what all of them have done with it. */
uint32_t attacks_standing(void);
uint64_t attack_turns(void);

/** In a hostile process: its state is there; it has done once more what it does with it. */
void state_stands(void);
void turn_done(void);

struct raw *session_new(unsigned streams);
void session_free(struct raw *raw);

/** False: npud has refused it. */
bool session_ask(struct raw *raw, Npud__Request *request);

/** Put the task into that stream's ring, and tell npud. */
void put_task(struct raw *raw, unsigned stream, const struct task *task);

Npud__NotifyReply notify_new(struct raw *raw, bool counts);
