/* Requests about binaries with kernels, which devices have that nobody can map. */
#include <string.h>

#include "daemon/core/call.h"
#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/core/release.h"
#include "daemon/core/session.h"
#include "daemon/memory/allocation.h"
#include "proto/wire/executor_message.h"

/* What its library has said: it knows why it takes no file, or which functions there are. */
static const char *said(const struct call *call, const struct device *device, enum cause cause)
{
    if (cause != CAUSE_BINARY_REFUSED && cause != CAUSE_FUNCTION_NONE)
        return "";
    return device->backend->refusal(call->session->space);
}

int32_t on_load_binary(struct call *call)
{
    const Npud__LoadBinary *in = call->request->load_binary;
    struct device *device = call->of.attach->device;
    struct binary_file file = {
        .mem = slots_get(&call->session->mems, in->file), .size = in->size, .magic = in->magic};
    enum cause cause = CAUSE_BINARY_FILE;
    Npud__LoadBinaryReply *out;
    struct mem *binary;

    if (file.mem && !file.mem->freed)
        cause = allocation_load(call->session, device, &file, &binary);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no binary of %llu bytes on device %u: %.80s",
                      (unsigned long long)in->size, in->device, said(call, device, cause));
    out = CALL_REPLY(call, load_binary, LOAD_BINARY);
    out->slot = binary->slot.number;
    out->generation = slot_generation(binary);
    return 0;
}

int32_t on_look_up_function(struct call *call)
{
    const Npud__LookUpFunction *in = call->request->look_up_function;
    struct mem *binary = call->of.mem;
    enum cause cause;

    if (in->name[0] == '\0' || strlen(in->name) >= EXECUTOR_NAME_BYTES ||
        in->number >= EXECUTOR_FUNCTIONS)
        return refuse(call, CAUSE_FUNCTION_NAME, "function %u", in->number);
    cause = allocation_name_function(binary, in->name, in->number);
    return refuse(call, cause, "no kernel %.60s: %.80s", in->name,
                  said(call, binary->pages->device, cause));
}

int32_t on_unload_binary(struct call *call)
{
    return refuse(call, release_binary(call->session, call->of.mem->slot.number),
                  "the binary is not unloaded");
}
