/*
 * Virtual memory: addresses that are reserved, and physical memory (physical.h) that is mapped
 * there. A mapping is a struct memory like an allocation, so that copies and tasks find it; a range
 * of addresses may go on in the next mapping of the same reservation.
 */
#pragma once

#include <stdbool.h>

struct session;

/** Is it in addresses that are reserved? Whether or not something is mapped there. */
bool virtual_is_reserved(struct session *s, const void *address);
