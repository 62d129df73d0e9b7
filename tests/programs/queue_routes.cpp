// npud copies nothing and moves everything: one source, two destinations.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

int main()
{
    uint32_t source, destinations[2];
    int number = 1, got = 0;
    int32_t state = 0;
    size_t size;

    CALL(aclInit(nullptr));
    CALL(acltdtCreateQueue(nullptr, &source));
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    for (uint32_t &destination : destinations) {
        CALL(acltdtCreateQueue(nullptr, &destination));
        acltdtQueueRoute *route = acltdtCreateQueueRoute(source, destination);
        CALL(acltdtAddQueueRoute(list, route));
        CALL(acltdtDestroyQueueRoute(route));
    }
    EXPECT(acltdtGetQueueRouteNum(list) == 2);
    CALL(acltdtBindQueueRoutes(list));
    acltdtQueueRoute *first = acltdtCreateQueueRoute(0, 0);
    CALL(acltdtGetQueueRoute(list, 0, first));
    CALL(acltdtGetQueueRouteParam(first, ACL_TDT_QUEUE_ROUTE_STATUS_INT32, sizeof(state), &size,
                                  &state));
    EXPECT(state == ACL_TDT_QUEUE_ROUTE_BIND);
    CALL(acltdtDestroyQueueRoute(first));
    for (; number <= 10; number++) {
        CALL(acltdtEnqueueData(source, &number, sizeof(number), nullptr, 0, -1, 0));
        for (uint32_t destination : destinations) {
            CALL(acltdtDequeueData(destination, &got, sizeof(got), &size, nullptr, 0, -1));
            EXPECT(got == number);
        }
    }
    CALL(acltdtUnbindQueueRoutes(list));
    CALL(acltdtDestroyQueueRouteList(list));
    for (uint32_t destination : destinations)
        CALL(acltdtDestroyQueue(destination));
    CALL(acltdtDestroyQueue(source));
    CALL(aclFinalize());
    printf("%d messages to each of two\n", number - 1);
}
