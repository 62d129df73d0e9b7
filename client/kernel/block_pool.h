/*
 * Threads that run blocks beside the thread of a kernel's lane. They belong to the process: kernels
 * of all streams and sessions share them. Threads without work stay.
 */
#pragma once

#include <stdbool.h>

struct kernel_run;
struct kernel_thread;

/** Have a thread call kernel_run_blocks(run). False: there is none, and none can be made. */
bool block_pool_start(struct kernel_run *run);

/** In client/kernel/kernel_run.c: the calling thread runs blocks until there are none left. */
void kernel_run_blocks(struct kernel_run *run, struct kernel_thread *t);

/** In place of that: memory is short, and the run fails. */
void kernel_run_decline(struct kernel_run *run);
