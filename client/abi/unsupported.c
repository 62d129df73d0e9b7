/*
 * What the library does not implement: every function of the interface that has no code elsewhere
 * is defined here, so that programs link and start. Each reports its own name through
 * error_unsupported and answers ACL_ERROR_RT_FEATURE_NOT_SUPPORT, or what its kind of result has
 * for "nothing".
 *
 * The definitions take no parameters, unlike the declarations in include/acl/. The C ABI lets that
 * pass, as the caller places the arguments and clears them away, and nothing here looks at them. It
 * would not pass the compiler, so this file must not include the acl headers, directly or through
 * error.h. Whoever implements a function deletes its line.
 */
#include <stddef.h>
#include <stdint.h>

int error_unsupported(const char *function); /* error.h */

#define EXPORTED __attribute__((visibility("default")))

#define RETURNS(type, value, name)                                                                 \
    EXPORTED type name(void);                                                                      \
    EXPORTED type name(void)                                                                       \
    {                                                                                              \
        (void)error_unsupported(#name);                                                            \
        return value;                                                                              \
    }

/* Returns the error code itself; most functions do. */
#define STATUS(name)                                                                               \
    EXPORTED int name(void);                                                                       \
    EXPORTED int name(void)                                                                        \
    {                                                                                              \
        return error_unsupported(#name);                                                           \
    }

#define POINTER(name)           RETURNS(void *, NULL, name)
#define NUMBER64(name)          RETURNS(uint64_t, 0, name)
#define SIZE(name)              RETURNS(size_t, 0, name)
#define ENUMERATOR(value, name) RETURNS(int, value, name)

#define NOTHING(name)                                                                              \
    EXPORTED void name(void);                                                                      \
    EXPORTED void name(void)                                                                       \
    {                                                                                              \
    }

/* Installation and chip. */
STATUS(aclGetCannAttributeList)
STATUS(aclGetCannAttribute)
STATUS(aclGetDeviceCapability)

/* Start, end, messages. */
STATUS(aclInitCallbackRegister)
STATUS(aclInitCallbackUnRegister)
STATUS(aclFinalizeCallbackRegister)
STATUS(aclFinalizeCallbackUnRegister)
STATUS(aclsysGetCANNVersion)
STATUS(aclsysGetVersionStr)
STATUS(aclsysGetVersionNum)

/* Devices. */
STATUS(aclrtGetDeviceInfo)
STATUS(aclrtGetDeviceCapability)
STATUS(aclrtGetDeviceUtilizationRate)
STATUS(aclrtSetDeviceSatMode)
STATUS(aclrtGetDeviceSatMode)
STATUS(aclrtSetSysParamOpt)
STATUS(aclrtGetSysParamOpt)
STATUS(aclrtCtxSetSysParamOpt)
STATUS(aclrtCtxGetSysParamOpt)
STATUS(aclrtSetTsDevice)
STATUS(aclrtGetDevicesTopo)
STATUS(aclrtDeviceGetPCIBusId)
STATUS(aclrtDeviceGetByPCIBusId)
STATUS(aclrtCheckArchCompatibility)
STATUS(aclrtDeviceSetLimit)
STATUS(aclrtDeviceGetLimit)
STATUS(aclrtDeviceL2CacheFlush)
STATUS(aclrtGetHardwareSyncAddr)
STATUS(aclrtGetLogicDevIdByUserDevId)
STATUS(aclrtGetUserDevIdByLogicDevId)
STATUS(aclrtGetLogicDevIdByPhyDevId)
STATUS(aclrtGetPhyDevIdByLogicDevId)
STATUS(aclrtGetUserDevIdByPhyDevId)
STATUS(aclrtGetPhyDevIdByUserDevId)
STATUS(aclrtDeviceGetHostAtomicCapabilities)
STATUS(aclrtDeviceGetP2PAtomicCapabilities)
STATUS(aclrtSetGroup)
STATUS(aclrtGetGroupCount)
STATUS(aclrtDestroyGroupInfo)
STATUS(aclrtGetAllGroupInfo)
STATUS(aclrtGetGroupInfoDetail)
STATUS(aclrtGetOverflowStatus)
STATUS(aclrtResetOverflowStatus)
STATUS(aclrtGetFloatOverflowStatus)
STATUS(aclrtResetFloatOverflowStatus)
STATUS(aclrtNpuGetFloatOverFlowStatus)
STATUS(aclrtNpuClearFloatOverFlowStatus)
STATUS(aclrtGetErrorVerbose)
STATUS(aclrtRepairError)
STATUS(aclrtGetMemUceInfo)
STATUS(aclrtMemUceRepair)
STATUS(aclrtSnapShotProcessLock)
STATUS(aclrtSnapShotProcessUnlock)
STATUS(aclrtSnapShotProcessBackup)
STATUS(aclrtSnapShotProcessRestore)
STATUS(aclrtSnapShotCallbackRegister)
STATUS(aclrtSnapShotCallbackUnregister)

/* Contexts. */
STATUS(aclrtCtxGetFloatOverflowAddr)

/* Streams. */
STATUS(aclrtActiveStream)
STATUS(aclrtSwitchStream)
STATUS(aclrtCreateLabel)
STATUS(aclrtDestroyLabel)
STATUS(aclrtSetLabel)
STATUS(aclrtCreateLabelList)
STATUS(aclrtDestroyLabelList)
STATUS(aclrtSwitchLabelByIndex)
STATUS(aclrtRandomNumAsync)
STATUS(aclrtTaskUpdateAsync)
STATUS(aclrtCacheLastTaskOpInfo)
STATUS(aclrtCacheLastTaskExtendInfo)
STATUS(aclrtProfTrace)

/* Notifies. */

/* Memory. */
STATUS(aclrtMallocWithCfg)
STATUS(aclrtMallocHostWithCfg)
STATUS(aclrtMemcpy2d)
STATUS(aclrtMemcpy2dAsync)
STATUS(aclrtMemcpyBatch)
STATUS(aclrtMemcpyBatchAsync)
STATUS(aclrtMemFlush)
STATUS(aclrtMemInvalidate)
STATUS(aclrtHostRegister)
STATUS(aclrtHostRegisterV2)
STATUS(aclrtHostGetDevicePointer)
STATUS(aclrtHostUnregister)
STATUS(aclrtHostMemMapCapabilities)
STATUS(aclrtFreeWithDevSync)
STATUS(aclrtFreeHostWithDevSync)
STATUS(aclrtMallocForTaskScheduler)
STATUS(aclrtGetMemUsageInfo)
STATUS(aclrtMemGetAddressRange)
STATUS(aclrtCheckMemType)
STATUS(aclrtMemP2PMap)
STATUS(aclrtMemcpyAsyncWithCondition)
STATUS(aclrtMemcpyBatchV2)
STATUS(aclrtMemcpyBatchAsyncV2)
STATUS(aclrtGetMemcpyDescSize)
STATUS(aclrtSetMemcpyDesc)
STATUS(aclrtMemcpyAsyncWithDesc)
STATUS(aclrtMemcpyAsyncWithOffset)
STATUS(aclrtMemsetD32)
STATUS(aclrtMemsetD32Async)
STATUS(aclrtGetSymbolAddress)
STATUS(aclrtGetSymbolSize)
STATUS(aclrtMemcpyFromSymbol)
STATUS(aclrtMemcpyFromSymbolAsync)
STATUS(aclrtMemcpyToSymbol)
STATUS(aclrtMemcpyToSymbolAsync)
STATUS(aclrtCmoAsync)
STATUS(aclrtCmoAsyncWithBarrier)
STATUS(aclrtCmoWaitBarrier)
STATUS(aclrtCmoGetDescSize)
STATUS(aclrtCmoSetDesc)
STATUS(aclrtCmoAsyncWithDesc)
STATUS(aclrtMemAllocManaged)
STATUS(aclrtMemManagedAdvise)
STATUS(aclrtMemManagedGetAttr)
STATUS(aclrtMemManagedGetAttrs)
STATUS(aclrtMemManagedPrefetchAsync)
STATUS(aclrtMemManagedPrefetchBatchAsync)

/* Memory shared between processes, by key. */
STATUS(aclrtIpcMemGetExportKey)
STATUS(aclrtIpcMemSetImportPid)
STATUS(aclrtIpcMemImportByKey)
STATUS(aclrtIpcMemClose)
STATUS(aclrtIpcMemSetAttr)
STATUS(aclrtIpcMemImportPidInterServer)

/* Virtual memory management. */
STATUS(aclrtReserveMemAddress)
STATUS(aclrtReserveMemAddressNoUCMemory)
STATUS(aclrtReleaseMemAddress)
STATUS(aclrtMemGetAllocationGranularity)
STATUS(aclrtMallocPhysical)
STATUS(aclrtFreePhysical)
STATUS(aclrtMemRetainAllocationHandle)
STATUS(aclrtMemGetAllocationPropertiesFromHandle)
STATUS(aclrtMapMem)
STATUS(aclrtMemMapNoAccess)
STATUS(aclrtUnmapMem)
STATUS(aclrtMemSetAccess)
STATUS(aclrtMemGetAccess)
STATUS(aclrtMemMapSelectedLink)
STATUS(aclrtMemMapSetLink)
STATUS(aclrtMemExportToShareableHandle)
STATUS(aclrtMemExportToShareableHandleV2)
STATUS(aclrtMemSetPidToShareableHandle)
STATUS(aclrtMemSetPidToShareableHandleV2)
STATUS(aclrtMemImportFromShareableHandle)
STATUS(aclrtMemImportFromShareableHandleV2)

/* Kernels. */
STATUS(aclrtDestroyBinary)
STATUS(aclrtBinaryLoad)
STATUS(aclrtBinaryLoadFromFile)
STATUS(aclrtBinaryLoadFromData)
STATUS(aclrtBinaryUnLoad)
STATUS(aclrtBinaryGetDevAddress)
STATUS(aclrtBinaryGetGlobal)
STATUS(aclrtBinaryGetFunction)
STATUS(aclrtBinaryGetFunctionByEntry)
STATUS(aclrtRegisterCpuFunc)
STATUS(aclrtGetFuncBySymbol)
STATUS(aclrtGetFunctionAddr)
STATUS(aclrtGetFunctionSize)
STATUS(aclrtGetFunctionName)
STATUS(aclrtGetFunctionAttribute)
STATUS(aclrtFunctionGetBinary)
STATUS(aclrtFunctionGetParamCount)
STATUS(aclrtFunctionGetParamInfo)
STATUS(aclrtFunctionGetAvailDynUbufPerBlock)
STATUS(aclrtKernelArgsInit)
STATUS(aclrtKernelArgsInitByUserMem)
STATUS(aclrtKernelArgsGetMemSize)
STATUS(aclrtKernelArgsGetHandleMemSize)
STATUS(aclrtKernelArgsAppend)
STATUS(aclrtKernelArgsAppendPlaceHolder)
STATUS(aclrtKernelArgsGetPlaceHolderBuffer)
STATUS(aclrtKernelArgsParaUpdate)
STATUS(aclrtKernelArgsFinalize)
STATUS(aclrtLaunchKernel)
STATUS(aclrtLaunchKernelV2)
STATUS(aclrtLaunchKernelWithConfig)
STATUS(aclrtLaunchKernelWithHostArgs)
STATUS(aclrtLaunchKernelWithArgsArray)
STATUS(aclrtLaunchSIMTKernelWithArgsArray)
STATUS(aclrtLaunchSIMTKernelWithHostArgs)

/* Model graphs. */
STATUS(aclmdlRICaptureBegin)
STATUS(aclmdlRICaptureToModelRIBegin)
STATUS(aclmdlRICaptureEnd)
STATUS(aclmdlRICaptureGetInfo)
STATUS(aclmdlRICaptureThreadExchangeMode)
STATUS(aclmdlRICaptureTaskGrpBegin)
STATUS(aclmdlRICaptureTaskGrpEnd)
STATUS(aclmdlRICaptureTaskUpdateBegin)
STATUS(aclmdlRICaptureTaskUpdateEnd)
STATUS(aclmdlRIBuildBegin)
STATUS(aclmdlRIBindStream)
STATUS(aclmdlRIUnbindStream)
STATUS(aclmdlRIEndTask)
STATUS(aclmdlRIBuildEnd)
STATUS(aclmdlRICondHandleCreate)
STATUS(aclmdlRICondHandleGetCondPtr)
STATUS(aclmdlRIAddCondTask)
STATUS(aclmdlRIExecute)
STATUS(aclmdlRIExecuteAsync)
STATUS(aclmdlRIUpdate)
STATUS(aclmdlRIAbort)
STATUS(aclmdlRIDestroy)
STATUS(aclmdlRIDestroyRegisterCallback)
STATUS(aclmdlRIDestroyUnregisterCallback)
STATUS(aclmdlRISetName)
STATUS(aclmdlRIGetName)
STATUS(aclmdlRIGetId)
STATUS(aclmdlRIDebugPrint)
STATUS(aclmdlRIDebugJsonPrint)
STATUS(aclmdlRIGetStreams)
STATUS(aclmdlRIGetTasksByStream)
STATUS(aclmdlRITaskGetType)
STATUS(aclmdlRITaskGetSeqId)
STATUS(aclmdlRITaskGetParams)
STATUS(aclmdlRITaskSetParams)
STATUS(aclmdlRITaskDisable)
STATUS(aclmdlRIKernelTaskGetAttribute)
STATUS(aclmdlInitDump)
STATUS(aclmdlSetDump)
STATUS(aclmdlFinalizeDump)

/* User allocators. */
STATUS(aclrtAllocatorDestroyDesc)
STATUS(aclrtAllocatorSetObjToDesc)
STATUS(aclrtAllocatorSetAllocFuncToDesc)
STATUS(aclrtAllocatorSetFreeFuncToDesc)
STATUS(aclrtAllocatorSetAllocAdviseFuncToDesc)
STATUS(aclrtAllocatorSetGetAddrFromBlockFuncToDesc)
STATUS(aclrtAllocatorRegister)
STATUS(aclrtAllocatorGetByStream)
STATUS(aclrtAllocatorUnregister)

/* Shared buffers, queues and routes. */

/* Tensor channels. */
STATUS(acltdtDestroyDataItem)
STATUS(acltdtGetDimsFromItem)
STATUS(acltdtGetSliceInfoFromItem)
STATUS(acltdtDestroyDataset)
STATUS(acltdtAddDataItem)
STATUS(acltdtStopChannel)
STATUS(acltdtDestroyChannel)
STATUS(acltdtCleanChannel)
STATUS(acltdtQueryChannelSize)
STATUS(acltdtSendTensor)
STATUS(acltdtReceiveTensor)

/* Profiling. */
STATUS(aclprofInit)
STATUS(aclprofFinalize)
STATUS(aclprofDestroyConfig)
STATUS(aclprofSetConfig)
STATUS(aclprofStart)
STATUS(aclprofStop)
STATUS(aclprofDestroySubscribeConfig)
STATUS(aclprofModelSubscribe)
STATUS(aclprofModelUnSubscribe)
STATUS(aclprofGetOpDescSize)
STATUS(aclprofGetOpNum)
STATUS(aclprofGetOpTypeLen)
STATUS(aclprofGetOpType)
STATUS(aclprofGetOpNameLen)
STATUS(aclprofGetOpName)
STATUS(aclprofGetStepTimestamp)
STATUS(aclprofSetStampTraceMessage)
STATUS(aclprofMark)
STATUS(aclprofMarkEx)
STATUS(aclprofPush)
STATUS(aclprofPop)
STATUS(aclprofRangeStart)
STATUS(aclprofRangeStop)
STATUS(aclprofRangePushEx)
STATUS(aclprofRangePop)

/* Stream-ordered pools: declared, but not in the table of the interface. */
STATUS(aclrtMemPoolCreate)
STATUS(aclrtMemPoolDestroy)
STATUS(aclrtMemPoolMallocAsync)
STATUS(aclrtMemPoolFreeAsync)
STATUS(aclrtMemPoolTrimTo)

/* Objects and texts: NULL. */
POINTER(aclrtCreateGroupInfo)
POINTER(aclrtCreateBinary)
POINTER(aclrtAllocatorCreateDesc)
POINTER(acltdtCreateDataItem)
POINTER(acltdtGetDataAddrFromItem)
POINTER(acltdtCreateDataset)
POINTER(acltdtGetDataItem)
POINTER(acltdtGetDatasetName)
POINTER(acltdtCreateChannel)
POINTER(acltdtCreateChannelWithCapacity)
POINTER(aclprofCreateConfig)
POINTER(aclprofCreateSubscribeConfig)
POINTER(aclprofGetOpAttriValue)
POINTER(aclprofCreateStepInfo)
POINTER(aclprofCreateStamp)

/* 64-bit times and ids: 0. */
NUMBER64(aclprofGetOpStart)
NUMBER64(aclprofGetOpEnd)
NUMBER64(aclprofGetOpDuration)
NUMBER64(aclprofStr2Id)

/* Sizes: 0. */
SIZE(acltdtGetDataSizeFromItem)
SIZE(acltdtGetDimNumFromItem)
SIZE(acltdtGetDatasetSize)
SIZE(aclprofGetModelId)

/* Enumerators: the one that means undefined or none. */
ENUMERATOR(-1, acltdtGetTensorTypeFromItem)
ENUMERATOR(-1, acltdtGetDataTypeFromItem)
ENUMERATOR(255, aclprofGetOpFlag)

/* Destructors of what is never created. */
NOTHING(aclprofDestroyStepInfo)
NOTHING(aclprofDestroyStamp)
