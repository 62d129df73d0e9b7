/* What the programs with binaries have in common: device vectors, and the file of the kernels. */
#pragma once

#include "expect.h"

#include <string.h>

#define COUNT 96

static aclrtStream stream;

static inline void set_up(void)
{
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
}

static inline int tear_down(void)
{
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}

/* first, first + step, ... */
static inline int32_t *vector_new(int32_t first, int32_t step)
{
    int32_t host[COUNT];
    void *device;

    for (int32_t i = 0; i < COUNT; i++)
        host[i] = first + i * step;
    CALL(aclrtMalloc(&device, sizeof(host), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(device, sizeof(host), host, sizeof(host), ACL_MEMCPY_HOST_TO_DEVICE));
    return (int32_t *)device;
}

static inline void expect_vector(const int32_t *device, int32_t first, int32_t step)
{
    int32_t host[COUNT];

    CALL(aclrtMemcpy(host, sizeof(host), device, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int32_t i = 0; i < COUNT; i++)
        EXPECT(host[i] == first + i * step);
}

/* The whole file in memory, for free(). */
static inline void *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    void *bytes;

    EXPECT(file && fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*size);
    EXPECT(bytes && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}
