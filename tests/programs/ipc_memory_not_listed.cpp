// The list of importers: a process that is not on it gets no memory, and a sentence that says so.
#include "expect.h"

#include <string>

static void try_to_import(int in, int out)
{
    void *memory = nullptr;
    char key[65];

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    TAKE(in, key);
    const aclError refused = aclrtIpcMemImportByKey(&memory, key, 0);
    const char *sentence = aclGetRecentErrMsg();
    EXPECT(sentence && std::string(sentence).find("aclrtIpcMemImportByKey") != std::string::npos);
    GIVE(out, refused);
    TAKE(in, key); // now it is on the list
    CALL(aclrtIpcMemImportByKey(&memory, key, 0));
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtResetDevice(0));
}

int main()
{
    char key[65], not_a_key[65] = "not a key";
    int in = -1, out = -1;
    aclError refused = 0;
    void *memory = nullptr;
    const pid_t child = start_child(try_to_import, &in, &out);

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtIpcMemGetExportKey(memory, 4096, key, sizeof(key), 0));
    GIVE(out, key);
    TAKE(in, refused);
    EXPECT(refused == ACL_ERROR_RT_NO_PERMISSION);
    int32_t pid = child;
    CALL(aclrtIpcMemSetImportPid(key, &pid, 1));
    GIVE(out, key);
    EXPECT(ended_well(child));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtIpcMemSetImportPid(not_a_key, &pid, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtIpcMemGetExportKey(memory, 8192 + 4096, key, 65, 0));
    CALL(aclrtIpcMemClose(key));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    printf("%d at first\n", refused);
}
