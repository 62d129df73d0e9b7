/* Compute groups: parts of a chip. A simulated chip has none. */
#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/process.h"

struct tagRtGroupInfo {
    uint32_t groups;
};

aclError aclrtSetGroup(int32_t groupId)
{
    CALL_SCOPE;

    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtSetGroup: there is no group %d: a simulated chip has no groups",
                     groupId);
}

aclError aclrtGetGroupCount(uint32_t *count)
{
    REQUIRE(count);
    *count = 0;
    return 0;
}

aclrtGroupInfo *aclrtCreateGroupInfo(void)
{
    CALL_SCOPE;
    aclrtGroupInfo *info = calloc(1, sizeof(*info));

    if (!info)
        error_no_memory(__func__);
    return info;
}

aclError aclrtDestroyGroupInfo(aclrtGroupInfo *groupInfo)
{
    REQUIRE(groupInfo);
    free(groupInfo);
    return 0;
}

aclError aclrtGetAllGroupInfo(aclrtGroupInfo *groupInfo)
{
    REQUIRE(groupInfo);
    groupInfo->groups = 0;
    return 0;
}

aclError aclrtGetGroupInfoDetail(const aclrtGroupInfo *groupInfo, int32_t groupIndex,
                                 aclrtGroupAttr attr, void *attrValue, size_t valueLen,
                                 size_t *paramRetSize)
{
    (void)valueLen;
    REQUIRE(groupInfo);
    REQUIRE(attrValue);
    REQUIRE(paramRetSize);
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "aclrtGetGroupInfoDetail: there is no group %d, whose attribute %d could be "
                     "told: there are %u groups",
                     groupIndex, (int)attr, groupInfo->groups);
}
