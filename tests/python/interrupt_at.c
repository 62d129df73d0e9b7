/*
 * To be preloaded into a Python program: the thread that calls the library gets SIGINT at one
 * moment of its call, which interrupt_at() chooses and which passes once. No signal wakes a thread
 * in these: it arrives while the thread runs.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_npud.h"

static enum { NEVER, BEFORE_CALL, BEFORE_LOOK, AFTER_LOOK, AFTER_CALL } moment;

static void pass_moment(int now)
{
    if (now != (int)moment)
        return;
    moment = NEVER;
    raise(SIGINT);
}

static void *find_real(const char *name)
{
    return dlsym(dlopen("libaclclient.so.1", RTLD_NOW | RTLD_NOLOAD), name);
}

static aclnpudInterruptCheck real_check;

/* Python's look, with the library's locks held or not. */
static int32_t check_interrupt(void *arg, aclnpudInterruptMoment kind)
{
    int32_t end;

    pass_moment(BEFORE_LOOK);
    end = real_check(arg, kind);
    pass_moment(AFTER_LOOK);
    return end;
}

aclError aclnpudSetInterruptCheck(aclnpudInterruptCheck new_check, void *arg)
{
    aclError (*set)(aclnpudInterruptCheck, void *) = find_real(__func__);

    real_check = new_check;
    return set(check_interrupt, arg);
}

/* Calls of the module, which has given the GIL away around them. */

aclError aclrtDestroyStream(aclrtStream stream)
{
    aclError (*destroy)(aclrtStream) = find_real(__func__), error;

    pass_moment(BEFORE_CALL);
    error = destroy(stream);
    pass_moment(AFTER_CALL);
    return error;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    aclError (*synchronize)(aclrtStream) = find_real(__func__), error;

    pass_moment(BEFORE_CALL);
    error = synchronize(stream);
    pass_moment(AFTER_CALL);
    return error;
}

aclError aclnpudLaunchDelay(uint64_t microseconds, aclError result, aclrtStream stream)
{
    aclError (*launch)(uint64_t, aclError, aclrtStream) = find_real(__func__), error;

    pass_moment(BEFORE_CALL);
    error = launch(microseconds, result, stream);
    pass_moment(AFTER_CALL);
    return error;
}

void interrupt_at(int chosen)
{
    moment = chosen;
}
