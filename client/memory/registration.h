/*
 * Host memory of the program that it has registered: a table of ranges, and no more. Nothing about
 * the memory changes. MAPPED and PINNED mean the same: the address at which devices reach it is its
 * own, and tasks that name it are executed by a thread of the library, in the order of their stream
 * (client/memory/host_task.h), because npud's engine does not reach it.
 *
 * Memory of aclrtMallocHost and managed memory may be registered, too. An engine reaches it as it
 * did before; what is done at once to host memory is then a task, as for all registered memory.
 *
 * A registration ends with aclrtHostUnregister, with the memory if that is of the library, or with
 * its session: at aclFinalize, or when aclInit finds that npud was lost.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

/** Are `count` bytes at address in one registered range, or in a variable of kernels? */
bool registration_holds(struct session *s, const void *address, size_t count);

/** From now on there are variables of kernels: upcalls->kernel_registry_holds(). Any locks. */
void registration_know_variables(void);
