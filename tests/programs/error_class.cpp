// Codes and sentences of the library as an exception of C++.
#include "expect.h"

#include <stdexcept>
#include <string>

class acl_error : public std::runtime_error
{
  public:
    acl_error(aclError code, const char *sentence)
        : std::runtime_error(sentence ? sentence : "no sentence"), code_(code)
    {
    }
    aclError code() const
    {
        return code_;
    }

  private:
    aclError code_;
};

static void check(aclError code)
{
    if (code != ACL_SUCCESS)
        throw acl_error(code, aclGetRecentErrMsg());
}

int main()
{
    void *memory = nullptr;
    bool caught = false;

    check(aclInit(nullptr));
    check(aclrtSetDevice(0));
    try {
        check(aclrtMalloc(&memory, static_cast<size_t>(1) << 46, ACL_MEM_MALLOC_HUGE_FIRST));
    } catch (const acl_error &error) {
        caught = error.code() == ACL_ERROR_RT_MEMORY_ALLOCATION;
        EXPECT(std::string(error.what()).find("aclrtMalloc") != std::string::npos);
        puts(error.what());
    }
    EXPECT(caught);
    check(aclrtResetDevice(0));
    check(aclFinalize());
}
