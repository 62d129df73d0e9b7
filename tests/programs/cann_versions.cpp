// Versions of the packages of an installation, and what it can do.
#include "expect.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace fs = std::filesystem;

static void write_version(const fs::path &tree, const char *package, const char *version)
{
    const fs::path folder = tree / "share" / "info" / package;
    fs::create_directories(folder);
    std::ofstream(folder / "version.info") << "Version=" << version << '\n';
}

int main()
{
    const fs::path tree = fs::temp_directory_path() / ("cann." + std::to_string(getpid()));
    char package[] = "runtime", none[] = "none", text[ACL_PKG_VERSION_MAX_SIZE];
    aclCANNPackageVersion version;
    const aclCannAttr *attributes = nullptr;
    size_t count = 0;
    int32_t number = 0, has = -1;

    write_version(tree, "runtime", "8.5.0");
    setenv("ASCEND_HOME_PATH", tree.c_str(), 1);
    CALL(aclInit(nullptr));
    CALL(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, &version));
    EXPECT(std::strcmp(version.version, "8.5.0") == 0);
    EXPECT(std::strcmp(version.majorVersion, "8") == 0);
    CALL(aclsysGetVersionStr(package, text));
    EXPECT(std::strcmp(text, "8.5.0") == 0);
    CALL(aclsysGetVersionNum(package, &number));
    EXPECT(number == 80500000);
    FAILS(ACL_ERROR_INVALID_FILE, aclsysGetVersionStr(none, text));

    CALL(aclGetCannAttributeList(&attributes, &count));
    for (aclCannAttr one : std::vector<aclCannAttr>(attributes, attributes + count)) {
        CALL(aclGetCannAttribute(one, &has));
        EXPECT(has == 1);
    }
    CALL(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &has));
    EXPECT(has == 0);
    CALL(aclFinalize());
    fs::remove_all(tree);
    printf("version %d\n", number);
}
