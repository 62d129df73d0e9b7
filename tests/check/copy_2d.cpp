// check: race
// Two streams fill columns of one matrix. The columns of the first are one byte too wide.
#include "check.h"

constexpr size_t row = 64, rows = 16, half = row / 2;

int main()
{
    start_device();
    aclrtStream left = NEW_STREAM(), right = NEW_STREAM();
    char *matrix = static_cast<char *>(NEW_MEMORY(row * rows));
    void *host = NEW_HOST(row * rows);

    // check: written by
    CALL(aclrtMemcpy2dAsync(matrix, row, host, row, half + WRONG, rows, ACL_MEMCPY_HOST_TO_DEVICE,
                            left));
    // check: written by
    CALL(aclrtMemcpy2dAsync(matrix + half, row, host, row, half, rows, ACL_MEMCPY_HOST_TO_DEVICE,
                            right));
    // check: missing must wait for an event that is recorded after the write
    end_streams(left, right);
    CALL(aclrtFree(matrix));
    CALL(aclrtFreeHost(host));
    end_device();
}
