// A pool of events that are used again and again, each by its owner's end.
#include "expect.h"

#include <acl/acl_rt_api.h>

#include <memory>
#include <vector>

struct destroy_event {
    void operator()(void *event) const
    {
        CALL(aclrtDestroyEvent(event));
    }
};
using event_ptr = std::unique_ptr<void, destroy_event>;

class pool
{
  public:
    event_ptr take()
    {
        aclrtEvent event = nullptr;
        if (free_.empty()) {
            made++;
            CALL(aclrtCreateEvent(&event, ACL_EVENT_SYNC));
            return event_ptr(event);
        }
        event_ptr last = std::move(free_.back());
        free_.pop_back();
        return last;
    }
    void give(event_ptr event)
    {
        free_.push_back(std::move(event));
    }
    int made = 0;

  private:
    std::vector<event_ptr> free_;
};

int main()
{
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    {
        pool events;
        for (int i = 0; i < 1000; i++) {
            event_ptr event = events.take();
            CALL(aclrtRecordEvent(event.get(), stream));
            CALL(aclrtSynchronizeEvent(event.get()));
            events.give(std::move(event));
        }
        EXPECT(events.made == 1);
    }
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("one event, recorded 1000 times");
}
