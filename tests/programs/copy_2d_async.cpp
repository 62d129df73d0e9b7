// A tile of a matrix, cut out on the device in the order of a stream.
#include "expect.h"

#include <vector>

int main()
{
    constexpr size_t n = 32, tile = 8, row = n * sizeof(int), tile_row = tile * sizeof(int);
    std::vector<int> cut(tile * tile);
    void *pinned = nullptr, *matrix = nullptr, *part = nullptr;
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMallocHost(&pinned, n * row));
    CALL(aclrtMalloc(&matrix, n * row, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&part, tile * tile_row, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t i = 0; i < n * n; i++)
        static_cast<int *>(pinned)[i] = static_cast<int>(i);

    CALL(aclrtMemcpy2dAsync(matrix, row, pinned, row, row, n, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    const char *corner =
        static_cast<char *>(matrix) + 4 * row + 16 * sizeof(int); // row 4, column 16
    CALL(aclrtMemcpy2dAsync(part, tile_row, corner, row, tile_row, tile,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CALL(aclrtSynchronizeStream(stream));
    CALL(
        aclrtMemcpy(cut.data(), tile * tile_row, part, tile * tile_row, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t y = 0; y < tile; y++)
        for (size_t x = 0; x < tile; x++)
            EXPECT(cut[y * tile + x] == static_cast<int>((y + 4) * n + x + 16));
    CALL(aclrtFree(part));
    CALL(aclrtFree(matrix));
    CALL(aclrtFreeHost(pinned));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("a tile of 8 by 8");
}
