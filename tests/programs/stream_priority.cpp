// Streams with priorities and flags, by the overload of C++.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <set>
#include <vector>

int main()
{
    std::vector<aclrtStream> streams(8);
    std::set<int32_t> ids;
    uint32_t priority, flags;
    int32_t id;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    for (size_t i = 0; i < streams.size(); i++) {
        CALL(aclrtCreateStream(&streams[i], static_cast<uint32_t>(i),
                               ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
        CALL(aclrtStreamGetPriority(streams[i], &priority));
        EXPECT(priority == i);
        CALL(aclrtStreamGetFlags(streams[i], &flags));
        EXPECT(flags == (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
        CALL(aclrtStreamGetId(streams[i], &id));
        ids.insert(id);
    }
    EXPECT(ids.size() == streams.size());
    for (aclrtStream stream : streams)
        CALL(aclrtDestroyStream(stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamGetId(streams[0], &id));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu streams of different priorities\n", streams.size());
}
