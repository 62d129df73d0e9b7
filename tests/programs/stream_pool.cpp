// A pool of streams that gets work in turn, as libraries of operators have it.
#include "expect.h"

#include <atomic>
#include <vector>

class stream_pool
{
  public:
    explicit stream_pool(size_t size) : streams_(size)
    {
        for (aclrtStream &stream : streams_)
            CALL(aclrtCreateStream(&stream));
    }
    ~stream_pool()
    {
        for (aclrtStream stream : streams_)
            CALL(aclrtDestroyStream(stream));
    }
    aclrtStream next()
    {
        return streams_[turn_++ % streams_.size()];
    }

  private:
    std::vector<aclrtStream> streams_;
    size_t turn_ = 0;
};

int main()
{
    std::atomic<int> done{0};

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    {
        stream_pool pool(8);
        for (int i = 0; i < 100; i++)
            CALL(aclrtLaunchHostFunc(
                pool.next(), [](void *count) { ++*static_cast<std::atomic<int> *>(count); },
                &done));
    } // a stream that is destroyed has done its work
    EXPECT(done == 100);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%d tasks on 8 streams\n", done.load());
}
