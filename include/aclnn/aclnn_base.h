/* Start and end of the operators, for programs that use them without aclInit. */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Neither is needed with npud, which has nothing to prepare. configPath: a file of JSON, or NULL;
 * npud reads nothing from it, but one that cannot be opened gives 161002.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
