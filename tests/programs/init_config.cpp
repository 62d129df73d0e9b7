// acl.json with a default device: a thread that has set none uses it.
#include "expect.h"

#include <fstream>
#include <string>

int main()
{
    const char *folder = getenv("TMPDIR");
    const std::string path =
        std::string(folder ? folder : "/tmp") + "/acl." + std::to_string(getpid()) + ".json";
    int32_t device = -1;

    std::ofstream(path) << "{\"defaultDevice\": {\"default_device\": \"1\"}}\n";
    CALL(aclInit(path.c_str()));
    unlink(path.c_str());
    CALL(aclrtGetDevice(&device));
    EXPECT(device == 1);

    void *memory = nullptr;
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CALL(aclrtFree(memory));
    CALL(aclFinalize());
    printf("device %d by acl.json\n", device);
}
