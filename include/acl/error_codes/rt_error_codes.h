/* Error codes of the runtime layer (107xxx, 207xxx, 507xxx). They are macros, usable in #if. */
#ifndef ACL_ERROR_CODES_RT_ERROR_CODES_H
#define ACL_ERROR_CODES_RT_ERROR_CODES_H

#include <stddef.h>

/*
 * The leading digit tells the class: 1 the caller or its environment is at fault, 2 a resource is
 * short or a feature is missing, 5 an internal, hardware or task failure.
 */

/* Runtime-layer success. */
#define ACL_RT_SUCCESS 0

/* Bad argument caught by the runtime layer. */
#define ACL_ERROR_RT_PARAM_INVALID 107000
/* Device id outside the visible range. */
#define ACL_ERROR_RT_INVALID_DEVICEID 107001
/* Calling thread has no usable context. */
#define ACL_ERROR_RT_CONTEXT_NULL 107002
/* Stream belongs to another context. */
#define ACL_ERROR_RT_STREAM_CONTEXT 107003
/* Model belongs to another context. */
#define ACL_ERROR_RT_MODEL_CONTEXT 107004
/* Stream/model binding conflict. */
#define ACL_ERROR_RT_STREAM_MODEL 107005
/* Event carries no usable timestamp. */
#define ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID 107006
/* End timestamp lies before start timestamp. */
#define ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL 107007
/* Memory address misses required alignment. */
#define ACL_ERROR_RT_ADDR_UNALIGNED 107008
/* File could not be opened. */
#define ACL_ERROR_RT_FILE_OPEN 107009
/* File could not be written. */
#define ACL_ERROR_RT_FILE_WRITE 107010
/* Stream subscription missing or duplicated. */
#define ACL_ERROR_RT_STREAM_SUBSCRIBE 107011
/* Thread subscription missing or duplicated. */
#define ACL_ERROR_RT_THREAD_SUBSCRIBE 107012
/* Resource group was not selected. */
#define ACL_ERROR_RT_GROUP_NOT_SET 107013
/* Resource group does not exist. */
#define ACL_ERROR_RT_GROUP_NOT_CREATE 107014
/* Stream has no registered callback thread. */
#define ACL_ERROR_RT_STREAM_NO_CB_REG 107015
/* Memory of a kind not allowed here. */
#define ACL_ERROR_RT_INVALID_MEMORY_TYPE 107016
/* Stale, foreign, or wrong-kind handle. */
#define ACL_ERROR_RT_INVALID_HANDLE 107017
/* Allocation kind not allowed here. */
#define ACL_ERROR_RT_INVALID_MALLOC_TYPE 107018
/* A host-side wait ran out of time. */
#define ACL_ERROR_RT_WAIT_TIMEOUT 107019
/* A submitted task ran out of time. */
#define ACL_ERROR_RT_TASK_TIMEOUT 107020
/* Context option queried before being set. */
#define ACL_ERROR_RT_SYSPARAMOPT_NOT_SET 107021
/* Refused or interrupted: device abort in progress. */
#define ACL_ERROR_RT_DEVICE_TASK_ABORT 107022
/* Refused or interrupted: stream abort in progress. */
#define ACL_ERROR_RT_STREAM_ABORT 107023
/* Dependency not legal inside a capture. */
#define ACL_ERROR_RT_CAPTURE_DEPENDENCY 107024
/* Capture ends with a forked stream not joined back. */
#define ACL_ERROR_RT_STREAM_UNJOINED 107025
/* Model is being captured. */
#define ACL_ERROR_RT_MODEL_CAPTURED 107026
/* Stream is being captured; call not allowed. */
#define ACL_ERROR_RT_STREAM_CAPTURED 107027
/* Event is part of a capture; call not allowed. */
#define ACL_ERROR_RT_EVENT_CAPTURED 107028
/* Stream is not being captured. */
#define ACL_ERROR_RT_STREAM_NOT_CAPTURED 107029
/* Call forbidden by the active capture mode. */
#define ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT 107030
/* Default stream would add a forbidden dependency. */
#define ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT 107031
/* Streams that depend on each other cannot both start a capture. */
#define ACL_ERROR_STREAM_CAPTURE_CONFLICT 107032
/* Task-group begin/end order is wrong. */
#define ACL_ERROR_STREAM_TASK_GROUP_STATUS 107033
/* Task-group recording was interrupted. */
#define ACL_ERROR_STREAM_TASK_GROUP_INTR 107034
/* Device abort stopped before its second phase. */
#define ACL_ERROR_RT_TASK_ABORT_STOP 107035
/* Capture was begun on a different stream. */
#define ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED 107036
/* Model still executes. */
#define ACL_ERROR_RT_MODEL_RUNNING 107037
/* Capture ended by another thread than began it. */
#define ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD 107038
/* Caller array too short for the result. */
#define ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY 107039
/* Model update was rejected. */
#define ACL_ERROR_RT_MODEL_UPDATE_FAILED 107040
/* Async call would turn synchronous during capture. */
#define ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC 107041
/* Named device symbol missing. */
#define ACL_ERROR_RT_SYMBOL_NOT_FOUND 107042
/* Symbol argument not valid. */
#define ACL_ERROR_RT_INVALID_SYMBOL 107043
/* Device function argument not valid. */
#define ACL_ERROR_RT_INVALID_DEVICE_FUNCTION 107044
/* Nested graph is still being captured. */
#define ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING 107045

