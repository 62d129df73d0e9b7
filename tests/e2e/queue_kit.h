/*
 * What tests of queues share: queues, buffers that carry numbers, chains of them, and waits for
 * sleeping threads. The buffers belong to the calling process.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"

/** A new queue for so many messages. */
uint32_t create_queue(uint32_t depth);

/** A buffer with 8 bytes of data, this value; its user data begins with the value, too. */
acltdtBuf buffer_of(uint64_t value);
uint64_t *buffer_data(acltdtBuf buf);
/** Asserts that length and user data agree with the value. */
uint64_t buffer_value(acltdtBuf buf);

/** A chain of n such buffers: first, first + 1, ... */
acltdtBuf chain_of(uint64_t first, uint32_t n);
void expect_chain(acltdtBuf head, uint64_t first, uint32_t n);

/** Dequeue a buffer, free it, and tell its value. */
uint64_t take_value(uint32_t qid, int32_t timeout);

/**
 * Wait until so many threads of a process (of its own, or a child) sleep in the library, on memory
 * that processes share.
 */
void await_asleep(pid_t pid, unsigned n);

/**
 * Wait until so many buffers of all pools are in use: a program holds them, they are in queues, or
 * other buffers refer to their data.
 */
void await_buffers(uint32_t n);
