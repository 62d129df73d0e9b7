/*
 * The library of this process, of which there is one, and its devices. main() loads it, the control
 * thread begins and ends devices, all threads use them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/executor/vendor.h"

struct library {
    const struct vendor *vendor;
    struct vendor_library *open; /* NULL: it could not be loaded */
    uint32_t devices;
};

/** Does not change after library_load(). */
extern struct library library;

/**
 * Load the library of this kind ("acl", "cuda") at path: absolute, or a name without a folder,
 * which the dynamic loader looks for where root has told it to. A user who can write the file could
 * run code in here, so only root may, unless nesting. 0, or an ACL error and why, in a sentence.
 */
int32_t library_load(const char *kind, const char *path, bool nesting, char *why, size_t why_size);

/** wake: an eventfd, taken over in any case; -1: as before. Control thread. 0 or an ACL error. */
int32_t library_device_begin(uint32_t device, int wake);
/** Nothing of it is left. Control thread. 0 or an ACL error; then it may be used as before. */
int32_t library_device_end(uint32_t device);

/**
 * The calling thread is about to use the device: before all else there. 0, or an ACL error: there
 * is no such device, it was not begun, or the library refuses. Any thread.
 */
int32_t library_enter(uint32_t device);
/**
 * The same for giving things back, also on a device that is lost. False: it is not in use, and all
 * that it had is gone already.
 */
bool library_enter_to_free(uint32_t device);

/**
 * 0, or the code that every call answers from now on: the device is lost to this process for good.
 * Any thread.
 */
int32_t library_gone(uint32_t device);

/** Wake npud's engine of that device. Any thread; nothing, if the device was never begun. */
void library_wake_npud(uint32_t device);

/** 207000, with what the library lacks as vendor_text(). */
int32_t library_lacks(const char *what);
/** 107000, with what is wrong with a request as vendor_text(). */
int32_t library_refuses(const char *what);