/* Device, driver or build lacks this feature. */
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT 207000
/* Out of memory. */
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001
/* Releasing memory failed. */
#define ACL_ERROR_RT_MEMORY_FREE 207002
/* Arithmetic overflow seen by cube cores. */
#define ACL_ERROR_RT_AICORE_OVER_FLOW 207003
/* No usable device. */
#define ACL_ERROR_RT_NO_DEVICE 207004
/* A runtime resource could not be obtained. */
#define ACL_ERROR_RT_RESOURCE_ALLOC_FAIL 207005
/* Operation not permitted. */
#define ACL_ERROR_RT_NO_PERMISSION 207006
/* Event pool exhausted. */
#define ACL_ERROR_RT_NO_EVENT_RESOURCE 207007
/* Stream pool exhausted. */
#define ACL_ERROR_RT_NO_STREAM_RESOURCE 207008
/* Notify pool exhausted. */
#define ACL_ERROR_RT_NO_NOTIFY_RESOURCE 207009
/* Model pool exhausted. */
#define ACL_ERROR_RT_NO_MODEL_RESOURCE 207010
/* Hardware queue pool exhausted. */
#define ACL_ERROR_RT_NO_CDQ_RESOURCE 207011
/* Count exceeds a limit. */
#define ACL_ERROR_RT_OVER_LIMIT 207012
/* Queue holds nothing. */
#define ACL_ERROR_RT_QUEUE_EMPTY 207013
/* Queue has no room. */
#define ACL_ERROR_RT_QUEUE_FULL 207014
/* Object initialised twice. */
#define ACL_ERROR_RT_REPEATED_INIT 207015
/* Arithmetic overflow seen by vector cores. */
#define ACL_ERROR_RT_AIVEC_OVER_FLOW 207016
/* Arithmetic overflow, unit not specified. */
#define ACL_ERROR_RT_OVER_FLOW 207017
/* Device side out of memory. */
#define ACL_ERROR_RT_DEVICE_OOM 207018
/* This operator cannot be updated. */
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP 207019
/* Driver call timed out. */
#define ACL_ERROR_RT_TIMEOUT 207020
/* Requested memory link kind unavailable. */
#define ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED 207021

