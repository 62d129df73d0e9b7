// Threads that count in memory while another one registers and unregisters it: no count is lost.
#include "expect.h"

#include <atomic>
#include <thread>
#include <vector>

int main()
{
    constexpr size_t page = 4096, pages = 16, bytes = page * pages;
    constexpr int threads = 4;
    char *memory = static_cast<char *>(std::aligned_alloc(page, bytes));
    std::vector<std::thread> counters;
    std::atomic<bool> stop{false};
    long counts[threads] = {};
    void *for_device = nullptr;

    EXPECT(memory);
    std::fill_n(memory, bytes, 0);
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    for (int i = 0; i < threads; i++)
        counters.emplace_back([&, i] {
            auto *word = reinterpret_cast<volatile long *>(memory + i * 4 * page);
            while (!stop) {
                *word = *word + 1;
                counts[i]++;
            }
        });
    for (int round = 0; round < 20; round++) {
        CALL(aclrtHostRegister(memory, bytes, ACL_HOST_REGISTER_MAPPED, &for_device));
        CALL(aclrtHostUnregister(memory));
    }
    stop = true;
    for (std::thread &counter : counters)
        counter.join();
    for (int i = 0; i < threads; i++)
        EXPECT(*reinterpret_cast<long *>(memory + i * 4 * page) == counts[i]);
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    std::free(memory);
    puts("registered 20 times");
}
