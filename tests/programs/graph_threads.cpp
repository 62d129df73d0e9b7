// Threads that capture, execute and destroy models beside each other, and one model that all
// execute
// on streams of their own: its executions do not overlap.
#include "expect.h"

#include <atomic>
#include <thread>
#include <vector>

namespace
{

constexpr int THREADS = 4, ROUNDS = 40, TIMES = 10;

aclrtContext context;
int32_t *numbers; // device memory: 0 .. THREADS - 1 of the threads, then the shared ones
aclmdlRI shared;
std::atomic<int> inside{0}, overlaps{0}, calls{0};

void enter(void *)
{
    if (inside.fetch_add(1) != 0)
        overlaps++;
}

void leave(void *)
{
    inside--;
    calls++;
}

void add(int to, aclrtStream stream)
{
    CALL(aclrtReduceAsync(&numbers[to], &numbers[THREADS + 1], sizeof(int32_t),
                          ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream, nullptr));
}

void work(int number)
{
    aclrtStream stream;

    CALL(aclrtSetCurrentContext(context));
    CALL(aclrtCreateStream(&stream));
    for (int round = 0; round < ROUNDS; round++) {
        aclmdlRI model;

        CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        add(number, stream);
        add(number, stream);
        CALL(aclmdlRICaptureEnd(stream, &model));
        for (int i = 0; i < TIMES; i++) {
            CALL(aclmdlRIExecuteAsync(model, stream));
            CALL(aclmdlRIExecuteAsync(shared, stream));
        }
        if (round % 2)
            CALL(aclrtSynchronizeStream(stream));
        CALL(aclmdlRIDestroy(model));
    }
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclrtDestroyStream(stream));
}

} // namespace

int main()
{
    aclrtStream stream;
    std::vector<std::thread> threads;
    int32_t values[THREADS + 2] = {};

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtGetCurrentContext(&context));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(reinterpret_cast<void **>(&numbers), sizeof(values),
                     ACL_MEM_MALLOC_HUGE_FIRST));
    values[THREADS + 1] = 1;
    CALL(aclrtMemcpy(numbers, sizeof(values), values, sizeof(values), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    CALL(aclrtLaunchHostFunc(stream, enter, nullptr));
    add(THREADS, stream);
    CALL(aclrtLaunchHostFunc(stream, leave, nullptr));
    CALL(aclmdlRICaptureEnd(stream, &shared));
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(work, i);
    for (auto &thread : threads)
        thread.join();
    CALL(aclrtMemcpy(values, sizeof(values), numbers, sizeof(values), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < THREADS; i++)
        EXPECT(values[i] == 2 * ROUNDS * TIMES);
    EXPECT(values[THREADS] == THREADS * ROUNDS * TIMES);
    EXPECT(calls == THREADS * ROUNDS * TIMES && overlaps == 0);
    CALL(aclmdlRIDestroy(shared));
    CALL(aclrtFree(numbers));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
