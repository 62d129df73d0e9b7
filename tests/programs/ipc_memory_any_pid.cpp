// Memory that every process of the user with the key may import: three workers, one buffer.
#include "expect.h"

#include <array>
#include <numeric>

using key_text = std::array<char, 65>;
constexpr size_t workers = 3;

static void write_part(int in, int out)
{
    void *memory = nullptr;
    key_text key;
    size_t part = 0;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    TAKE(in, key);
    TAKE(in, part);
    CALL(aclrtIpcMemImportByKey(&memory, key.data(), ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    int *numbers = static_cast<int *>(memory);
    const int value = static_cast<int>(part) + 1;
    CALL(aclrtMemcpy(numbers + part, sizeof(value), &value, sizeof(value),
                     ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclrtIpcMemClose(key.data()));
    GIVE(out, part);
    CALL(aclrtResetDevice(0));
}

int main()
{
    int in[workers], out[workers];
    std::array<int, workers> got = {};
    pid_t children[workers];
    void *memory = nullptr;
    key_text key = {};

    for (size_t i = 0; i < workers; i++)
        children[i] = start_child(write_part, &in[i], &out[i]);
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, sizeof(got), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtIpcMemGetExportKey(memory, sizeof(got), key.data(), key.size(),
                                 ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    for (size_t i = 0; i < workers; i++) {
        GIVE(out[i], key);
        GIVE(out[i], i);
    }
    for (size_t i = 0, part; i < workers; i++) {
        TAKE(in[i], part);
        EXPECT(ended_well(children[i]));
    }
    CALL(aclrtMemcpy(got.data(), sizeof(got), memory, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(std::accumulate(got.begin(), got.end(), 0) == 6);
    CALL(aclrtIpcMemClose(key.data()));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%zu workers in one buffer\n", workers);
}
