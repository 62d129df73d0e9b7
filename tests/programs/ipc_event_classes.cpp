// The classes of npud for IPC events: one producer, three consumers.
#include "expect.h"

#include <acl/npud_event_ipc.hpp>

#include <vector>

namespace ipc = npud::event::ipc;

static int consume(int in)
{
    ipc::handle_t handle;

    TAKE(in, handle);
    CALL(aclInit(nullptr));
    npud::throw_if_error(aclrtSetDevice(1), "aclrtSetDevice");
    {
        npud::event_t event = ipc::import(1, handle);
        event.synchronize();
        EXPECT(event.query());
    }
    CALL(aclrtResetDevice(1));
    return aclFinalize();
}

int main()
{
    std::vector<pid_t> children;
    int ends[2];

    EXPECT(pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        children.push_back(fork());
        if (children.back() == 0)
            return consume(ends[0]);
    }
    CALL(aclInit(nullptr));
    npud::throw_if_error(aclrtSetDevice(0), "aclrtSetDevice");
    {
        npud::event_t event = ipc::create();
        event.record();
        const ipc::handle_t handle = ipc::export_(event);
        for (size_t i = 0; i < children.size(); i++)
            GIVE(ends[1], handle);
        for (pid_t child : children)
            EXPECT(ended_well(child));
    }
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu consumers\n", children.size());
}
