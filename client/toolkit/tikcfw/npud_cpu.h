/*
 * RUN_MODE cpu: ICPU_RUN_KF() runs the blocks of a kernel, a thread each, without a device.
 * Included by npud_kernel.h.
 */
#ifndef NPUD_CPU_H
#define NPUD_CPU_H

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace npud
{

/* Blocks that wait for each other: a block that has returned counts as having come. */
class CpuGate
{
  public:
    explicit CpuGate(uint32_t blocks) : blocks_(blocks) {}
    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        uint64_t round = round_;
        waiting_++;
        open_when_all();
        opened_.wait(lock, [&] { return round_ != round; });
    }
    void leave()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        blocks_--;
        open_when_all();
    }

  private:
    void open_when_all()
    {
        if (waiting_ < blocks_ || waiting_ == 0)
            return;
        waiting_ = 0;
        round_++;
        opened_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable opened_;
    uint32_t blocks_, waiting_ = 0;
    uint64_t round_ = 0;
};

struct CpuBlock {
    aclnpudBlock block;
    CpuGate *gate;
    std::vector<void *> memory;
};

inline thread_local CpuBlock *cpu_block = nullptr;
inline int64_t cpu_tiling_key = 0;

inline const aclnpudBlock *block_self()
{
    return cpu_block ? &cpu_block->block : aclnpudBlockSelf();
}

inline void block_sync()
{
    if (cpu_block)
        cpu_block->gate->wait();
    else
        aclnpudBlockSync();
}

inline void *block_memory(size_t size)
{
    if (!cpu_block)
        return aclnpudBlockMemory(size);
    size = (size + 63) / 64 * 64;
    void *memory = std::aligned_alloc(64, size);
    if (!memory)
        fail("no memory for a buffer of %zu bytes of a block\n", size);
    std::memset(memory, 0, size);
    cpu_block->memory.push_back(memory);
    return memory;
}

template <typename Kernel, typename... Arguments>
void cpu_run(Kernel kernel, uint32_t blocks, Arguments... arguments)
{
    CpuGate gate(blocks);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < blocks; i++)
        threads.emplace_back([&, i] {
            CpuBlock block = {{i, blocks, 0, 1}, &gate, {}};
            cpu_block = &block;
            block_state = BlockState();
            kernel(arguments...);
            gate.leave();
            cpu_block = nullptr;
            for (void *memory : block.memory)
                std::free(memory);
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace npud

#endif
