#include "client/core/handle_error.h"

#include "client/core/error.h"

static const struct {
    const char *name;
    const char *maker;
} kinds[] = {
    [HANDLE_CONTEXT] = {"a context", "aclrtCreateContext"},
    [HANDLE_STREAM] = {"a stream", "aclrtCreateStream"},
    [HANDLE_EVENT] = {"an event", "aclrtCreateEvent"},
    [HANDLE_GRAPH] = {"a model", "aclmdlRICaptureEnd"},
    [HANDLE_NOTIFY] = {"a notify", "aclrtCreateNotify"},
    [HANDLE_COUNT_NOTIFY] = {"a count notify", "aclrtCntNotifyCreate"},
    [HANDLE_PHYSICAL] = {"a handle of physical memory", "aclrtMallocPhysical"},
    [HANDLE_MEMORY_POOL] = {"a memory pool", "aclrtMemPoolCreate"},
    [HANDLE_BINARY] = {"a binary", "aclrtBinaryLoadFromFile"},
    [HANDLE_FUNCTION] = {"a function", "aclrtBinaryGetFunction"},
    [HANDLE_CHANNEL] = {"a channel", "acltdtCreateChannel"},
};

const char *handle_kind_name(const void *handle)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle, kind = bits >> 52 & 0xf;

    return bits >> 56 == HANDLE_MARK && kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind].name
                                                                                : NULL;
}

int handle_error(int code, const char *function, enum handle_kind needed, const void *handle)
{
    const char *name = handle_kind_name(handle), *wanted = kinds[needed].name;

    if (!name)
        return error_set(code,
                         "%s: %p is no handle: it was never set, or is the address of one; pass "
                         "%s, as %s returns it",
                         function, handle, wanted, kinds[needed].maker);
    if (name != wanted)
        return error_set(code, "%s: this is %s: pass %s, as %s returns it", function, name, wanted,
                         kinds[needed].maker);
    return error_set(code,
                     "%s: this is %s that was destroyed, or one of another process or of the time "
                     "before aclFinalize: pass one that is there (%s)",
                     function, wanted, kinds[needed].maker);
}
