// The same limits by acl.json; a wrong one is an error of aclInit.
#include "expect.h"

#include <filesystem>
#include <fstream>
#include <string>

static aclError init_with(const std::string &text)
{
    const auto path =
        std::filesystem::temp_directory_path() / ("limits." + std::to_string(getpid()) + ".json");
    std::ofstream(path) << text;
    const aclError result = aclInit(path.c_str());
    std::filesystem::remove(path);
    return result;
}

static size_t limit(aclrtDeviceLimit which)
{
    size_t bytes = 0;
    CALL(aclrtDeviceGetLimit(which, &bytes));
    return bytes;
}

int main()
{
    EXPECT(init_with("{\"simt_printf_fifo_size\": 1}") != ACL_SUCCESS);
    EXPECT(init_with("{\"StackSize\": {\"aicore_stack_size\"") == ACL_ERROR_PARSE_FILE);
    CALL(init_with(R"({
        "StackSize": {"aicore_stack_size": 65536, "simt_stack_size": 2048},
        "simd_printf_fifo_size_per_core": 65536,
        "something of another component": {"level": 3}
    })"));
    EXPECT(limit(ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE) == 65536);
    EXPECT(limit(ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE) == 2048);
    EXPECT(limit(ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE) == 65536);
    CALL(aclFinalize());
    puts("stacks of 64 KiB by acl.json");
}
