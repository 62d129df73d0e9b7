/* The file of a kernel that has failed is copied beside its dump. */
#include "binary_kit.h"

#include <glob.h>
#include <sys/stat.h>

static char output[] = "/tmp/dump_XXXXXX";

static off_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

int main(void)
{
    const char *name = strrchr(KERNELS, '/') + 1;
    const int32_t *nowhere[4] = {NULL};
    char path[512], command[64];
    aclrtFuncHandle add;
    aclrtBinHandle binary;
    glob_t found;

    EXPECT(mkdtemp(output));
    setenv("NPU_COLLECT_PATH", output, 1);
    setenv("ASCEND_DUMP_SCENE", "lite_exception", 1);
    set_up();
    CALL(aclrtBinaryLoadFromFile(KERNELS, NULL, &binary));
    CALL(aclrtBinaryGetFunction(binary, "add", &add));
    for (int i = 0; i < 2; i++) { /* also when it is there */
        aclrtStream own;

        CALL(aclrtCreateStream(&own));
        CALL(aclrtLaunchKernelWithHostArgs(add, 1, own, NULL, nowhere, sizeof(nowhere), NULL, 0));
        EXPECT(aclrtSynchronizeStream(own) != ACL_SUCCESS);
        CALL(aclrtDestroyStream(own));
    }
    snprintf(path, sizeof(path), "%s/extra-info/data-dump/0/exception_info.*", output);
    EXPECT(glob(path, 0, NULL, &found) == 0 && found.gl_pathc == 2);
    globfree(&found);
    snprintf(path, sizeof(path), "%s/extra-info/data-dump/0/%s", output, name);
    EXPECT(size_of(path) > 0 && size_of(path) == size_of(KERNELS));
    CALL(aclrtBinaryUnLoad(binary));
    snprintf(command, sizeof(command), "rm -rf %s", output);
    EXPECT(system(command) == 0);
    return tear_down();
}
