/* A profiler that is told of each stream that comes and goes. */
#include "expect.h"

struct seen {
    int created;
    int destroyed;
};

static void count_streams(aclrtStream stream, aclrtStreamState state, void *args)
{
    struct seen *seen = args;
    int32_t id;

    CALL(aclrtStreamGetId(stream, &id));
    if (state == ACL_RT_STREAM_STATE_CREATE_POST)
        seen->created++;
    else
        seen->destroyed++;
}

int main(void)
{
    struct seen seen = {0};
    aclrtStream streams[3];

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtRegStreamStateCallback("profiler", count_streams, &seen));
    for (int i = 0; i < 3; i++)
        CALL(aclrtCreateStream(&streams[i]));
    EXPECT(seen.created == 3 && seen.destroyed == 0);
    CALL(aclrtDestroyStream(streams[0]));
    EXPECT(seen.destroyed == 1);
    CALL(aclrtRegStreamStateCallback("profiler", NULL, NULL));
    CALL(aclrtDestroyStream(streams[1]));
    CALL(aclrtDestroyStream(streams[2]));
    EXPECT(seen.created == 3 && seen.destroyed == 1);
    CALL(aclrtResetDevice(0));
    printf("%d came, %d went\n", seen.created, seen.destroyed);
    return aclFinalize();
}
