/*
 * out = self @ mat2: products of matrices, which are the last two dimensions.
 *
 * self and mat2 have 1 to 6 dimensions. [..., m, k] @ [..., k, n] is [..., m, n], where the leading
 * dimensions, aligned at their last, are equal or 1. A vector [k] on the left counts as [1, k], on
 * the right as [k, 1], and out has no dimension for the 1; of two vectors, out is [] or [1]. k 0
 * gives zeros. Memory of out is apart from the others', and each element has a place of its own.
 * Types: FLOAT, FLOAT16, BF16. Those of self and mat2 are equal, or FLOAT and FLOAT16, which are
 * computed as FLOAT. Sums are kept in FLOAT; out has any of the three types.
 * cubeMathType: 0 (KEEP_DTYPE): as it is. 1 (ALLOW_FP32_DOWN_PRECISION): the same with npud. 2
 * (USE_FP16): FLOAT is rounded to FLOAT16 before it is multiplied; not for BF16. 3 (USE_HF32): for
 * FLOAT alone; npud computes as with 0. It does not matter for two vectors. Others are 161002.
 * Errors, workspace and phases: as for aclnn_add.h.
 */
#ifndef ACLNNOP_ACLNN_MATMUL_H
#define ACLNNOP_ACLNN_MATMUL_H

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self,
                                                            const aclTensor *mat2, aclTensor *out,
                                                            int8_t cubeMathType,
                                                            uint64_t *workspaceSize,
                                                            aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnMatmul(void *workspace, uint64_t workspaceSize,
                                            aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
