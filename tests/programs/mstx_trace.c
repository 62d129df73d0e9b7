/* Marks of mstx stand in the profile, by the tool of the toolkit tree. */
#include <acl/acl_npud.h>
#include <acl/acl_prof.h>
#include <mstx/ms_tools_ext.h>

#include <glob.h>
#include <string.h>

#include "expect.h"

static char output[] = "/tmp/profile_XXXXXX";

/* All files of the profile that match, in one text. */
static char *read_profile(const char *which)
{
    char pattern[128], *text = calloc(1, 1 << 16);
    size_t size = 0;
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/PROF_*/%s/trace_*.json", output, which);
    EXPECT(glob(pattern, 0, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "r");

        EXPECT(f);
        size += fread(text + size, 1, (1 << 16) - 1 - size, f);
        fclose(f);
    }
    globfree(&found);
    return text;
}

int main(void)
{
    char tool[512], command[64];
    mstxRangeId outer, inner, crossing;
    mstxDomainHandle_t domain;
    aclrtStream stream;
    uint64_t id;
    char *text;

    EXPECT(mkdtemp(output));
    EXPECT(getenv("ASCEND_HOME_PATH"));
    snprintf(tool, sizeof(tool), "%s/lib64/libnpud_mstx.so", getenv("ASCEND_HOME_PATH"));
    setenv("MSTX_INJECTION_PATH", tool, 1);
    mstxGetToolId(&id);
    EXPECT(id == MSTX_TOOL_MSPROF_ID);
    mstxMarkA("before aclInit", NULL);
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    outer = mstxRangeStartA("not collected", NULL);
    EXPECT(outer != 0);
    mstxRangeEnd(outer);
    CALL(aclprofInit(output, strlen(output)));
    CALL(aclprofStart(NULL));
    outer = mstxRangeStartA("outer", NULL);
    inner = mstxRangeStartA("inner", stream);
    EXPECT(outer != 0 && inner != 0 && outer != inner);
    mstxMarkA("moment", stream);
    mstxMarkA("", NULL);
    mstxMarkA(NULL, NULL);
    EXPECT(mstxRangeStartA(NULL, NULL) == 0);
    domain = mstxDomainCreateA("things");
    EXPECT(domain && domain == mstxDomainCreateA("things") && !mstxDomainCreateA(NULL));
    crossing = mstxDomainRangeStartA(domain, "crossing", NULL);
    mstxRangeEnd(outer);
    mstxRangeEnd(inner);
    mstxDomainRangeEnd(domain, crossing);
    mstxDomainMarkA(domain, "known", NULL);
    mstxDomainDestroy(domain);
    mstxDomainMarkA(domain, "destroyed", NULL);
    EXPECT(mstxDomainRangeStartA(domain, "destroyed", NULL) == 0);
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudTraceMarkInStream(NULL, stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudTraceRangeStart(NULL, &id));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudTraceRangeStart("x", NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudTraceRangeStop(12345));
    CALL(aclnpudTraceRangeStop(0));
    CALL(aclrtSynchronizeStream(stream));
    CALL(aclprofFinalize());

    text = read_profile("host");
    EXPECT(strstr(text, "\"name\":\"outer\"") && strstr(text, "\"name\":\"inner\""));
    EXPECT(strstr(text, "\"name\":\"things: crossing\"") && strstr(text, "\"name\":\"moment\""));
    EXPECT(strstr(text, "\"name\":\"things: known\""));
    EXPECT(!strstr(text, "destroyed") && !strstr(text, "not collected"));
    free(text);
    text = read_profile("device_0");
    EXPECT(strstr(text, "\"name\":\"moment\""));
    free(text);
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", output);
    return system(command) != 0;
}
