// check: race
// A copy by offsets takes the slot that another stream fills, or the one beside it.
#include "check.h"

constexpr size_t slot = 1024;

int main()
{
    start_device();
    aclrtStream producer = NEW_STREAM(), consumer = NEW_STREAM();
    void *ring = NEW_MEMORY(2 * slot), *out = NEW_BLANK(slot);
    const void *source = ring;

    // check: written by
    CALL(aclrtMemsetAsync(ring, slot, 1, slot, producer));
    // check: read by
    CALL(aclrtMemcpyAsyncWithOffset(&out, slot, 0, &source, slot, WRONG ? 0 : slot,
                                    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_streams(producer, consumer);
    CALL(aclrtFree(ring));
    CALL(aclrtFree(out));
    end_device();
}
