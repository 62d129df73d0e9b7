/*
 * Callbacks of the program at the coming and going of streams and devices. They run on the thread
 * that brings it about, and may use the API: call these with no lock held.
 */
#include "client/callback/state_callback.h"

#include "client/callback/callback_table.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/process.h"
#include "client/runtime/stream.h"

static struct callback_table streams = CALLBACK_TABLE(CALLBACK_BY_NAME);
static struct callback_table devices = CALLBACK_TABLE(CALLBACK_BY_NAME);

/* fn NULL: remove. */
static int set_callback(struct callback_table *t, const char *function, const char *name,
                        callback_table_fn *fn, void *args)
{
    int error = process_enter();

    return error != 0 ? error : callback_table_set(t, function, name, fn, args);
}

aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback,
                                     void *args)
{
    CALL_SCOPE;

    REQUIRE(regName);
    return set_callback(&streams, __func__, regName, (callback_table_fn *)callback, args);
}

aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
                                     void *args)
{
    CALL_SCOPE;

    REQUIRE(regName);
    return set_callback(&devices, __func__, regName, (callback_table_fn *)callback, args);
}

CALLS_PROGRAM void state_callback_stream(struct stream *stream, aclrtStreamState state)
{
    struct callback_walk walk = callback_walk_begin(&streams);
    struct callback_entry e;

    while (callback_walk_next(&walk, &e))
        ((aclrtStreamStateCallback)e.fn)(handle_of(HANDLE_STREAM, stream), state, e.args);
}

CALLS_PROGRAM void state_callback_device(int32_t user_id, aclrtDeviceState state)
{
    struct callback_walk walk = callback_walk_begin(&devices);
    struct callback_entry e;

    while (callback_walk_next(&walk, &e))
        ((aclrtDeviceStateCallback)e.fn)(user_id, state, e.args);
}

static void forget_all(void)
{
    callback_table_forget(&streams);
    callback_table_forget(&devices);
}

const struct part state_callback_part = {.fork_child = forget_all};