/* Runtime fault; also stands in for unmapped internal codes. */
#define ACL_ERROR_RT_INTERNAL_ERROR 507000
/* Fault in the device task scheduler. */
#define ACL_ERROR_RT_TS_ERROR 507001
/* Stream task ring is full. */
#define ACL_ERROR_RT_STREAM_TASK_FULL 507002
/* Stream task ring is empty. */
#define ACL_ERROR_RT_STREAM_TASK_EMPTY 507003
/* Stream still has work. */
#define ACL_ERROR_RT_STREAM_NOT_COMPLETE 507004
/* Data source finished (status more than failure). */
#define ACL_ERROR_RT_END_OF_SEQUENCE 507005
/* Event not reached yet. */
#define ACL_ERROR_RT_EVENT_NOT_COMPLETE 507006
/* Device reset/context release not possible (nothing held, or already dying). */
#define ACL_ERROR_RT_CONTEXT_RELEASE_ERROR 507007
/* Chip name wrong or unavailable. */
#define ACL_ERROR_RT_SOC_VERSION 507008
/* Unknown task kind. */
#define ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT 507009
/* Device scheduler stopped responding. */
#define ACL_ERROR_RT_LOST_HEARTBEAT 507010
/* Model run failed. */
#define ACL_ERROR_RT_MODEL_EXECUTE 507011
/* No completion report in time. */
#define ACL_ERROR_RT_REPORT_TIMEOUT 507012
/* DMA engine fault. */
#define ACL_ERROR_RT_SYS_DMA 507013
/* Kernel exceeded the execute timeout. */
#define ACL_ERROR_RT_AICORE_TIMEOUT 507014
/* Kernel fault. */
#define ACL_ERROR_RT_AICORE_EXCEPTION 507015
/* Kernel trapped. */
#define ACL_ERROR_RT_AICORE_TRAP_EXCEPTION 507016
/* Device CPU task exceeded its time. */
#define ACL_ERROR_RT_AICPU_TIMEOUT 507017
/* Device CPU task fault. */
#define ACL_ERROR_RT_AICPU_EXCEPTION 507018
/* Device CPU answered a dump request with an error. */
#define ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR 507019
/* Device CPU answered a model request with an error. */
#define ACL_ERROR_RT_AICPU_MODEL_RSP_ERR 507020
/* Profiling fault. */
#define ACL_ERROR_RT_PROFILING_ERROR 507021
/* Inter-process sharing fault. */
#define ACL_ERROR_RT_IPC_ERROR 507022
/* Model ended early on request. */
#define ACL_ERROR_RT_MODEL_ABORT_NORMAL 507023
/* Kernel is being unregistered. */
#define ACL_ERROR_RT_KERNEL_UNREGISTERING 507024
/* Ring buffer not ready. */
#define ACL_ERROR_RT_RINGBUFFER_NOT_INIT 507025
/* Ring buffer empty. */
#define ACL_ERROR_RT_RINGBUFFER_NO_DATA 507026
/* Kernel not known to the runtime. */
#define ACL_ERROR_RT_KERNEL_LOOKUP 507027
/* Kernel registered twice. */
#define ACL_ERROR_RT_KERNEL_DUPLICATE 507028
/* Debug hook could not be set. */
#define ACL_ERROR_RT_DEBUG_REGISTER_FAIL 507029
/* Debug hook could not be removed. */
#define ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL 507030
/* Label belongs to another context. */
#define ACL_ERROR_RT_LABEL_CONTEXT 507031
/* Program slots exhausted. */
#define ACL_ERROR_RT_PROGRAM_USE_OUT 507032
/* Device not opened or could not be brought up. */
#define ACL_ERROR_RT_DEV_SETUP_ERROR 507033
/* Vector kernel exceeded its time. */
#define ACL_ERROR_RT_VECTOR_CORE_TIMEOUT 507034
/* Vector kernel fault. */
#define ACL_ERROR_RT_VECTOR_CORE_EXCEPTION 507035
/* Vector kernel trapped. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION 507036
/* Hardware queue batch went wrong. */
#define ACL_ERROR_RT_CDQ_BATCH_ABNORMAL 507037
/* Die mode is fixed. */
#define ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR 507038
/* Die choice impossible in single-die mode. */
#define ACL_ERROR_RT_DIE_SET_ERROR 507039
/* No such die. */
#define ACL_ERROR_RT_INVALID_DIEID 507040
/* Die mode missing. */
#define ACL_ERROR_RT_DIE_MODE_NOT_SET 507041
/* Cube kernel read out of bounds. */
#define ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW 507042
/* Cube kernel wrote out of bounds. */
#define ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW 507043
/* Vector kernel read out of bounds. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW 507044
/* Vector kernel wrote out of bounds. */
#define ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW 507045
/* Stream/device synchronise timed out. */
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046
/* Event synchronise timed out. */
#define ACL_ERROR_RT_EVENT_SYNC_TIMEOUT 507047
/* Fused-task unit exceeded its time. */
#define ACL_ERROR_RT_FFTS_PLUS_TIMEOUT 507048
/* Fused-task unit fault. */
#define ACL_ERROR_RT_FFTS_PLUS_EXCEPTION 507049
/* Fused-task unit trapped. */
#define ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION 507050
/* Host-to-device message not delivered. */
#define ACL_ERROR_RT_SEND_MSG 507051
/* Data copy failed. */
#define ACL_ERROR_RT_COPY_DATA 507052
/* Confirmed device memory fault. */
#define ACL_ERROR_RT_DEVICE_MEM_ERROR 507053
/* Uncorrectable ECC fault in HBM. */
#define ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR 507054
/* Device memory fault suspected. */
#define ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR 507055
/* Interconnect fault. */
#define ACL_ERROR_RT_LINK_ERROR 507056
/* Fault on the remote side suspected. */
#define ACL_ERROR_RT_SUSPECT_REMOTE_ERROR 507057
/* Unclassified driver fault. */
#define ACL_ERROR_RT_DRV_INTERNAL_ERROR 507899
/* Unclassified device CPU fault. */
#define ACL_ERROR_RT_AICPU_INTERNAL_ERROR 507900
/* Host-device channel closed. */
#define ACL_ERROR_RT_SOCKET_CLOSE 507901
/* Device CPU answered a load request with an error. */
#define ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR 507902
/* Capture was spoiled earlier. */
#define ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED 507903
/* Collective retry failed. */
#define ACL_ERROR_RT_COMM_OP_RETRY_FAIL 507904
/* Process snapshot: locking timed out. */
#define ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT 507905
/* Process snapshot: locking failed. */
#define ACL_ERROR_SNAPSHOT_LOCK_FAILED 507906
/* Process snapshot: unlocking failed. */
#define ACL_ERROR_SNAPSHOT_UNLOCK_FAILED 507907
/* Process snapshot: saving failed. */
#define ACL_ERROR_SNAPSHOT_BACKUP_FAILED 507908
/* Process snapshot: restoring failed. */
#define ACL_ERROR_SNAPSHOT_RESTORE_FAILED 507909
/* Host range overlaps a registered one. */
#define ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED 507910
/* Host range was never registered. */
#define ACL_ERROR_HOST_MEMORY_NOT_REGISTERED 507911
/* Process snapshot: user callback failed. */
#define ACL_ERROR_SNAPSHOT_CALLBACK_FAILED 507912
/* Process snapshot: callback not accepted. */
#define ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED 507913
/* L3 port fault. */
#define ACL_ERROR_RT_L3_PORT_ERROR 507914
/* Collective unit exceeded its time. */
#define ACL_ERROR_RT_CCU_TIMEOUT 507915
/* Collective unit fault. */
#define ACL_ERROR_RT_CCU_EXCEPTION 507916

#endif
