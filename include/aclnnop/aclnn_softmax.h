/*
 * out = exp(self) / sum(exp(self)), where the sum goes along one dimension.
 *
 * dim is that dimension; a negative one counts from behind, so it is from -n to n-1 for n
 * dimensions (-1 or 0 for a tensor without dimensions). self and out have the same shape, of at
 * most 8 dimensions, and any of the types FLOAT, FLOAT16, BF16, DOUBLE. Large numbers do not
 * overflow: the largest is subtracted before exp. out may be self in all its properties; otherwise
 * its memory is apart from self's. Empty tensors are allowed. Errors, workspace and phases: as for
 * aclnn_add.h; a dim out of range is 161002.
 */
#ifndef ACLNNOP_ACLNN_SOFTMAX_H
#define ACLNNOP_ACLNN_SOFTMAX_H

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim,
                                                             aclTensor *out,
                                                             uint64_t *workspaceSize,
                                                             aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnSoftmax(void *workspace, uint64_t workspaceSize,
                                             aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
