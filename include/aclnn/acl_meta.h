/*
 * What operators take: tensors, scalars, arrays and lists of them; and executors, of the two-phase
 * protocol. The functions are in libopapi.so (libnnopbase.so is another name of it).
 *
 * The two phases: aclnnXxxGetWorkspaceSize() checks the arguments and makes an executor, which has
 * a copy of all that it needs; aclnnXxx() launches it on a stream and frees it. Between the phases
 * and after them, tensors, scalars and arrays may be destroyed. Device memory must stay until the
 * operator has run. An executor that aclSetAclOpExecutorRepeatable() has marked may be launched as
 * often as wanted, and is freed by aclDestroyAclOpExecutor(); so is one that is never launched.
 *
 * All handles are opaque and of the process. A handle that was destroyed, or is of another kind, is
 * refused with ACLNN_ERR_PARAM_INVALID. None of the functions needs a context or aclInit, but for
 * those that launch. Any thread may call them. Sentences about failures: aclGetRecentErrMsg().
 */
#ifndef ACLNN_ACL_META_H
#define ACLNN_ACL_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;

typedef int32_t aclnnStatus;

#define ACLNN_SUCCESS           0
#define ACLNN_ERR_PARAM_NULLPTR 161001 /* a required argument is NULL */
#define ACLNN_ERR_PARAM_INVALID 161002 /* an argument cannot be used: the sentence says why */
#define ACLNN_ERR_RUNTIME_ERROR 361001 /* the runtime refused a call: its sentence says why */
/* Of the inside. npud gives 561101 (no memory for an executor) and 561103, where it says so. */
#define ACLNN_ERR_INNER                    561000
#define ACLNN_ERR_INNER_INFERSHAPE_ERROR   561001
#define ACLNN_ERR_INNER_TILING_ERROR       561002
#define ACLNN_ERR_INNER_FIND_KERNEL_ERROR  561003
#define ACLNN_ERR_INNER_CREATE_EXECUTOR    561101
#define ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR 561102
#define ACLNN_ERR_INNER_NULLPTR            561103

/* --- tensors --- */

/*
 * A view of device memory. viewDims are the sizes that operators see; stride says by how many
 * elements neighbours along each dimension are apart, and offset at which element the view begins.
 * storageDims are what lies in the memory at tensorData; operators look at their product. All that
 * is pointed to is copied, but for tensorData.
 * viewDimsNum 0 is a tensor of one element. stride NULL: contiguous, the last dimension varies
 * first. storageDimsNum 0: the storage is the view. tensorData may be NULL, and set later
 * (aclSetRawTensorAddr).
 * Returns NULL, and a sentence, if a number is negative, there are more than 25 dimensions, an
 * array is NULL that should have numbers, the type is not of aclDataType, or memory is short.
 */
ACL_FUNC_VISIBILITY aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum,
                                               aclDataType dataType, const int64_t *stride,
                                               int64_t offset, aclFormat format,
                                               const int64_t *storageDims, uint64_t storageDimsNum,
                                               void *tensorData);

/*
 * Give an existing tensor other properties, all of them. tensor NULL 161001; the rest as for
 * aclCreateTensor, as 161002, and the tensor stays as it was.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims,
                                              uint64_t viewDimsNum, aclDataType dataType,
                                              const int64_t *stride, int64_t offset,
                                              aclFormat format, const int64_t *storageDims,
                                              uint64_t storageDimsNum, void *tensorDataAddr);

/* NULL does nothing. The device memory is the program's. A tensor in a list goes with the list. */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensor(const aclTensor *tensor);

/*
 * Properties. An argument that is NULL gives 161001. The arrays of GetViewShape, GetStorageShape
 * and GetViewStrides are new memory of the caller, from malloc(): free() releases it. delete[], as
 * programs in C++ have it, does the same, but AddressSanitizer reports it.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims,
                                                uint64_t *viewDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                                                   uint64_t *storageDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue,
                                                  uint64_t *stridesNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);
ACL_FUNC_VISIBILITY aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType);

/* tensorData of aclCreateTensor. An executor that was made before keeps the address it had. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr);

/* --- scalars, arrays and lists --- */

/*
 * A number of the host, which is copied. Returns NULL, and a sentence, if value is NULL, the type
 * is none that an element of its own can have, or memory is short.
 */
ACL_FUNC_VISIBILITY aclScalar *aclCreateScalar(void *value, aclDataType dataType);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalar(const aclScalar *scalar);

/*
 * `size` numbers of the host, which are copied. value may be NULL if size is 0. NULL is returned,
 * with a sentence, if it is NULL otherwise, or memory is short. Sizes: NULL gives 161001.
 */
ACL_FUNC_VISIBILITY aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);
ACL_FUNC_VISIBILITY aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size);
ACL_FUNC_VISIBILITY aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyIntArray(const aclIntArray *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size);

/*
 * A list takes its tensors or scalars over: they are destroyed with it, and not by themselves. A
 * NULL in it stands for one that is left out. NULL is returned as above.
 */
ACL_FUNC_VISIBILITY aclTensorList *aclCreateTensorList(const aclTensor *const *value,
                                                       uint64_t size);
ACL_FUNC_VISIBILITY aclScalarList *aclCreateScalarList(const aclScalar *const *value,
                                                       uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensorList(const aclTensorList *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalarList(const aclScalarList *array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList,
                                                     uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList,
                                                     uint64_t *size);

/* --- executors --- */

/* The executor stays after its launches. NULL 561103; one that was launched is gone: 161002. */
ACL_FUNC_VISIBILITY aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor);

/*
 * Free an executor that is repeatable, or was never launched. Launches that are under way go on.
 * NULL 561103.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

/*
 * Another address for the launches to come, of the input, of the output, or of the tensor `index`,
 * where inputs come first, in the order of the arguments. The address is also noted in `tensor`. An
 * operator in place has one tensor as input 0 and as output 0: either changes both.
 * executor or tensor NULL 561103; an executor that is not repeatable, or an index that it does not
 * have, 161002.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index,
                                                      aclTensor *tensor, void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index,
                                                       aclTensor *tensor, void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index,
                                                 aclTensor *tensor, void *addr);

#ifdef __cplusplus
}
#endif

#endif
