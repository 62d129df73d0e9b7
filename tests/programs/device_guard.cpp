// Guards that make a device current for a block, and restore the one before.
#include "expect.h"

class device_guard
{
  public:
    explicit device_guard(int32_t device)
    {
        CALL(aclrtGetDevice(&before_));
        CALL(aclrtSetDevice(device));
        set_ = device;
    }
    ~device_guard()
    {
        CALL(aclrtSetDevice(before_));
        CALL(aclrtResetDevice(before_)); // of the set before: the use of the block ends
        CALL(aclrtResetDevice(set_));
    }

  private:
    int32_t before_ = -1, set_ = -1;
};

static int32_t current_device()
{
    int32_t device = -1;

    CALL(aclrtGetDevice(&device));
    return device;
}

int main()
{
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    {
        device_guard outer(1);
        EXPECT(current_device() == 1);
        {
            device_guard inner(0);
            EXPECT(current_device() == 0);
        }
        EXPECT(current_device() == 1);
    }
    EXPECT(current_device() == 0);
    CALL(aclrtResetDevice(0));
    FAILS(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, aclrtResetDevice(1));
    CALL(aclFinalize());
    puts("0, 1, 0, 1, 0");
}
