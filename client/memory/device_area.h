/*
 * Memory of a device that the library gives to a program that asks for its address: one area of
 * each kind for a process and device. It is as memory of aclrtMalloc, and goes with the device.
 */
#pragma once

#include <stddef.h>

#include "client/runtime/session.h"

/** Of the current device. Zeros at first. 0, or an ACL error. */
int device_area_get(const char *function, enum device_area area, size_t size, void **address);
