#include "daemon/executor/library.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/library_path.h"

struct library library;

/*
 * A thread that has just ended a task may be about to write, also when npud has ended the device
 * meanwhile. So a descriptor is never closed: it is replaced, under its number.
 */
static struct {
    _Atomic bool begun;
    _Atomic int wake; /* an eventfd; 0: none yet */
} devices[EXECUTOR_DEVICES];

int32_t library_load(const char *kind, const char *path, bool nesting, char *why, size_t why_size)
{
    char *real = NULL;
    int32_t code;

    library.vendor = vendor_find(kind);
    if (!library.vendor) {
        snprintf(why, why_size, "npud knows no library of the kind %.32s", kind);
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    code = library_path_check(path, nesting, &real, why, why_size);
    if (code == 0)
        code = library.vendor->open(real, nesting, &library.open, why, why_size);
    free(real);
    if (code != 0)
        return code;
    code = library.vendor->device_count(library.open, &library.devices);
    if (code != 0)
        snprintf(why, why_size, "%s: no devices: %s", path, vendor_text());
    if (library.devices > EXECUTOR_DEVICES)
        library.devices = EXECUTOR_DEVICES;
    return code;
}

static void set_wake(uint32_t device, int wake)
{
    int old = atomic_load(&devices[device].wake);

    if (wake < 0)
        return;
    if (old == 0) {
        atomic_store(&devices[device].wake, wake);
        return;
    }
    dup3(wake, old, O_CLOEXEC);
    close(wake);
}

int32_t library_device_begin(uint32_t device, int wake)
{
    int32_t code;

    if (device >= library.devices) {
        if (wake >= 0)
            close(wake);
        vendor_set_text("there is no device %u", device);
        return ACL_ERROR_RT_INVALID_DEVICEID;
    }
    set_wake(device, wake);
    if (atomic_load(&devices[device].begun))
        return 0;
    code = library.vendor->device_begin(library.open, device);
    atomic_store(&devices[device].begun, code == 0);
    return code;
}

static int32_t not_in_use(uint32_t device)
{
    vendor_set_text("device %u is not in use", device);
    return ACL_ERROR_RT_INVALID_DEVICEID;
}

int32_t library_device_end(uint32_t device)
{
    int32_t code;

    if (!library_enter_to_free(device))
        return not_in_use(device);
    code = library.vendor->device_end(library.open, device);
    if (code == 0)
        atomic_store(&devices[device].begun, false);
    return code;
}

static bool is_begun(uint32_t device)
{
    return device < library.devices &&
           atomic_load_explicit(&devices[device].begun, memory_order_acquire);
}

int32_t library_enter(uint32_t device)
{
    return is_begun(device) ? library.vendor->thread_begin(library.open, device)
                            : not_in_use(device);
}

bool library_enter_to_free(uint32_t device)
{
    if (!is_begun(device))
        return false;
    library.vendor->thread_begin(library.open, device);
    return true;
}

int32_t library_gone(uint32_t device)
{
    return is_begun(device) && library.vendor->gone ? library.vendor->gone(library.open, device)
                                                    : 0;
}

void library_wake_npud(uint32_t device)
{
    const uint64_t one = 1;
    int wake = device < EXECUTOR_DEVICES ? atomic_load(&devices[device].wake) : 0;

    /* What cannot be added is there already. */
    if (wake != 0 && write(wake, &one, sizeof(one)) < 0)
        return;
}

int32_t library_lacks(const char *what)
{
    vendor_set_text("the library has no %s", what);
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

int32_t library_refuses(const char *what)
{
    vendor_set_text("%s", what);
    return ACL_ERROR_RT_PARAM_INVALID;
}
