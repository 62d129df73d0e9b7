/*
 * The 64 bytes that name an IPC event. Only a process that has them may open it. Errors are told as
 * npud.proto and libaclclient(7) say: not given out by this npud: 107000; given out, and the event
 * is gone: 107017.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/session.h"
#include "encode.h"
#include "proto/wire/ipc_handle.h"
#include "proto/wire/npud.pb-c.h"
#include "target.h"
#include "world.h"

#define EVENTS 3 /* the newest of them is gone */

static struct ipc_handle given[EVENTS];

static void export_events(struct client *c)
{
    MUST(world_ask(c, NPUD__REQUEST__BODY_HELLO, PROTOCOL) == 0);
    for (uint32_t i = 0; i < EVENTS; i++) {
        MUST(world_ask(c, NPUD__REQUEST__BODY_CREATE_IPC_EVENT, i & 1) == 0);
        MUST(world_ask(c, NPUD__REQUEST__BODY_EXPORT_IPC_EVENT, i) == 0);
        memcpy(&given[i], world.handle[0], sizeof(given[i]));
    }
    MUST(world_ask(c, NPUD__REQUEST__BODY_CLOSE_IPC_EVENT, EVENTS - 1) == 0);
}

/*
 * What the client presents: raw bytes, or a handle that was given out, xored with bytes; the check
 * sum mended or not.
 */
static size_t take_handle(struct input *in, struct ipc_handle *h)
{
    uint8_t how = take_u8(in);
    uint8_t *bytes = (uint8_t *)h;
    size_t n, size = sizeof(*h);
    const uint8_t *p;

    memset(h, 0, sizeof(*h));
    if (how & 3)
        *h = given[(how & 3) - 1];
    if (how & 4) {
        p = take_bytes(in, sizeof(*h), &n);
        for (size_t i = 0; i < n; i++)
            bytes[i] ^= p[i];
    }
    if (how & 8)
        damage_byte(in, bytes, sizeof(*h));
    if (how & 16)
        h->check = ipc_handle_check(h);
    if (how & 32)
        size = take_u8(in) % sizeof(*h);
    return size;
}

static int32_t expect_error(const struct ipc_handle *h, size_t size)
{
    if (size == sizeof(*h))
        for (unsigned i = 0; i < EVENTS; i++)
            if (memcmp(h, &given[i], sizeof(*h)) == 0)
                return i < EVENTS - 1 ? 0 : ACL_ERROR_RT_INVALID_HANDLE;
    return ACL_ERROR_RT_PARAM_INVALID;
}

/*
 * What cannot be told from a handle of an npud that has ended, or of an event that is gone: their
 * secrets are forgotten.
 */
static bool may_be_gone(const struct ipc_handle *h, size_t size)
{
    return size == sizeof(*h) && ipc_handle_valid(h, IPC_HANDLE_EVENT) &&
           (h->instance != given[0].instance || h->object == given[EVENTS - 1].object);
}

static void set_up(void)
{
    world_begin();
    world_set_flags(WORLD_LINGER_NO);
    export_events(world_connect(0, 1000));
    MUST(world_ask(world_connect(1, 1000), NPUD__REQUEST__BODY_HELLO, PROTOCOL) == 0);
}

static void run_input(struct input *in)
{
    struct client *c = &world.client[1];

    while (in->size > 0) {
        struct ipc_handle h;
        size_t n = take_handle(in, &h);
        struct output body;

        output_begin(&body);
        put_bytes_field(&body, 1, &h, n);
        world_request(c, NPUD__REQUEST__BODY_OPEN_IPC_EVENT, body.data, body.size);
        MUST(world.error == expect_error(&h, n) ||
             (world.error == ACL_ERROR_RT_INVALID_HANDLE && may_be_gone(&h, n)));
        MUST(world_session(c)->ipc.live == 0 || world.error != 0 || expect_error(&h, n) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct target target = {set_up, run_input};

    return target_run(&target, data, size);
}
