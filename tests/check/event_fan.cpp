// check: race
// Four streams fill a quarter each; the consumer's stream waits for three of them.
#include "check.h"

int main()
{
    constexpr size_t quarter = BYTES / 4;

    start_device();
    aclrtStream consumer = NEW_STREAM(), producers[4];
    aclrtEvent events[4];
    char *memory = static_cast<char *>(NEW_MEMORY(BYTES));
    void *host = NEW_HOST(BYTES);

    for (int i = 0; i < 4; i++) {
        producers[i] = NEW_STREAM();
        events[i] = NEW_EVENT(ACL_EVENT_SYNC);
        // check: written by
        CALL(aclrtMemsetAsync(memory + i * quarter, quarter, i, quarter, producers[i]));
        CALL(aclrtRecordEvent(events[i], producers[i]));
    }
    for (int i = WRONG; i < 4; i++)
        CALL(aclrtStreamWaitEvent(consumer, events[i]));
    // check: read by
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, consumer));
    // check: missing must wait for an event that is recorded after the write
    end_stream(consumer);
    for (int i = 0; i < 4; i++) {
        end_stream(producers[i]);
        CALL(aclrtDestroyEvent(events[i]));
    }
    CALL(aclrtFree(memory));
    CALL(aclrtFreeHost(host));
    end_device();
}
