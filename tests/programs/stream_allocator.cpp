// An allocator of the program that a framework registers for its stream, and libraries look up.
#include "expect.h"

#include <map>

class bump_allocator
{
  public:
    explicit bump_allocator(size_t size)
    {
        CALL(aclrtMalloc(&memory_, size, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    bump_allocator(const bump_allocator &) = delete;
    ~bump_allocator()
    {
        CALL(aclrtFree(memory_));
    }
    static void *take(void *self, size_t size)
    {
        auto *a = static_cast<bump_allocator *>(self);
        void *block = static_cast<char *>(a->memory_) + a->used_;
        a->used_ += size;
        return block;
    }
    static void give(void *self, void *)
    {
        static_cast<bump_allocator *>(self)->freed_++;
    }
    static void *address(void *block)
    {
        return block;
    }
    int freed() const
    {
        return freed_;
    }

  private:
    void *memory_ = nullptr;
    size_t used_ = 0;
    int freed_ = 0;
};

// What a library does that is given the stream only.
static void use_scratch(aclrtStream stream)
{
    aclrtAllocatorDesc descriptor = nullptr;
    aclrtAllocator allocator = nullptr;
    aclrtAllocatorAllocFunc take = nullptr;
    aclrtAllocatorFreeFunc give = nullptr;
    aclrtAllocatorAllocAdviseFunc advise = nullptr;
    aclrtAllocatorGetAddrFromBlockFunc address = nullptr;

    CALL(aclrtAllocatorGetByStream(stream, &descriptor, &allocator, &take, &give, &advise,
                                   &address));
    void *block = take(allocator, 4096);
    CALL(aclrtMemsetAsync(address(block), 4096, 0, 4096, stream));
    give(allocator, block);
}

int main()
{
    aclrtStream stream = nullptr;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    {
        bump_allocator own(1 << 20);
        aclrtAllocatorDesc descriptor = aclrtAllocatorCreateDesc();
        CALL(aclrtAllocatorSetObjToDesc(descriptor, &own));
        CALL(aclrtAllocatorSetAllocFuncToDesc(descriptor, bump_allocator::take));
        CALL(aclrtAllocatorSetFreeFuncToDesc(descriptor, bump_allocator::give));
        CALL(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(descriptor, bump_allocator::address));
        CALL(aclrtAllocatorRegister(stream, descriptor));
        CALL(aclrtAllocatorDestroyDesc(descriptor));
        use_scratch(stream);
        use_scratch(stream);
        CALL(aclrtSynchronizeStream(stream));
        EXPECT(own.freed() == 2);
        CALL(aclrtAllocatorUnregister(stream));
    }
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts("two blocks of the program's allocator");
}
