/* A part of an image: rows of the host into rows of the device that are further apart, and back. */
#include "expect.h"

#include <string.h>

enum { WIDTH = 48, HEIGHT = 20, PITCH = 64 };

int main(void)
{
    unsigned char image[HEIGHT][WIDTH], back[HEIGHT][WIDTH], raw[HEIGHT * PITCH];
    void *device;

    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            image[y][x] = (unsigned char)(y * 7 + x);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&device, sizeof(raw), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(device, sizeof(raw), 0xEE, sizeof(raw)));
    CALL(aclrtMemcpy2d(device, PITCH, image, WIDTH, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtMemcpy2d(back, WIDTH, device, PITCH, WIDTH, HEIGHT, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(memcmp(image, back, sizeof(image)) == 0);

    /* What is between the rows is as it was. */
    CALL(aclrtMemcpy(raw, sizeof(raw), device, sizeof(raw), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int y = 0; y < HEIGHT; y++)
        for (int x = WIDTH; x < PITCH; x++)
            EXPECT(raw[y * PITCH + x] == 0xEE);
    FAILS(ACL_ERROR_INVALID_PARAM,
          aclrtMemcpy2d(device, WIDTH - 1, image, WIDTH, WIDTH, HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtFree(device));
    CALL(aclrtResetDevice(0));
    printf("%d rows of %d bytes\n", HEIGHT, WIDTH);
    return aclFinalize();
}
