/* Error codes of the graph engine. The runtime alone never returns them. */
#ifndef ACL_ERROR_CODES_GE_ERROR_CODES_H
#define ACL_ERROR_CODES_GE_ERROR_CODES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bad argument. */
static const uint32_t ACL_ERROR_GE_PARAM_INVALID = 145000;
/* Executor not initialised. */
static const uint32_t ACL_ERROR_GE_EXEC_NOT_INIT = 145001;
/* Bad model path. */
static const uint32_t ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID = 145002;
/* Bad model id. */
static const uint32_t ACL_ERROR_GE_EXEC_MODEL_ID_INVALID = 145003;
/* Bad model size. */
static const uint32_t ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID = 145006;
/* Bad model buffer. */
static const uint32_t ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID = 145007;
/* Bad model queue id. */
static const uint32_t ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID = 145008;
/* Model loaded twice. */
static const uint32_t ACL_ERROR_GE_EXEC_LOAD_MODEL_REPEATED = 145009;
/* Bad dynamic input address. */
static const uint32_t ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID = 145011;
/* Bad dynamic input length. */
static const uint32_t ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID = 145012;
/* Bad dynamic batch. */
static const uint32_t ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID = 145013;
/* Preprocessing batch empty. */
static const uint32_t ACL_ERROR_GE_AIPP_BATCH_EMPTY = 145014;
/* Preprocessing absent. */
static const uint32_t ACL_ERROR_GE_AIPP_NOT_EXIST = 145015;
/* Preprocessing mode wrong. */
static const uint32_t ACL_ERROR_GE_AIPP_MODE_INVALID = 145016;
/* Bad operator task kind. */
static const uint32_t ACL_ERROR_GE_OP_TASK_TYPE_INVALID = 145017;
/* Bad operator kernel kind. */
static const uint32_t ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID = 145018;
/* Bad plug-in path. */
static const uint32_t ACL_ERROR_GE_PLGMGR_PATH_INVALID = 145019;
/* Bad tensor format. */
static const uint32_t ACL_ERROR_GE_FORMAT_INVALID = 145020;
/* Bad tensor shape. */
static const uint32_t ACL_ERROR_GE_SHAPE_INVALID = 145021;
/* Bad tensor type. */
static const uint32_t ACL_ERROR_GE_DATATYPE_INVALID = 145022;

/* Allocation failed. */
static const uint32_t ACL_ERROR_GE_MEMORY_ALLOCATION = 245000;
/* Memory operation failed. */
static const uint32_t ACL_ERROR_GE_MEMORY_OPERATE_FAILED = 245001;
/* Device memory operation failed. */
static const uint32_t ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED = 245002;

/* Deployment degraded. */
static const uint32_t ACL_ERROR_GE_SUBHEALTHY = 345102;
/* User function raised an error. */
static const uint32_t ACL_ERROR_GE_USER_RAISE_EXCEPTION = 345103;
/* Input data not aligned with each other. */
static const uint32_t ACL_ERROR_GE_DATA_NOT_ALIGNED = 345104;

/* Unclassified fault. */
static const uint32_t ACL_ERROR_GE_INTERNAL_ERROR = 545000;
/* Model loading failed. */
static const uint32_t ACL_ERROR_GE_LOAD_MODEL = 545001;
/* Model section not loadable. */
static const uint32_t ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED = 545002;
/* Weight section not loadable. */
static const uint32_t ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED = 545003;
/* Task section not loadable. */
static const uint32_t ACL_ERROR_GE_EXEC_LOAD_TASK_PARTITION_FAILED = 545004;
/* Kernel section not loadable. */
static const uint32_t ACL_ERROR_GE_EXEC_LOAD_KERNEL_PARTITION_FAILED = 545005;
/* Model buffer release failed. */
static const uint32_t ACL_ERROR_GE_EXEC_RELEASE_MODEL_DATA = 545006;
/* Command processing failed. */
static const uint32_t ACL_ERROR_GE_COMMAND_HANDLE = 545007;
/* Tensor description unavailable. */
static const uint32_t ACL_ERROR_GE_GET_TENSOR_INFO = 545008;
/* Model unloading failed. */
static const uint32_t ACL_ERROR_GE_UNLOAD_MODEL = 545009;
/* Model run timed out. */
static const uint32_t ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT = 545601;
/* Deployment is being rebuilt. */
static const uint32_t ACL_ERROR_GE_REDEPLOYING = 545602;

#ifdef __cplusplus
}
#endif

#endif
