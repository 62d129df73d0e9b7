// What may stand in the configuration of dumps.
#include <acl/acl_dump.h>

#include <cstring>
#include <fstream>
#include <string>

#include "expect.h"

static std::string path;

static const char *file_with(const std::string &text)
{
    std::ofstream(path) << text;
    return path.c_str();
}

static std::string dump(const std::string &members)
{
    return "{\"dump\": {" + members + "}}";
}

int main()
{
    static const char *const bad[] = {
        R"("dump_path": 1)",
        R"("dump_path": "")",
        R"("dump_scene": "all")",
        R"("dump_scene": 1)",
        R"("dump_mode": "both")",
        R"("dump_op_switch": "yes")",
        R"("dump_data": "")",
        R"("dump_debug": true)",
        R"("dump_debug": "on")", // without a path
        R"("dump_op_switch": "on")",
        R"("dump_scene": "watcher", "dump_debug": "on", "dump_path": "/tmp")",
        R"("dump_kernel_data": "all,")",
        R"("dump_kernel_data": "printf,none")",
        R"("dump_step": "1|")",
        R"("dump_step": "-1")",
        R"("dump_list": {}, "dump_path": "/tmp")",
        R"("dump_list": [1], "dump_path": "/tmp")",
        R"("dump_list": [{"model_name": 1}], "dump_path": "/tmp")",
        R"("dump_list": [{"layer": [1]}], "dump_path": "/tmp")",
    };
    char folder[] = "/tmp/dump_XXXXXX";

    EXPECT(mkdtemp(folder));
    path = std::string(folder) + "/dump.json";
    FAILS(ACL_ERROR_UNINITIALIZE, aclmdlInitDump());
    FAILS(ACL_ERROR_UNINITIALIZE, aclmdlSetDump(nullptr));
    FAILS(ACL_ERROR_UNINITIALIZE, aclmdlFinalizeDump());

    // The configuration of aclInit is checked by the same rules.
    FAILS(ACL_ERROR_INVALID_DUMP_CONFIG, aclInit(file_with(dump(R"("dump_mode": "both")"))));
    setenv("ASCEND_DUMP_SCENE", "aic_err_brief_dump", 1);
    CALL(aclInit(nullptr));
    EXPECT(acldumpGetPath(AIC_ERR_BRIEF_DUMP) &&
           strcmp(acldumpGetPath(AIC_ERR_BRIEF_DUMP), ".") == 0);
    FAILS(ACL_ERROR_DUMP_NOT_RUN, aclmdlSetDump(nullptr));
    CALL(aclmdlInitDump());
    FAILS(ACL_ERROR_REPEAT_INITIALIZE, aclmdlInitDump());
    FAILS(ACL_ERROR_INVALID_PARAM, aclmdlSetDump(nullptr));
    FAILS(ACL_ERROR_INVALID_FILE, aclmdlSetDump("/nowhere/dump.json"));
    FAILS(ACL_ERROR_PARSE_FILE, aclmdlSetDump(file_with("{")));
    FAILS(ACL_ERROR_PARSE_FILE, aclmdlSetDump(file_with("[]")));
    FAILS(ACL_ERROR_INVALID_DUMP_CONFIG, aclmdlSetDump(file_with(R"({"dump": []})")));
    for (const char *members : bad)
        FAILS(ACL_ERROR_INVALID_DUMP_CONFIG, aclmdlSetDump(file_with(dump(members))));
    CALL(aclmdlSetDump(file_with("")));
    EXPECT(acldumpGetPath(AIC_ERR_BRIEF_DUMP)); // nothing has changed

    CALL(aclmdlSetDump(file_with(dump(
        R"("dump_path": "/tmp/x", "dump_list": [{"model_name": "m", "layer": ["a"]}],
           "dump_mode": "all", "dump_data": "stats", "dump_step": "0|2|5-9")"))));
    EXPECT(!acldumpGetPath(AIC_ERR_BRIEF_DUMP));
    EXPECT(strcmp(acldumpGetPath(DATA_DUMP), "/tmp/x") == 0);
    setenv("NPU_COLLECT_PATH", "/tmp/first", 1);
    setenv("ASCEND_WORK_PATH", "/tmp/second", 1);
    CALL(aclmdlSetDump(file_with(dump(R"("dump_debug": "on", "dump_path": "/tmp/x")"))));
    EXPECT(strcmp(acldumpGetPath(OVERFLOW_DUMP), "/tmp/first") == 0);
    unsetenv("NPU_COLLECT_PATH");
    CALL(aclmdlSetDump(file_with(
        dump(R"("dump_scene": "aic_err_detail_dump", "dump_kernel_data": "printf,tensor")"))));
    EXPECT(strcmp(acldumpGetPath(AIC_ERR_DETAIL_DUMP), "/tmp/second") == 0);
    EXPECT(!acldumpGetPath(AIC_ERR_NORM_DUMP));
    CALL(aclmdlSetDump(file_with("{}")));
    EXPECT(!acldumpGetPath(AIC_ERR_DETAIL_DUMP));
    CALL(aclmdlSetDump(file_with(dump(R"("dump_scene": "lite_exception")"))));
    EXPECT(acldumpGetPath(AIC_ERR_BRIEF_DUMP));
    CALL(aclmdlFinalizeDump());
    EXPECT(!acldumpGetPath(AIC_ERR_BRIEF_DUMP));
    CALL(aclmdlInitDump());
    CALL(aclFinalize());
    unlink(path.c_str());
    return rmdir(folder);
}
