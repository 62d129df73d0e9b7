// Two producers and two consumers at one queue that is much too small.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

#include <atomic>
#include <thread>
#include <vector>

int main()
{
    constexpr int each = 200;
    std::atomic<long> sum{0};
    std::vector<std::thread> threads;
    uint32_t queue;

    CALL(aclInit(nullptr));
    CALL(acltdtCreateQueue(nullptr, &queue));
    for (int t = 0; t < 2; t++) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < each; i++) {
                const int number = t * each + i;
                CALL(acltdtEnqueueData(queue, &number, sizeof(number), nullptr, 0, -1, 0));
            }
        });
        threads.emplace_back([&] {
            for (int i = 0; i < each; i++) {
                int number = -1;
                size_t length;
                CALL(acltdtDequeueData(queue, &number, sizeof(number), &length, nullptr, 0, -1));
                sum += number;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(sum == 2L * each * (2 * each - 1) / 2);
    CALL(acltdtDestroyQueue(queue));
    CALL(aclFinalize());
    printf("%d messages, sum %ld\n", 2 * each, sum.load());
}
