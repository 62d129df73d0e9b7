/* The ring of a queue as this process has it mapped: made, and unmapped with its last use. */
#pragma once

#include "proto/shm/queue_shm.h"
#include "proto/wire/npud.pb-c.h"

struct ring;

/** What npud has answered, mapped; the caller has its use. NULL: no memory. */
struct ring *mapped_ring_new(const Npud__QueueReply *reply, const int fds[QUEUE_FILES]);
