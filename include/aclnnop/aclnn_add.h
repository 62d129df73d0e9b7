/*
 * out = self + alpha * other, element by element. The protocol of the two phases, and handles:
 * aclnn/acl_meta.h. workspaceSize is always 0; workspace is not used.
 *
 * Types: FLOAT, FLOAT16, BF16, DOUBLE, INT8, INT16, INT32, INT64, UINT8, BOOL. Those of self and
 * other may differ: both become the type that has the range of both, of which a floating type comes
 * before an integer (FLOAT16 and BF16 give FLOAT; INT8 and UINT8 give INT16). alpha must convert to
 * that type, and that type to the type of out: floating types do not convert to integers, and none
 * but BOOL to BOOL. Integers wrap around. In the place of a tensor `other` may be a scalar; a
 * scalar changes the type only if it is floating and self is not (then it is FLOAT), or if it is an
 * integer and self is BOOL.
 * Shapes: of self and other, aligned at the last dimension, each size is equal or 1; out has the
 * resulting shape exactly, and at most 8 dimensions. Strides are as they like, but each element of
 * out has a place of its own. out may be self or other in all its properties; otherwise its memory
 * is apart from theirs.
 *
 * Errors of the first phase: an argument NULL 161001; types, shapes, strides beyond the storage, or
 * a stale handle 161002; no memory 561101. Errors of the second: executor NULL 161001; an executor
 * that was launched, was destroyed, or is of another operator, or a tensor without address, 161002;
 * what the runtime says of the stream or of the lack of memory 361001.
 */
#ifndef ACLNNOP_ACLNN_ADD_H
#define ACLNNOP_ACLNN_ADD_H

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self,
                                                         const aclTensor *other,
                                                         const aclScalar *alpha, aclTensor *out,
                                                         uint64_t *workspaceSize,
                                                         aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnAdd(void *workspace, uint64_t workspaceSize,
                                         aclOpExecutor *executor, aclrtStream stream);

/* The other is a scalar. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor *self,
                                                          const aclScalar *other,
                                                          const aclScalar *alpha, aclTensor *out,
                                                          uint64_t *workspaceSize,
                                                          aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnAdds(void *workspace, uint64_t workspaceSize,
                                          aclOpExecutor *executor, aclrtStream stream);

/* The result is written to selfRef, whose shape is that of the result. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *selfRef,
                                                                const aclTensor *other,
                                                                const aclScalar *alpha,
                                                                uint64_t *workspaceSize,
                                                                aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnInplaceAdd(void *workspace, uint64_t workspaceSize,
                                                aclOpExecutor *executor, aclrtStream stream);

ACL_FUNC_VISIBILITY aclnnStatus aclnnInplaceAddsGetWorkspaceSize(const aclTensor *selfRef,
                                                                 const aclScalar *other,
                                                                 const aclScalar *alpha,
                                                                 uint64_t *workspaceSize,
                                                                 aclOpExecutor **executor);
ACL_FUNC_VISIBILITY aclnnStatus aclnnInplaceAdds(void *workspace, uint64_t workspaceSize,
                                                 aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
