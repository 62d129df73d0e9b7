/* Messages that are copied in and out, without a buffer in the hands of the program. */
#include "expect.h"

#include <acl/acl_tdt_queue.h>
#include <string.h>

int main(void)
{
    char text[] = "a message that is longer than its reader expects", got[10];
    int number = 42, noted = 0;
    uint32_t queue;
    size_t length;

    CALL(aclInit(NULL));
    CALL(acltdtCreateQueue(NULL, &queue));
    CALL(acltdtEnqueueData(queue, text, sizeof(text), &number, sizeof(number), 0, 0));
    CALL(acltdtDequeueData(queue, got, sizeof(got), &length, &noted, sizeof(noted), 0));
    EXPECT(length == sizeof(text) && memcmp(got, text, sizeof(got)) == 0);
    EXPECT(noted == 42);
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY,
          acltdtDequeueData(queue, got, sizeof(got), &length, NULL, 0, 5));
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtEnqueueData(queue, text, 0, NULL, 0, 0, 0));
    CALL(acltdtDestroyQueue(queue));
    printf("%zu of %zu bytes, with %d\n", sizeof(got), length, noted);
    return aclFinalize();
}
