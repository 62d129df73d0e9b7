/* The runtime: devices, contexts, streams, events, notifies, memory, callbacks, kernels, graphs. */
#ifndef ACL_ACL_RT_H
#define ACL_ACL_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"
#include "acl_rt_allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How to read this file
 *
 * Every function that returns aclError returns 0 on success; out parameters keep their old content
 * on failure unless the comment says otherwise. Functions may be called from any thread, and before
 * aclInit. Sizes are bytes; the unit of a timeout is named with the function, because it differs.
 *
 * "Needs a context": the calling thread must have a current context (from aclrtSetDevice,
 * aclrtCreateContext or aclrtSetCurrentContext), otherwise 107002. "Stream codes": 107002 without a
 * context, 107003 when the stream belongs to another context, 107017 when the handle is destroyed
 * or is no stream. A stream argument of NULL means the default stream of the current context.
 *
 * The numbers that recur: 100000 bad argument seen by the API layer (NULL, unknown enumerator),
 * 107000 bad value, 107001 device id out of range, 107002 no context, 107003 foreign stream, 107017
 * stale or wrong handle, 207000 not supported, 207001 out of memory, 507901 npud is gone.
 *
 * Once npud has ended the session (npuctl kill), or has itself ended, every blocked and later call
 * that fails with a code of the runtime layer (107xxx, 207xxx, 507xxx) returns 507901 in its place:
 * handles, buffers and records are no longer what they were, and that is no mistake of the program.
 * Codes of the API layer (100000, 100001 ...) and 207000 of a missing function stay as they are.
 *
 * A function that npud declares but does not implement returns 207000, and aclGetRecentErrMsg names
 * it; it never pretends success. Getters that return no aclError answer NULL, 0 or 0xFFFFFFFF then.
 */

/* The level of the interface that this library offers; see aclrtGetVersion. */
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

/* ---------------------------------------------------------------------- start, end, messages */

typedef enum aclRegisterCallbackType {
    ACL_REG_TYPE_ACL_MODEL = 0,
    ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
    ACL_REG_TYPE_ACL_OP_CBLAS = 2,
    ACL_REG_TYPE_ACL_OP_COMPILER = 3,
    ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
    ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
    ACL_REG_TYPE_ACL_DVPP = 6,
    ACL_REG_TYPE_ACL_RETR = 7,
    ACL_REG_TYPE_OTHER = 0xFFFF,
} aclRegisterCallbackType;

typedef enum aclrtLastErrLevel {
    ACL_RT_THREAD_LEVEL = 0,
} aclrtLastErrLevel;

typedef aclError (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
typedef aclError (*aclFinalizeCallbackFunc)(void *userData);

/*
 * Starts the use of the library in this process. configPath names a JSON file; NULL, "" and a blank
 * file mean no configuration. Opens no device and does not need npud to run. A further call while
 * active counts the use, ignores configPath and returns 100002, which callers may take for success.
 * Errors: 100003 file missing, not regular or over 10 MiB; 100006 bad JSON or nested deeper than
 * 10; 100000 text differs from that of the first aclInit of this process; 500001 bad entry.
 */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);

/*
 * Ends the use, however many times aclInit was called. Does not reset devices or destroy contexts
 * and streams; do that before. Not for destructors that run at process exit. A later aclInit with
 * the same configuration text is allowed. Errors: 100037 when nothing is active; the very first
 * call of a process that has not called aclInit succeeds all the same, as in the vendor's library,
 * because functions work without aclInit, and programs end what those have begun.
 *
 * The connection to npud ends here unless it is in use: by a device that is set, by a context, by a
 * thread that sleeps at a queue or for a record of another process, or by a callback that the
 * calling thread is in. Then it stays, with all that the process has, and 0 is returned as well;
 * the process closes it by calling aclInit and aclFinalize again. Until it calls aclInit, others
 * are told that it writes and records nothing, as soon as its streams have done what they were
 * given: waits that it alone could have ended fail (507057, at queues 507899). Other threads may be
 * inside calls: aclFinalize waits until they have returned, at most one second, and frees the
 * session's memory after that. Such a call succeeds, or returns 507901 or an error of a handle that
 * is no longer there (107000, 107002, 107017). A call that begins afterwards connects anew if it
 * needs npud, and knows no older handle.
 */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/*
 * Undoes one aclInit: lowers the count and does the work of aclFinalize when it reaches zero. The
 * count after the call is stored in *refCount, which may be NULL. Errors: 100037 when it was zero.
 */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);

/*
 * Callbacks around aclInit and aclFinalize: rarely used. One per type, but any number for
 * ACL_REG_TYPE_OTHER. aclInit calls those of the types MODEL, OP_EXECUTOR (only with a
 * configuration file), DVPP and OTHER, in this order, with the text of the configuration (""
 * without a file) and its bytes; aclFinalize, or the aclFinalizeReference that ends the use, those
 * of OP_COMPILER, MODEL, DVPP and OTHER. The other types are never called. A callback that fails
 * ends the call with its code: aclInit has then not been, and aclFinalize can be called again. A
 * callback for aclInit that is registered afterwards is called at once, and its result ignored.
 * Callbacks may use the API; those of aclFinalize cannot call aclInit and aclFinalize (500000). A
 * forked child begins without any. Errors: cbFunc NULL, unknown type 100000; the type has one
 * already, or Unregister of what is not registered 500000; no memory 207001.
 */
ACL_FUNC_VISIBILITY aclError aclInitCallbackRegister(aclRegisterCallbackType type,
                                                     aclInitCallbackFunc cbFunc, void *userData);
ACL_FUNC_VISIBILITY aclError aclInitCallbackUnRegister(aclRegisterCallbackType type,
                                                       aclInitCallbackFunc cbFunc);
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type,
                                                         aclFinalizeCallbackFunc cbFunc,
                                                         void *userData);
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                                           aclFinalizeCallbackFunc cbFunc);

/*
 * The sentences about recent failures in the calling thread (in the process, with err_msg_mode "1"
 * in the configuration), newest first, or NULL when there are none. Reading clears them. The text
 * belongs to the library and stays valid until the next call in the same thread.
 */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);

/*
 * The last runtime-layer error (107xxx, 207xxx, 507xxx) of the calling thread, as the return value
 * itself; 0 when there was none. Get clears the record, Peek keeps it; later successes do not clear
 * it. Errors: 100000 when level is not ACL_RT_THREAD_LEVEL.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/*
 * Deprecated, still common: the level of the interface, 1.17.0. Needs neither aclInit nor a device.
 * Errors: any pointer NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion,
                                             int32_t *patchVersion);

/*
 * Versions of packages of a CANN installation beside npud: rarely used. They are read from the line
 * Version= of $ASCEND_HOME_PATH/share/info/<package>/version.info, also with '-' and '_' swapped in
 * the name; for "driver" and "firmware" from where /etc/ascend_install.info says that they are.
 */
#define ACL_PKG_VERSION_MAX_SIZE       128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

typedef enum aclCANNPackageName {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7,
} aclCANNPackageName;

typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

/*
 * Deprecated. The version, and its parts between dots: major, minor, release, and what follows.
 * Errors: NULL, unknown name 100000; not found 100003.
 */
ACL_FUNC_VISIBILITY aclError aclsysGetCANNVersion(aclCANNPackageName name,
                                                  aclCANNPackageVersion *version);

/*
 * The version as text; versionStr has at least 128 bytes. A longer one is cut.
 * Errors: NULL 100000; not found 100003.
 */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/*
 * The version as a number that grows with it: major * 10000000 + minor * 100000 + patch * 1000, and
 * for 8.5.0.alpha001, 8.5.0-beta.2 or 8.3.RC1 the number behind the word less 300, 200 or 100.
 * Errors: NULL 100000; not found 100003; another form 500000.
 */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/* ------------------------------------------------------------------------------------ devices */

typedef enum aclrtRunMode {
    ACL_DEVICE = 0, /* the program runs on a CPU of the device */
    ACL_HOST = 1,
} aclrtRunMode;

typedef enum aclrtTsId {
    ACL_TS_ID_AICORE = 0,
    ACL_TS_ID_AIVECTOR = 1,
    ACL_TS_ID_RESERVED = 2,
} aclrtTsId;

typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 0xFFFF, /* filler, never reported */
} aclrtDeviceStatus;

typedef enum aclrtDeviceState {
    ACL_RT_DEVICE_STATE_SET_PRE = 0,
    ACL_RT_DEVICE_STATE_SET_POST = 1,
    ACL_RT_DEVICE_STATE_RESET_PRE = 2,
    ACL_RT_DEVICE_STATE_RESET_POST = 3,
} aclrtDeviceState;

typedef enum aclrtDeviceTaskAbortStage {
    ACL_RT_DEVICE_TASK_ABORT_PRE = 0,
    ACL_RT_DEVICE_TASK_ABORT_POST = 1,
} aclrtDeviceTaskAbortStage;

typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2,
} aclrtFloatOverflowMode;

/* Items of aclrtGetDeviceInfo. Those from 202 to 212 are 0 on chips without SIMT. */
typedef enum aclrtDevAttr {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_WARP_SIZE = 202,
    ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
    ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204, /* older name of the next */
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,      /* bytes */
    ACL_DEV_ATTR_MAX_GRID_DIM_X = 205,
    ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206,
    ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207,
    ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208,
    ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301, /* bytes */
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,         /* bytes */
    ACL_DEV_ATTR_SMP_ID = 401,                /* equal for devices under one OS image */
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403, /* misspelt older name of the next */
    ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
    ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404,
    ACL_DEV_ATTR_SUPER_POD_ID = 405,
    ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
    ACL_DEV_ATTR_MAINBOARD_ID = 407,
    ACL_DEV_ATTR_HD_CONNECT_TYPE = 408,    /* ACL_HOST_DEVICE_CONNECT_TYPE_* */
    ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409, /* ACL_DEVICE_FORM_FACTOR_* */
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
    ACL_DEV_ATTR_NPU_ARCH = 601,
} aclrtDevAttr;

#define ACL_HOST_DEVICE_CONNECT_TYPE_PCIE 0
#define ACL_HOST_DEVICE_CONNECT_TYPE_HCCS 1
#define ACL_HOST_DEVICE_CONNECT_TYPE_UB   2

#define ACL_DEVICE_FORM_FACTOR_POD       0
#define ACL_DEVICE_FORM_FACTOR_A_K       1
#define ACL_DEVICE_FORM_FACTOR_A_X       2
#define ACL_DEVICE_FORM_FACTOR_PCIE_CARD 3

typedef enum aclrtDevFeatureType {
    ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
    ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21,
} aclrtDevFeatureType;

/* Answers of aclrtGetDeviceCapability. */
#define ACL_DEV_FEATURE_NOT_SUPPORT 0x00000000U
#define ACL_DEV_FEATURE_SUPPORT     0x00000001U

typedef enum aclrtDevResLimitType {
    ACL_RT_DEV_RES_CUBE_CORE = 0,
    ACL_RT_DEV_RES_VECTOR_CORE = 1,
} aclrtDevResLimitType;

typedef enum aclrtDeviceLimit {
    ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE = 0,
    ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE = 1,
    ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE = 2,
    ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3,
    ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE = 4,
} aclrtDeviceLimit;

/* How two devices are joined, answers of aclrtGetDevicesTopo. */
#define ACL_RT_DEVS_TOPOLOGY_HCCS    0x01ULL
#define ACL_RT_DEVS_TOPOLOGY_PIX     0x02ULL
#define ACL_RT_DEVS_TOPOLOGY_PIB     0x04ULL
#define ACL_RT_DEVS_TOPOLOGY_PHB     0x08ULL
#define ACL_RT_DEVS_TOPOLOGY_SYS     0x10ULL
#define ACL_RT_DEVS_TOPOLOGY_SIO     0x20ULL
#define ACL_RT_DEVS_TOPOLOGY_HCCS_SW 0x40ULL

typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;

/* Percentages 0..100; -1 where unknown. */
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    aclrtUtilizationExtendInfo *utilizationExtend; /* must be NULL */
} aclrtUtilizationInfo;

typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;

typedef void (*aclrtDeviceStateCallback)(int32_t deviceId, aclrtDeviceState state, void *args);
typedef int32_t (*aclrtDeviceTaskAbortCallback)(int32_t deviceId, aclrtDeviceTaskAbortStage stage,
                                                uint32_t timeout, void *args);

/*
 * Opens the device on first use, binds the calling thread to its primary context and raises the
 * process-wide set count of the device by one. Ids run from 0 to the device count - 1; with
 * ASCEND_RT_VISIBLE_DEVICES they index that list. New threads are unbound; the last bind wins.
 * Undo each call with aclrtResetDevice. Errors: 107001 no such device; 507033 cannot be brought up.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

/*
 * Lowers the set count. At zero it waits for the work of the primary context, destroys that context
 * with all its streams, and closes the device unless an explicit context holds it; threads bound to
 * the primary context get 107002 from then on, and device memory of the process is gone. A binding
 * of the calling thread to another device stays.
 *
 * A kernel that runs meanwhile may run for the limit of aclrtSetOpExecuteTimeOut, or for 25.4 s if
 * none is set, from its beginning or that of the reset, the later one. Then it is ended, what is
 * queued in the streams of the context is discarded, and the call returns 507014. The device is
 * reset all the same.
 * Errors: 107001; 507007 when the count is zero; 507014.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);

/*
 * As aclrtResetDevice, but drops the whole set count at once, and a kernel may run for a second at
 * most.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

/*
 * The device of the calling thread's context; with a default device in the configuration and an
 * unbound thread that id, without opening it. Errors: NULL 100000; unbound thread 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);

/* The number of visible devices. Needs no context. Errors: NULL 100000; 207004 bad visible list. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);

/* Where this program runs; ACL_HOST under npud. Needs no context. Errors: NULL 100000. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/*
 * Blocks until everything submitted so far to any stream of this process on the device of the
 * current context is done, whatever context the stream belongs to. Needs a context. Returns the
 * error of the first failed stream, under the same rules as aclrtSynchronizeStream.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);

/*
 * The same with a limit in milliseconds; -1 waits for ever. When it passes, 507046 is returned and
 * the work goes on. Errors: timeout 0 or below -1 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/*
 * Whether deviceId can reach the memory of peerDeviceId: 1 or 0. Needs no context.
 * Errors: same id twice 100000; canAccessPeer NULL 107000; bad id 107001; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId,
                                                      int32_t peerDeviceId);

/*
 * Lets the current device reach the memory of the peer; not the other way round. The state is kept
 * per process and pair of devices; enabling twice succeeds. flags must be 0. Needs a context.
 * Errors: peer is the current device 100000; bad id 107001; flags not 0 200006.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/* Takes that back; waits for nothing, so synchronise first. Checks as for enabling. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/* Whether access of deviceId to peerDeviceId is enabled: 1 or 0. Errors: NULL 100000; id 107000. */
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId,
                                                         int32_t *status);

/*
 * One number about a device, see aclrtDevAttr. Needs neither context nor aclrtSetDevice. Memory is
 * what npud has given the device; cores, caches and architecture are those of the chip that npud's
 * configuration names ([sim] soc_name), although a simulated device runs nothing on cores; a name
 * that npud does not know is taken for an Ascend910B. There is no SIMT (202 to 212 are 0), devices
 * are cards on PCIe, and the physical chip is npud's number of the device.
 * Errors: value NULL 100000; unknown attr or bad deviceId 107000; super pods (403 to 405) 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr,
                                                int64_t *value);

/*
 * The range of stream priorities: least 7, greatest 0; the smaller number is more urgent. Either
 * pointer may be NULL. Needs no context.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority,
                                                               int32_t *greatestPriority);

/*
 * Whether a feature is there: npud has the first one. Errors: NULL 100000; unknown feature 107000;
 * bad id 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCapability(int32_t deviceId,
                                                      aclrtDevFeatureType devFeatureType,
                                                      int32_t *value);

/* Health of a device. Needs no context. Errors: NULL 100000; bad id 107001. */
ACL_FUNC_VISIBILITY aclError aclrtQueryDeviceStatus(int32_t deviceId,
                                                    aclrtDeviceStatus *deviceStatus);

/*
 * Load of the units of a device. The caller sets utilizationExtend to NULL before the call; what is
 * not known comes back as -1, also for a device that there is not. A simulated device has one
 * engine: cube and vector are both the percentage of the last second in which it did work for any
 * process, copies, sets, reductions and delays; the others are not known. Needs no context.
 * Errors: NULL, or utilizationExtend not NULL, 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId,
                                                           aclrtUtilizationInfo *utilizationInfo);

/*
 * The id of the calling process as the host sees it, also from inside a container; this is the pid
 * that white lists of shared objects want. npud says it, as the kernel of its host does; without
 * npud, it is what getpid() says. Needs no context. Errors: NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);

/*
 * Registers a callback under a unique name; a NULL callback removes it. It runs on the thread that
 * sets or resets, in the order of registration: SET_POST after every successful set, the others
 * only when the device is really opened or released (threads that set or reset the same device at
 * the same moment may each see the PRE of it). At RESET_PRE the device can still be used. No lock
 * is held, so it may use the API, except setting or resetting the same device. A callback that is
 * removed meanwhile is not called any more; a forked child begins without any. Errors: regName NULL
 * 100000; name in use 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegDeviceStateCallback(const char *regName,
                                                         aclrtDeviceStateCallback callback,
                                                         void *args);

/*
 * Saturating or Inf/NaN arithmetic, for streams created later. It is a setting of the process,
 * Inf/NaN unless set, which is kept and given back: kernels are code of the host, which it does
 * not change. Needs no context. Errors: Get NULL 100000; mode outside 0..1 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);

/*
 * Process-wide options of kernels, 0 unless set: they are kept and given back.
 * ACL_OPT_DETERMINISTIC takes 0 to 3, the others 0 and 1. Need no context. Errors: unknown opt or
 * value NULL 100000; value out of range 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/*
 * The same options for the current context, but for ACL_OPT_ENABLE_KERNEL_EARLY_START: rarely used.
 * The process keeps its own. Errors, in this order: value NULL, unknown opt 100000; value out of
 * range 107000; no context 107002; Get of what was not set in this context 107021.
 */
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/*
 * Which scheduler is used, on chips with two: no effect here. Rarely used.
 * Errors: neither AICORE nor AIVECTOR 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetTsDevice(aclrtTsId tsId);

/*
 * How two devices are joined: simulated ones through the host, ACL_RT_DEVS_TOPOLOGY_PHB, also a
 * device with itself. Rarely used. Errors: NULL 100000; no such device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId,
                                                 uint64_t *value);
/*
 * 16 bytes that name the device: the same in every process, after every restart and reboot, and for
 * simulated devices made of the id of the machine and the number of the device. Needs no context.
 * Errors: uuid NULL 100000; no such device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/*
 * The bus id of a device, 12 characters dddd:bb:dd.f in lower case, and the device of a bus id.
 * Those of simulated devices are made of their numbers, in a domain that no host has: fffe:01:00.0
 * is npud's first. Rarely used. Errors: NULL 100000; len below 13, or no device that this process
 * sees has the bus id 107000; no such device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len);
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId);

/*
 * 1 if what was built for the named chip fits the devices here, else 0: it has their name, or npud
 * knows it and it has the same architecture. Rarely used. Errors: NULL or "" 107000; no npud and no
 * NPUD_SOC_NAME 207004.
 */
ACL_FUNC_VISIBILITY aclError aclrtCheckArchCompatibility(const char *socVersion,
                                                         int32_t *canCompatible);

/*
 * Bytes of stacks and of print buffers of kernels, for all devices: rarely used. The configuration
 * of aclInit has the same settings, and the later one counts; they are kept and given back. Stacks
 * are rounded up: SIMD to 16 KiB, and at least 32 KiB; SIMT to 128 bytes. Print buffers are 1 KiB
 * (SIMD; rounded up to 8 bytes) or 1 MiB (SIMT) to 64 MiB. Needs no context.
 * Errors: NULL, unknown limit, value above 32 bits 100000; value out of range 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value);
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value);

/*
 * Simulated devices have no cache, so there is nothing to flush. Rarely used. Errors: rsv not NULL
 * 100000; no context 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceL2CacheFlush(void *rsv);

/*
 * Device memory of 4 KiB, zeros at first, by which kernels would synchronise the cores of the
 * current device: the same for each call of the process until the device is reset. No core uses it
 * here.
 * Errors: NULL 107000; no context 107002; out of memory 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetHardwareSyncAddr(void **addr);

/*
 * Device ids: user = after the visible-devices filter, logic = before it, phy = of the machine. For
 * simulated devices the last two are the same: npud's number. Need no context. Errors: NULL 100000;
 * negative 107000; no such device, or one that ASCEND_RT_VISIBLE_DEVICES hides 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid,
                                                           int32_t *const logicDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId,
                                                           int32_t *const userDevid);
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId,
                                                          int32_t *const logicDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId,
                                                          int32_t *const phyDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId,
                                                         int32_t *const userDevId);
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId,
                                                         int32_t *const phyDevId);

/* Atomic operations between host and device, and between devices: rarely used. */
typedef enum aclrtAtomicOperation {
    ACL_RT_ATOMIC_OPERATION_INTEGER_ADD = 0,
    ACL_RT_ATOMIC_OPERATION_INTEGER_MIN = 1,
    ACL_RT_ATOMIC_OPERATION_INTEGER_MAX = 2,
    ACL_RT_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
    ACL_RT_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
    ACL_RT_ATOMIC_OPERATION_AND = 5,
    ACL_RT_ATOMIC_OPERATION_OR = 6,
    ACL_RT_ATOMIC_OPERATION_XOR = 7,
    ACL_RT_ATOMIC_OPERATION_EXCHANGE = 8,
    ACL_RT_ATOMIC_OPERATION_CAS = 9,
    ACL_RT_ATOMIC_OPERATION_FLOAT_ADD = 10,
    ACL_RT_ATOMIC_OPERATION_FLOAT_MIN = 11,
    ACL_RT_ATOMIC_OPERATION_FLOAT_MAX = 12,
    ACL_RT_ATOMIC_OPERATION_DMA_ADD = 30,
    ACL_RT_ATOMIC_OPERATION_DMA_MIN = 31,
    ACL_RT_ATOMIC_OPERATION_DMA_MAX = 32,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_ADD = 40,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MIN = 41,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MAX = 42,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_CAS = 43,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH = 44,
} aclrtAtomicOperation;

typedef enum aclrtAtomicOperationCapability {
    ACL_RT_ATOMIC_CAPABILITY_SIGNED = 0x1,
    ACL_RT_ATOMIC_CAPABILITY_UNSIGNED = 0x2,
    ACL_RT_ATOMIC_CAPABILITY_REDUCATION = 0x4, /* misspelt older name of the next */
    ACL_RT_ATOMIC_CAPABILITY_REDUCTION = 0x4,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR8 = 0x8,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR16 = 0x10,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR32 = 0x20,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR64 = 0x40,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR128 = 0x80,
    ACL_RT_ATOMIC_CAPABILITY_VECTOR32X4 = 0x100,
} aclrtAtomicOperationCapability;

/*
 * For each of count operations a mask of aclrtAtomicCapability, 0: there is none. A simulated
 * device has the DMA operations between devices (aclrtReduceAsync). Errors, in this order: NULL,
 * count 0, an operation outside 0..44 107000; no such device, or twice the same 107001.
 */
ACL_FUNC_VISIBILITY aclError
aclrtDeviceGetHostAtomicCapabilities(uint32_t *capabilities, const aclrtAtomicOperation *operations,
                                     const uint32_t count, int32_t deviceId);
ACL_FUNC_VISIBILITY aclError
aclrtDeviceGetP2PAtomicCapabilities(uint32_t *capabilities, const aclrtAtomicOperation *operations,
                                    const uint32_t count, int32_t srcDeviceId, int32_t dstDeviceId);

/*
 * Limits on the number of cores that kernels may use: rarely used. A device's limit goes when the
 * process releases the device, a stream's with the stream. Stream limits act once a thread uses the
 * stream's; one stream per thread, the last wins. What is in force for a thread: the limit of the
 * stream that it uses, else that of the device, else the number of cores (aclrtGetDeviceInfo); Get
 * of a stream without a limit answers alike. The simulated NPU keeps the numbers and runs nothing
 * on cores. An explicit stream needs no context. Errors: Get NULL 100000; type unknown, value 0 or
 * above the number of cores 107000; no such device 107001; device not open 507033; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                                    uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                                    uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                                    uint32_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                                    uint32_t *value);
ACL_FUNC_VISIBILITY aclError aclrtResetStreamResLimit(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/*
 * Compute groups of partitioned chips: rarely used. A simulated chip has none: the count is 0, and
 * there is nothing in the object of aclrtCreateGroupInfo (NULL: no memory), which the caller gives
 * back. Errors: NULL, and any index 100000; aclrtSetGroup 207000.
 */
typedef enum aclrtGroupAttr {
    ACL_GROUP_AICORE_INT = 0,
    ACL_GROUP_AIV_INT = 1,
    ACL_GROUP_AIC_INT = 2,
    ACL_GROUP_SDMANUM_INT = 3,
    ACL_GROUP_ASQNUM_INT = 4,
    ACL_GROUP_GROUPID_INT = 5,
} aclrtGroupAttr;

typedef struct tagRtGroupInfo aclrtGroupInfo;

ACL_FUNC_VISIBILITY aclError aclrtSetGroup(int32_t groupId);
ACL_FUNC_VISIBILITY aclError aclrtGetGroupCount(uint32_t *count);
ACL_FUNC_VISIBILITY aclrtGroupInfo *aclrtCreateGroupInfo(void);
ACL_FUNC_VISIBILITY aclError aclrtDestroyGroupInfo(aclrtGroupInfo *groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetAllGroupInfo(aclrtGroupInfo *groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetGroupInfoDetail(const aclrtGroupInfo *groupInfo,
                                                     int32_t groupIndex, aclrtGroupAttr attr,
                                                     void *attrValue, size_t valueLen,
                                                     size_t *paramRetSize);

/*
 * Flags of arithmetic overflow: rarely used, and only for saturating arithmetic. No arithmetic of a
 * simulated device saturates: reductions give infinities. So no flag is ever set: Get writes a
 * status of 64 zero bytes to outputAddr, which is device memory, when the stream comes to it, and
 * Reset and Clear have nothing to do. checkMode may be any number.
 * Errors: outputAddr NULL 100000; outputSize not 64, or no device memory there, 107000; stream
 * codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize,
                                                    aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtResetOverflowStatus(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize,
                                                         aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtResetFloatOverflowStatus(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtNpuGetFloatOverFlowStatus(void *outputAddr, uint64_t outputSize,
                                                            uint32_t checkMode, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode,
                                                              aclrtStream stream);

/*
 * Abort of all work of the process on a device: rarely used. timeout in milliseconds, 0 = none, at
 * most 36 minutes. Callers that wait or submit meanwhile get 107022; events whose latest record is
 * discarded look as never recorded. Callbacks (by unique name, called in the order of their names
 * in the calling thread; NULL removes) run before anything is discarded and after; one that returns
 * another value than 0 ends the call with it. Errors: timeout too long, or name in use, 107000; no
 * such device 107001; over the limit 107019; regName NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(const char *regName,
                                                             aclrtDeviceTaskAbortCallback callback,
                                                             void *args);

/* Fault details and repair: rarely used. */
#define UCE_INFO_RESERVED_SIZE           14
#define ACL_RT_MEM_UCE_INFO_MAX_NUM      20
#define MAX_MEM_UCE_INFO_ARRAY_SIZE      128
#define ACL_RT_MAX_RECORD_PA_NUM_PER_DEV 20

typedef enum aclrtErrorType {
    ACL_RT_NO_ERROR = 0,
    ACL_RT_ERROR_MEMORY = 1,
    ACL_RT_ERROR_L2 = 2,
    ACL_RT_ERROR_AICORE = 3,
    ACL_RT_ERROR_LINK = 4,
    ACL_RT_ERROR_L3_PORT = 5,
    ACL_RT_ERROR_OTHERS = 0xFFFF,
} aclrtErrorType;

typedef enum aclrtAicoreErrorType {
    ACL_RT_AICORE_ERROR_UNKNOWN = 0,
    ACL_RT_AICORE_ERROR_SW = 1,
    ACL_RT_AICORE_ERROR_HW_LOCAL = 2,
} aclrtAicoreErrorType;

typedef struct aclrtMemUceInfo {
    void *addr;
    size_t len;
    size_t reserved[UCE_INFO_RESERVED_SIZE];
} aclrtMemUceInfo;

typedef struct aclrtMemUceInfoArray {
    size_t arraySize;
    aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

typedef union aclrtErrorInfoDetail {
    aclrtMemUceInfoArray uceInfo;
    aclrtAicoreErrorType aicoreErrType;
} aclrtErrorInfoDetail;

typedef struct aclrtErrorInfo {
    uint8_t tryRepair;
    uint8_t hasDetail;
    uint8_t reserved[2];
    aclrtErrorType errorType;
    aclrtErrorInfoDetail detail;
} aclrtErrorInfo;

/*
 * The fault of a device: none, or ACL_RT_ERROR_OTHERS while it is lost for this process (npuctl
 * inject lose-device), without details and not to be repaired. Needs no context.
 * Errors: NULL 100000; no such device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/*
 * Repairs what errorInfo says: for ACL_RT_NO_ERROR there is nothing to do, and nothing else can be
 * repaired. Errors, in this order: NULL 100000; no such device 107001; device not open 507033; a
 * type other than these two 107000; ACL_RT_ERROR_MEMORY 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/*
 * Memory that has failed: simulated devices have none, so *retSize is 0, and there is nothing to
 * repair. Errors: NULL, more than 20 entries to repair, or reserved words that are not 0 100000; no
 * such device 107001; repair 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray,
                                                size_t arraySize, size_t *retSize);
ACL_FUNC_VISIBILITY aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray,
                                               size_t arraySize);

/*
 * Process snapshots: rarely used. The reference tells no signature for the callback; this one is
 * npud's choice, after the other callbacks that report a result.
 */
typedef enum aclrtProcessState {
    ACL_RT_PROCESS_STATE_RUNNING = 0,
    ACL_RT_PROCESS_STATE_LOCKED = 1,
} aclrtProcessState;

typedef enum aclrtSnapShotStage {
    ACL_RT_SNAPSHOT_LOCK_PRE = 0,
    ACL_RT_SNAPSHOT_BACKUP_PRE = 1,
    ACL_RT_SNAPSHOT_BACKUP_POST = 2,
    ACL_RT_SNAPSHOT_RESTORE_PRE = 3,
    ACL_RT_SNAPSHOT_RESTORE_POST = 4,
    ACL_RT_SNAPSHOT_UNLOCK_POST = 5,
} aclrtSnapShotStage;

typedef struct aclrtSnapShotBackupArgs {
    uint32_t backupFlags;
    char reserved[60];
} aclrtSnapShotBackupArgs;

typedef struct aclrtSnapShotRestoreArgs {
    uint32_t restoreFlags;
    char reserved[60];
} aclrtSnapShotRestoreArgs;

typedef int32_t (*aclrtSnapShotCallBack)(int32_t deviceId, void *args);

ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessLock(int pid, void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessUnlock(int pid, void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessBackup(int pid, aclrtSnapShotBackupArgs *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessRestore(int pid, aclrtSnapShotRestoreArgs *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotCallbackRegister(aclrtSnapShotStage stage,
                                                           aclrtSnapShotCallBack callback,
                                                           void *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotCallbackUnregister(aclrtSnapShotStage stage,
                                                             aclrtSnapShotCallBack callback);

/* ----------------------------------------------------------------------------------- contexts */

/*
 * Creates an explicit context with a default stream of its own and binds the calling thread to it.
 * Opens the device if need be, without touching the set count of aclrtSetDevice.
 * Errors: NULL 100000; bad id 107001; 507033; out of streams 207008.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/*
 * Destroys an explicit context with every stream in it; finish the work first. The calling thread
 * becomes unbound if the context was its own, other threads get 107002 at their next call.
 * Errors: NULL 100000; a primary, unknown or destroyed context 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

/*
 * Binds the calling thread, replacing an earlier binding and with it the current device. A context
 * may be current in many threads; the binding does not keep it alive.
 * Errors: NULL 100000; destroyed 107002; what was none 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);

/*
 * The context of the calling thread: after aclrtSetDevice the primary one, the same in all threads.
 * Errors: NULL 100000; unbound thread 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);

/*
 * The default stream of the current context; it works like NULL wherever a stream is expected and
 * must not be destroyed. Needs a context. Errors: NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/* Whether the set count of a device is above zero. flags must be NULL, else 100000; bad id 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags,
                                                     int32_t *active);

/*
 * Where the overflow flags of the context are kept: 64 bytes of device memory, which all contexts
 * of a device share here and which stay as the program left them, zero at first. The memory goes
 * with the device. Needs a context. Errors: NULL 107000; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetFloatOverflowAddr(void **overflowAddr);

/* ------------------------------------------------------------------------------------ streams */

/* Flags of aclrtCreateStreamWithConfig. */
#define ACL_STREAM_FAST_LAUNCH     0x00000001U /* speed only */
#define ACL_STREAM_FAST_SYNC       0x00000002U /* speed only */
#define ACL_STREAM_PERSISTENT      0x00000004U /* tasks are kept for a model, not run */
#define ACL_STREAM_HUGE            0x00000008U /* deeper queue */
#define ACL_STREAM_CPU_SCHEDULE    0x00000010U /* for queue scheduling in models */
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U /* only device code uses it; alone */

/* Failure modes of a stream. */
#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE     0x00000001U

/* Conditions of aclrtValueWait, p being the word in memory and v the value. */
#define ACL_STREAM_WAIT_VALUE_GEQ 0x00000000U /* (int64_t)(p - v) >= 0 */
#define ACL_STREAM_WAIT_VALUE_EQ  0x00000001U /* p == v */
#define ACL_STREAM_WAIT_VALUE_AND 0x00000002U /* (p & v) != 0 */
#define ACL_STREAM_WAIT_VALUE_NOR 0x00000003U /* ~(p | v) != 0 */

typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF,
} aclrtStreamStatus;

typedef enum aclrtStreamState {
    ACL_RT_STREAM_STATE_CREATE_POST = 1,
    ACL_RT_STREAM_STATE_DESTROY_PRE = 2,
} aclrtStreamState;

typedef void (*aclrtStreamStateCallback)(aclrtStream stm, aclrtStreamState state, void *args);

typedef enum aclrtStreamAttr {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
    ACL_STREAM_ATTR_PRIORITY = 5,
    ACL_STREAM_LAUNCH_BLOCKING_MODE = 6, /* a number of npud's: the vendor's is not known */
} aclrtStreamAttr;

#define ACL_STREAM_LAUNCH_BLOCKING_MODE_CTRL_BY_ENV  0U
#define ACL_STREAM_LAUNCH_BLOCKING_MODE_NON_BLOCKING 1U
#define ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING     2U

typedef union aclrtStreamAttrValue {
    uint64_t failureMode;
    uint32_t overflowSwitch;
    uint32_t userCustomTag;
    uint32_t cacheOpInfoSwitch;
    uint32_t streamPriority;
    uint32_t launchBlockingMode;
    uint32_t reserve[4];
} aclrtStreamAttrValue;

/*
 * Creates a stream in the current context: an in-order queue of tasks. Streams have no order among
 * each other unless events, notifies or values tie them; the default stream is no exception. Any
 * thread of the process may submit to it. Needs a context. Errors: NULL 100000; 207008; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);

/*
 * The same with a priority, 0 most urgent to 7, larger numbers count as 7, and ACL_STREAM_* flags;
 * unknown bits are dropped. Errors: as above; DEVICE_USE_ONLY with another flag 107000; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority,
                                                         uint32_t flag);

/*
 * Waits until the queued tasks are done, then frees the stream, also when a task failed; events
 * recorded in it stay valid. No other thread may be using it. Needs a context.
 * Errors: NULL 100000; the default stream 107000; stream codes; captured 107027.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);

/*
 * The same, but throws away what has not run; a wait for a discarded record of an IPC event gets
 * 507057. Do not take its memory for unused at once.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

/*
 * Blocks until everything queued before the call is done. Needs a context, which need not be the
 * stream's. Returns the error of a failed task: in continue mode once, in stop mode each time.
 * Errors: 107002; 107017; captured 107027; npud gone 507901. The codes 507005, 507023, 207003,
 * 207016, 207017 mean "finished, with a remark" and do not enter the last-error record.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);

/*
 * The same with a limit in milliseconds; -1 waits for ever. When it passes, 507046 is returned,
 * nothing is cancelled and the stream may be waited for again. Errors: 0 or below -1 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/*
 * Tells without blocking whether anything is pending; a fresh stream is COMPLETE. Errors of tasks
 * are left for the next synchronise. Errors: status NULL 100000; 107017; captured 107027.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/*
 * A number that is unique among the live streams of the device, reused later (of a name from
 * aclmdlRIGetStreams, that of the stream it was made from); the priority in force; the flags of
 * creation. Errors: out pointer NULL 100000; 107002; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/*
 * ACL_STOP_ON_FAILURE makes every stream of the context stop at the first failed task and refuse
 * new ones with its code, until context or device are torn down; only bit 0 of mode counts. Needs a
 * context. Errors: stop back to continue 207000; stream codes.
 *
 * What a stopped stream has not done is never done: synchronise, query and event calls that depend
 * on it return the code each time, streams of other contexts that wait for it fail with it, other
 * processes that wait for an IPC record of it get 507057. An event recorded anew elsewhere is as
 * good as before. A stream that is made in a stopped context is stopped. End-of-sequence and normal
 * model abort stop nothing; an event wait over its limit does. NULL is the default stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/*
 * One attribute of a stream. A priority above 7 counts as 7, and is a hint that npuctl shows. The
 * overflow switch, the tag and CACHE_OP_INFO are kept and given back; nothing here overflows in a
 * kernel, or is captured. Needs a context. Errors: value NULL 100000; unknown attribute or bad
 * value 107000, so is PRIORITY of the default stream; stream codes; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamAttribute(aclrtStream stream,
                                                     aclrtStreamAttr stmAttrType,
                                                     aclrtStreamAttrValue *value);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAttribute(aclrtStream stream,
                                                     aclrtStreamAttr stmAttrType,
                                                     aclrtStreamAttrValue *value);

/*
 * Where a program is to see which launch failed, launches wait: with LAUNCH_BLOCKING_MODE BLOCKING
 * on the stream, or CTRL_BY_ENV, as streams are made, and ASCEND_RT_LAUNCH_BLOCKING=1 in the
 * environment when the first one asks. What launches a kernel, and aclmdlRIExecuteAsync, then
 * returns as aclrtSynchronizeStream on that stream would. Not what a stream records, or is bound to
 * a model for, nor streams with flags PERSISTENT, CPU_SCHEDULE or DEVICE_USE_ONLY. Between Begin
 * and End, which nest, no launch on the stream waits, whatever its mode; the last End does that for
 * all of them. NULL is the default stream. Errors: flag not 0, and End without Begin, 107000;
 * stream codes; End: those of the wait.
 */
ACL_FUNC_VISIBILITY aclError aclrtNonBlockingLaunchBegin(aclrtStream stream, uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtNonBlockingLaunchEnd(aclrtStream stream, uint64_t flag);

/*
 * Registers a callback under a unique name for the creation and destruction of streams, default
 * streams included; a NULL callback removes it. It runs on the thread that creates or destroys, in
 * the order of registration, with no lock held: at CREATE_POST and DESTROY_PRE the stream can be
 * used. Streams that go with their context or device are told of when no thread can make that
 * context current any more. A callback that is removed meanwhile is not called any more; a forked
 * child begins without any. Errors: regName NULL 100000; name in use 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegStreamStateCallback(const char *regName,
                                                         aclrtStreamStateCallback callback,
                                                         void *args);

/*
 * A task that stores the 64-bit value at devAddr when the stream reaches it. devAddr is device
 * memory of the stream's device, or of one with which peer access is enabled, or registered host
 * memory, 8-byte aligned; flag must be 0. Needs a context. Memory that is freed before the stream
 * gets there fails the task with 507013. Errors: devAddr NULL 100000; flag not 0, not aligned, or
 * not device memory, 107000; no peer access 507899; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag,
                                             aclrtStream stream);

/*
 * A task that holds the stream until the 64-bit word at devAddr meets the ACL_STREAM_WAIT_VALUE_*
 * condition; it has no time limit and does not change the word. The word is looked at when the
 * stream gets there, and whenever a task of any stream (value write, copy, set, reduction) or a
 * copy or set function of any thread of the process has written it; a store through a pointer wakes
 * no stream, but in registered host memory. A condition that held in between only may have been
 * missed. When the memory is freed, the task fails with 507013. Needs a context.
 * In memory that other processes have or had, too (exported or imported, by key, descriptor or
 * handle), the word is for one of them to write, and a wait fails with 507057 when none is left:
 * when the last other process has given the memory up, or has ended; and, once a process has ended
 * that had it, when streams of all that are left wait for words of it, and none has come since. A
 * process that has finalized has ended, also if its session stays. That is asked whenever a process
 * leaves the memory, and when the stream gets to the wait. A process that is to wait alone
 * there, for its own writes or for a process that has yet to come, first exports the memory again,
 * adds an importer, or closes the key. Memory that one process has had alone waits for ever.
 * Errors: as aclrtValueWrite, and flag above 3 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag,
                                            aclrtStream stream);

/*
 * The id of the last task that the calling thread submitted to a stream that the program created,
 * or its number in the model that recorded it; 0xFFFFFFFF before the first. Unique within a stream,
 * and wraps. Records and resets have one even where they take effect at the call; a wait for what
 * is complete has none and changes nothing. Errors: NULL 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetThreadLastTaskId(uint32_t *taskId);

/*
 * Time limits, process-wide, for what is submitted afterwards; the last call wins. The first is in
 * seconds and limits waits of streams for events, the second in seconds and limits kernels; 0 means
 * no limit for waits and the maximum for kernels. A wait over its limit fails the task, which the
 * next synchronise reports. Errors: 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);

/*
 * The kernel limit in milliseconds and microseconds, and what is in force: rarely used. Limits are
 * rounded up to steps of 100 ms (aclrtGetOpTimeOutInterval), 254 of them at most, which is what 0
 * and anything longer means; UINT32_MAX: none was set, and kernels may run as long as they like.
 * What stands in for kernels (aclnpudLaunchDelay) is cut off at the limit and fails with 507014. V2
 * and Interval need a context. Errors: NULL 100000; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);
ACL_FUNC_VISIBILITY aclError aclrtGetOpTimeOutInterval(uint64_t *interval);
ACL_FUNC_VISIBILITY aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/*
 * How many more streams the process could make on the current device at this moment: the least of
 * what the process, its user and the device have left. Needs a context. Errors: NULL 100000;
 * 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);

/*
 * More about streams: rarely used. The switch is that of FLOAT_OVERFLOW_CHECK; flag above 1 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/*
 * Abort discards all that is queued and ends what runs: threads that synchronise with what is
 * discarded, and streams of this process that were given a wait for it before, get 107023, whether
 * the stream has reached its wait or comes to it later (npud remembers the last 16 aborts of a
 * stream that discarded anything); other processes that wait for an IPC record of it get 507057;
 * calls that submit meanwhile return 107023. Work that was executed before stays done, and a wait
 * for it returns 0. A call made after the abort does not wait for what was discarded, as for work
 * that is done. Then the stream is usable again. An unreported failure from before is still
 * reported. Waits for the level of an ACL_EVENT_SYNC event stay. NULL
 * is the default stream. Stop ends only the task that the stream is at, which counts as failed with
 * 107023 at the next synchronise, without an exception; it does nothing when there is none. A
 * record that a rule of npuctl inject holds fails for those that wait for it. Both need a context.
 * In a stopped context both do nothing, and it stays stopped. Errors: 107003; 107017; Stop with
 * NULL 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamAbort(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtStreamStop(aclrtStream stream);
/* ACL_STREAM_PERSISTENT streams keep no tasks but in a model, which has them then: 207000. */
ACL_FUNC_VISIBILITY aclError aclrtPersistentTaskClean(aclrtStream stream);

/*
 * Stream creation on small devices: rarely used. The work space is not used here. A new handle has
 * priority 0 and no flags; no handle means aclrtCreateStream. The handle is the program's to
 * destroy. Errors: NULL, a size that is not the attribute's, priority above 7, unknown attribute
 * 100000; as aclrtCreateStreamWithConfig.
 */
typedef enum aclrtStreamConfigAttr {
    ACL_RT_STREAM_WORK_ADDR_PTR = 0,
    ACL_RT_STREAM_WORK_SIZE = 1,
    ACL_RT_STREAM_FLAG = 2,
    ACL_RT_STREAM_PRIORITY = 3,
} aclrtStreamConfigAttr;

typedef struct aclrtStreamConfigHandle {
    void *workptr;
    size_t workSize;
    size_t flag;
    uint32_t priority;
} aclrtStreamConfigHandle;

ACL_FUNC_VISIBILITY aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle,
                                                     aclrtStreamConfigAttr attr,
                                                     const void *attrValue, size_t valueSize);
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamV2(aclrtStream *stream,
                                                 const aclrtStreamConfigHandle *handle);

/*
 * Streams of a model that is built by hand (below) start each other. ActiveStream is a task that
 * starts another stream, whose tasks run at this point; then `stream` goes on, if the other one is
 * started from one place alone. As the last task of its stream it does not come back, so that two
 * streams can start each other in a loop. SwitchStream starts trueStream if the words compare so,
 * and what is behind it in `stream` is not run then; falseStream must be NULL. Labels are places in
 * a stream: create all, make a list of them, set each once. SwitchLabelByIndex goes on at the label
 * whose number is in the word (32 bits, read at each execution), at the last of the first maxValue
 * if it is larger; a label that is set nowhere is the end. Words are device memory or pinned
 * memory, aligned to their size. Errors: NULL, falseStream 100000; cond, dataType, maxValue 0, num
 * 0 or above 65535, unknown label or list 107000; stream not of the model 107005; a label in two
 * lists, set twice, or set before it is in a list 507000, of another context 507031; more than
 * 65535 labels 507000.
 */
typedef enum aclrtCondition {
    ACL_RT_EQUAL = 0,
    ACL_RT_NOT_EQUAL = 1,
    ACL_RT_GREATER = 2,
    ACL_RT_GREATER_OR_EQUAL = 3,
    ACL_RT_LESS = 4,
    ACL_RT_LESS_OR_EQUAL = 5,
} aclrtCondition;

typedef enum aclrtCompareDataType {
    ACL_RT_SWITCH_INT32 = 0,
    ACL_RT_SWITCH_INT64 = 1,
} aclrtCompareDataType;

ACL_FUNC_VISIBILITY aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSwitchStream(void *leftValue, aclrtCondition cond,
                                               void *rightValue, aclrtCompareDataType dataType,
                                               aclrtStream trueStream, aclrtStream falseStream,
                                               aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCreateLabel(aclrtLabel *label);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabel(aclrtLabel label);
ACL_FUNC_VISIBILITY aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num,
                                                  aclrtLabelList *labelList);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabelList(aclrtLabelList labelList);
ACL_FUNC_VISIBILITY aclError aclrtSwitchLabelByIndex(void *ptr, uint32_t maxValue,
                                                     aclrtLabelList labelList, aclrtStream stream);

/*
 * Element-wise dst = op(dst, src) by the DMA engine; count is bytes, of whole elements: rarely
 * used. All kinds are offered for FLOAT, FLOAT16, BF16, INT8, INT16, INT32, UINT8, UINT16 and
 * UINT32, and SUM, MAX and MIN for INT4 (two to a byte). Integers wrap around. Floating-point sums
 * are rounded to nearest, ties to even, and overflow to infinity; MAX and MIN with a NaN are NaN.
 * EQUAL is 1 or 0 in the type. dst and src may be the same; other overlap is unspecified. Both are
 * memory of the stream's device, or of one with which peer access is enabled, or registered host
 * memory. Needs a context.
 * Errors: dst or src NULL, reserve not NULL, any other type 100000; count 0 or not whole elements,
 * SUM of more than 4 GiB, kind unknown, not device memory 107000; EQUAL of INT4 207000; not aligned
 * to an element 107008; no peer access 507899; stream codes.
 */
typedef enum aclrtReduceKind {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13,
} aclrtReduceKind;

ACL_FUNC_VISIBILITY aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count,
                                              aclrtReduceKind kind, aclDataType type,
                                              aclrtStream stream, void *reserve);

/* Random numbers: rarely used. */
typedef enum aclrtRandomNumFuncType {
    ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK = 0,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS = 1,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS = 2,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS = 3,
} aclrtRandomNumFuncType;

typedef struct aclrtRandomParaInfo {
    uint8_t isAddr; /* 1: valueOrAddr holds a device address, 0: the value itself */
    uint8_t valueOrAddr[8];
    uint8_t size; /* bytes of the value */
    uint8_t rsv[6];
} aclrtRandomParaInfo;

typedef struct aclrtDropoutBitmaskInfo {
    aclrtRandomParaInfo dropoutRation;
} aclrtDropoutBitmaskInfo;

typedef struct aclrtUniformDisInfo {
    aclrtRandomParaInfo min;
    aclrtRandomParaInfo max;
} aclrtUniformDisInfo;

typedef struct aclrtNormalDisInfo {
    aclrtRandomParaInfo mean;
    aclrtRandomParaInfo stddev;
} aclrtNormalDisInfo;

typedef struct aclrtRandomNumFuncParaInfo {
    aclrtRandomNumFuncType funcType;
    union {
        aclrtDropoutBitmaskInfo dropoutBitmaskInfo;
        aclrtUniformDisInfo uniformDisInfo;
        aclrtNormalDisInfo normalDisInfo;
    } paramInfo;
} aclrtRandomNumFuncParaInfo;

typedef struct aclrtRandomNumTaskInfo {
    aclDataType dataType;
    aclrtRandomNumFuncParaInfo randomNumFuncParaInfo;
    void *randomParaAddr;
    void *randomResultAddr;
    void *randomCounterAddr;
    aclrtRandomParaInfo randomSeed;
    aclrtRandomParaInfo randomNum;
    uint8_t rsv[8];
} aclrtRandomNumTaskInfo;

/*
 * Fills device memory with random numbers, as a task: rarely used. All values are taken in the
 * call. If one lies in device memory (isAddr 1, or a counter), the call first waits for what is on
 * the stream, so that it reads what the task would; then such a call must not be made while the
 * stream waits for something that comes later in the same thread.
 *
 *   dataType           INT32, INT64, UINT32, UINT64 for uniform numbers; FLOAT, FLOAT16 and BF16
 *                      for all. min, max, mean, stddev and dropoutRation are of this type and size.
 *   UNIFORM_DIS        min <= number < max, where rounding to dataType may give max
 *   NORMAL_DIS, TRUNCATED_NORMAL_DIS   of mean and stddev; the latter draws again what is further
 *                      than 2 stddev from mean
 *   DROPOUT_BITMASK    a bit each, lowest first, that is 0 with the probability dropoutRation, and
 *                      the rest of the last byte 0
 *   randomNum          how many numbers or bits: an unsigned integer of 1 to 8 bytes, as randomSeed
 *   randomResultAddr   where they are written
 *   randomCounterAddr  NULL: the numbers begin with the seed's first. Else 16 bytes of device
 *                      memory, the counter of Philox 4x32-10, with which they begin; the task adds
 *                      what it used, so that the next one goes on behind.
 *   randomParaAddr     not used
 *
 * The seed is the key of Philox 4x32-10. The same seed, counter and parameters give the same
 * numbers in every process.
 * Errors: NULL taskInfo or randomResultAddr, unknown dataType, or reserve set, 100000; unknown
 * funcType, isAddr above 1, wrong size, values that are no distribution, 0 numbers, or memory that
 * is not the device's or too small, 107000; a funcType that does not take the dataType 207000;
 * 207001; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtRandomNumAsync(const aclrtRandomNumTaskInfo *taskInfo,
                                                 const aclrtStream stream, void *reserve);

/* Tasks changed after submission, and notes kept with them for profiling: rarely used. */
typedef enum aclrtUpdateTaskType {
    ACL_RT_UPDATE_RANDOM_TASK = 1,
    ACL_RT_UPDATE_AIC_AIV_TASK = 2,
} aclrtUpdateTaskType;

typedef struct aclrtRandomTaskUpdateAttr {
    void *srcAddr;
    size_t size;
    size_t rsv[2];
} aclrtRandomTaskUpdateAttr;

typedef struct aclrtAicAivTaskUpdateAttr {
    void *binHandle;
    void *funcEntryAddr;
    void *blockDimAddr;
    size_t rsv[2];
} aclrtAicAivTaskUpdateAttr;

typedef union aclrtUpdateTaskAttrVal {
    aclrtRandomTaskUpdateAttr randomTaskAttr;
    aclrtAicAivTaskUpdateAttr aicAivTaskAttr;
} aclrtUpdateTaskAttrVal;

typedef struct aclrtTaskUpdateInfo {
    aclrtUpdateTaskType id;
    aclrtUpdateTaskAttrVal val;
} aclrtTaskUpdateInfo;

/*
 * A task on execStream that replaces task taskId (aclrtGetThreadLastTaskId) of taskStream; both are
 * bound to models that are built by hand, maybe to one.
 * ACL_RT_UPDATE_AIC_AIV_TASK: from the next time on that the task is reached it is the kernel of
 *   the binary whose entry is the 8 bytes at funcEntryAddr, with as many blocks as the 4 bytes at
 *   blockDimAddr say, device memory that is read whenever execStream comes to the update. Arguments
 *   and attributes stay.
 * ACL_RT_UPDATE_RANDOM_TASK: 207000, as random numbers cannot be part of a model.
 * If there is no such kernel then, or the model of taskStream is not built or was destroyed, the
 * update fails its execution. Any thread may call.
 * Errors: NULL info 100000; another id, NULL in val, a stream that is NULL, another size, a task
 * that is no kernel, memory that is none of the device 107000; a stream that is bound to no model
 * 107005.
 */
ACL_FUNC_VISIBILITY aclError aclrtTaskUpdateAsync(aclrtStream taskStream, uint32_t taskId,
                                                  aclrtTaskUpdateInfo *info,
                                                  aclrtStream execStream);
/*
 * For tools: what the last task of the calling thread is, which a model has recorded. The text,
 * which ends at infoSize or at its NUL, is copied in place of an earlier one, and is the ExtendInfo
 * of aclmdlRIDebugJsonPrint. The block is not kept: npud has no tool that shows it. Errors: NULL or
 * size 0 100000; the last task went to no model, or the model has ended 507000.
 */
ACL_FUNC_VISIBILITY aclError aclrtCacheLastTaskOpInfo(const void *const infoPtr,
                                                      const size_t infoSize);
ACL_FUNC_VISIBILITY aclError aclrtCacheLastTaskExtendInfo(const char *const extendInfoPtr,
                                                          const size_t infoSize);
/*
 * A mark in the order of the stream, in the profile (acl_prof.h): userdata is a packed record of a
 * 64-bit id, a 64-bit model id, and a 16-bit tag, of which the first `length` bytes, 1 to 18, are
 * there, and the others 0. stream NULL: the default stream. 0 and nothing happens if no times are
 * collected. Errors: userdata NULL 100000; length 107000; those of submissions to a stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);

/* ------------------------------------------------------------------------------------- events */

/*
 * Kinds of events, by the way they were made:
 *   default   aclrtCreateEvent; a wait captures the latest record, timing works
 *   sync      aclrtCreateEventWithFlag with SYNC; a flag that a record sets and a reset clears,
 *             waits pass while it is set and may be submitted before the record
 *   ex-sync   aclrtCreateEventExWithFlag with SYNC; a wait captures the latest record, no reset
 *   mark      either, without SYNC; can be recorded, queried and synchronised, never waited for by
 *             a stream, and never reset
 *   external  aclrtCreateEventWithFlag(ACL_EVENT_EXTERNAL), for graphs
 *   device    aclrtCreateEventWithFlag(ACL_EVENT_DEVICE_USE_ONLY), for device code only
 *   IPC       aclrtCreateEventExWithFlag(ACL_EVENT_IPC), or opened from a handle; as ex-sync, but
 *             across processes, without timing
 * A function that refuses a kind returns 207000, for device events 107000.
 */
#define ACL_EVENT_SYNC                    0x00000001U /* stream waits, and reset where allowed */
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U /* progress marker for the host */
#define ACL_EVENT_TIME_LINE               0x00000008U /* a record stores a timestamp */
#define ACL_EVENT_DEVICE_USE_ONLY         0x00000010U
#define ACL_EVENT_EXTERNAL                0x00000020U
#define ACL_EVENT_IPC                     0x00000040U

#define ACL_EVENT_RECORD_DEFAULT  0x00000000U
#define ACL_EVENT_RECORD_EXTERNAL 0x00000001U
#define ACL_EVENT_WAIT_DEFAULT    0x00000000U
#define ACL_EVENT_WAIT_EXTERNAL   0x00000001U

/* The answer of aclrtQueryEvent. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2,
} aclrtEventStatus;

/* The answer of aclrtQueryEventStatus; note that complete is 1 here. */
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
} aclrtEventRecordedStatus;

/* The answer of aclrtQueryEventWaitStatus. */
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF,
} aclrtEventWaitStatus;

#define ACL_IPC_EVENT_HANDLE_SIZE 64U

/* The name of an exported event: opaque bytes that may be sent by any channel. A capability. */
typedef struct aclrtIpcEventHandle {
    char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

/*
 * Creates a default event in the current context. Destroy it with aclrtDestroyEvent.
 * Errors: NULL 100000; 107002; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);

/*
 * Creates an event of the kind that flag says: an OR of SYNC, CAPTURE_STREAM_PROGRESS and
 * TIME_LINE, or exactly EXTERNAL, or exactly DEVICE_USE_ONLY. SYNC and EXTERNAL take an id from a
 * limited pool. Errors: NULL 100000; other flags (0 and IPC included) 107000; 107002; 207007.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/*
 * The recommended way: an OR of SYNC, CAPTURE_STREAM_PROGRESS and TIME_LINE, or exactly IPC. The
 * event may be recorded again and again without reset, and takes no id from the limited pool.
 * Errors: NULL 100000; other flags (0 included) 107000; 107002; 207000; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/*
 * Destroys an event of any kind, created or opened; never blocks. Submitted tasks that use it still
 * do their work. The handle is dead when the call returns, and no other thread may be using it.
 * Needs no context. Errors: NULL 100000; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

/*
 * A task that completes the event when the stream reaches it. Recording again replaces what later
 * queries and waits look at, and leaves earlier waits alone. May wait while the stream is full, and
 * while the IPC event has 1024 records that are not executed; one of these that no stream has fails
 * after seconds ([ipc] submit_ms in npud.conf(5)).
 * Errors: event NULL 100000; device event 107000; stream codes; captured stream 207000; 507057 when
 * a process that has the IPC event open writes nonsense into its memory again and again.
 */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/* The same with a choice: EXTERNAL is for streams that capture a graph. Rarely used. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream,
                                                      uint32_t flag);

/*
 * A task that puts a sync event back to not signalled, usually placed right after the wait. A
 * default event goes back to "not recorded" when the stream gets there, unless it was recorded
 * anew. Other kinds 207000. Errors: event NULL 100000; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/*
 * Deprecated, still common: COMPLETE unless a record is submitted and not executed. Never blocks.
 * For default and sync events. Errors: NULL 100000; 107017; captured 107028; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/*
 * The state of the record submitted last, without blocking. Before the first record, default and
 * sync events say NOT_READY, ex-sync and IPC events COMPLETE. Needs no context.
 * Errors: NULL 100000; 107017; captured 107028; 207000; for IPC events 507057 when the recording
 * process died before the record executed, or was stopped before it had submitted it.
 */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event,
                                                   aclrtEventRecordedStatus *status);

/*
 * COMPLETE when no submitted stream wait for this event is outstanding. For default and sync
 * events. Errors: NULL 100000; 107017; captured 107028; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event,
                                                       aclrtEventWaitStatus *status);

/*
 * Blocks until the record that was submitted last at the call has executed; returns at once when
 * there is none. Errors of tasks before the record are not reported here. Needs no context.
 * Errors: NULL 100000; 107017; captured 107028; that record is of a model built by hand 107000;
 * 207000; 507057 as for aclrtQueryEventStatus.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);

/*
 * The same with a limit in milliseconds; -1 waits for ever. When it passes, 507047 is returned.
 * Errors: timeout 0 or below -1 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/*
 * Milliseconds from the latest record of one event to that of the other, negative when reversed.
 * Both need a timestamp (default kind, or TIME_LINE) and should come from one stream that has been
 * synchronised. Errors: NULL 100000; 107017; no timestamp 107006; no record 507000; 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent,
                                                   aclrtEvent endEvent);

/*
 * Completion time of the latest record in microseconds since the start of the device; not for
 * comparing devices. Conditions and errors as for aclrtEventElapsedTime.
 */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/* Ids of the device behind events: rarely used. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);
ACL_FUNC_VISIBILITY aclError aclrtGetEventAvailNum(uint32_t *eventCount);

/*
 * Work submitted to the stream afterwards starts only when the event is complete: default, ex-sync
 * and IPC events capture the record that is latest at this call, sync events wait for the flag. Any
 * number of streams may wait. The limit is that of aclrtSetOpWaitTimeout, except for IPC events.
 * Errors: event NULL 100000; default event before its first record, or device event, 107000;
 * stream codes; mark event 207000. A record lost with a dead process fails the stream with 507057.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/*
 * The same with a limit of its own in seconds; 0 waits for ever. When it passes, the stream gets an
 * error that the next synchronise returns. Errors: negative timeout or NULL event 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event,
                                                             int32_t timeout);

/* The same with a choice; EXTERNAL is for graphs, and 0xFFFFFFFF takes the process-wide limit. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event,
                                                          uint32_t timeout, uint32_t flag);

/*
 * Names an IPC event for other processes: fills all 64 bytes, the same each time, before or after
 * records. An opened event may be exported again. Errors: NULL 100000; 107017; no IPC event 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);

/*
 * Opens an exported event in this process, in the current context; the devices may differ. Both
 * sides may record and wait. Only the latest record counts, so a wait issued before the peer's
 * record returns at once. Each open needs an aclrtDestroyEvent. Needs a context.
 * An exported event stays openable, also after its last aclrtDestroyEvent, while the process that
 * exported it is connected. Errors: NULL 100000; bytes that npud did not give out 107000; an event
 * that is gone 107017; another user's event 207006; limits 207007.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* ----------------------------------------------------------------------------------- notifies */

#define ACL_NOTIFY_DEFAULT         0x00000000U
#define ACL_NOTIFY_DEVICE_USE_ONLY 0x00000001U

#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT                0x0UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x02UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT                0x0UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS     0x02UL

/* Processes of another server, for white lists. */
typedef struct aclrtServerPid {
    uint32_t sdid; /* device id across the whole system */
    int32_t *pid;
    size_t num;
} aclrtServerPid;

/*
 * Creates a notify on the current device: a one-bit latch, initially clear. A record sets the bit,
 * a wait takes it, so one record releases exactly one wait, and records do not add up. Of several
 * waits, the one that came first is released. DEVICE_USE_ONLY is accepted and changes nothing. Ids
 * are limited. Any thread. Needs a context. Errors: NULL 100000; unknown flag 107000; 207009.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/*
 * Frees the handle at once; make sure that the tasks using it have finished. Records that have not
 * do nothing, waits fail with 107017; no other notify is ever hit. Each process destroys its own
 * handle, and the last one frees the notify. Needs a context. Errors: NULL 100000; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);

/*
 * A task that sets the bit; also on imported notifies, and from streams of any device. One that is
 * dropped, with its stream or its process, fails the wait that it would have released, with 507057.
 * Errors: notify NULL 100000; 107017; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/*
 * A task that holds the stream until the bit is set, and clears it. timeout in seconds; 0 and
 * 0xFFFFFFFF wait for ever; when it passes, the next synchronise returns 107020. Only on the device
 * of the notify, also for importers. If the last other process that has the notify open leaves it
 * meanwhile, by aclrtDestroyNotify, by its end, or by aclFinalize when its streams are done, the
 * wait fails with 507057. Errors: notify NULL 100000; other device 107000; 107017; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream,
                                                     uint32_t timeout);

/* The id on the device; read it after an export. Errors: NULL 100000; 107002; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/*
 * Clears the bits one after the other before it returns, outside any stream order; stops at the
 * first that fails. Errors: notifies NULL 100000; num 0 or a NULL element 107000; 107017; shared
 * 507009.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/*
 * Exports a notify, once, and writes its name, text of 65 bytes with the final NUL. Unless the
 * flags say DISABLE_PID_VALIDATION (then npud's [ipc] scope decides), importers must be on the list
 * of aclrtNotifySetImportPid. Errors: NULL 100000; len below 65 or unknown flags 107000; 107017;
 * exported before, or imported, 507000.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len,
                                                     uint64_t flags);

/*
 * Adds processes to the list of importers, before they import. The pids are those that importers
 * got from aclrtDeviceGetBareTgid. A pid stands for the process that has it at the call; if there
 * is none, for the first that imports. At most 256. Errors: NULL 100000; num 0, not exported by
 * this process, or a pid that is none 107000; too many 207005; 107002; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/*
 * Opens an exported notify for records. ENABLE_PEER_ACCESS also lets the current device reach that
 * of the notify; records need it not. The process that made the notify may import it, too. Needs a
 * context. Errors: NULL 100000; bad flags or key 107000; its creator has destroyed it or ended
 * 107017; not on the list 207006; 207009.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key,
                                                    uint64_t flags);

/*
 * White list across servers. Checks its arguments (107000, 107017), then 207000: there is no
 * fabric.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify,
                                                                aclrtServerPid *serverPids,
                                                                size_t num);

/*
 * Count notifies: a 32-bit counter, 0 at first, instead of a bit, within one process. Records,
 * waits and resets are tasks; sums wrap around; waits are looked at in the order in which they
 * came. Limits and destroying as with notifies, on any device of the process. A record that is
 * dropped with its stream fails the waits that are blocked then (507057). Errors: NULL 107000, info
 * NULL 100000, unknown mode or flag 107000; 107017; 107002; 107003; 207009.
 */
typedef enum aclrtCntNotifyRecordMode {
    ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE = 0,
    ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE = 1,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE = 2,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE = 4,
} aclrtCntNotifyRecordMode;

typedef struct aclrtCntNotifyRecordInfo {
    aclrtCntNotifyRecordMode mode;
    uint32_t value;
} aclrtCntNotifyRecordInfo;

typedef enum aclrtCntNotifyWaitMode {
    ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE = 0,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE = 1,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE = 2,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE = 3,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE = 4, /* (counter & value) == value */
} aclrtCntNotifyWaitMode;

typedef struct aclrtCntNotifyWaitInfo {
    aclrtCntNotifyWaitMode mode;
    uint32_t value;
    uint32_t timeout; /* seconds, 0 waits for ever */
    uint8_t isClear;  /* 1: the release sets the counter to 0 */
    uint8_t rsv[3];
} aclrtCntNotifyWaitInfo;

ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                                                  aclrtCntNotifyRecordInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify,
                                                           aclrtStream stream,
                                                           aclrtCntNotifyWaitInfo *info);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* ----------------------------------------------------------------- callbacks and exceptions */

typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);

typedef enum aclrtCallbackBlockType {
    ACL_CALLBACK_NO_BLOCK = 0,
    ACL_CALLBACK_BLOCK = 1,
} aclrtCallbackBlockType;

/* Describes a failed task; belongs to the library and is valid only during the callback. */
typedef struct rtExceptionInfo aclrtExceptionInfo;

typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);
typedef void (*aclrtOpExceptionCallback)(aclrtExceptionInfo *exceptionInfo, void *userData);

/*
 * Lets a thread run the callbacks of a stream; threadId is its pthread_self(), not the kernel's id.
 * A stream has one such thread, a thread may serve many streams of one device. Any thread may call.
 * Whether such a thread exists is not checked; another that is given the same id later takes its
 * place. Errors: stream already subscribed or used with aclrtLaunchHostFunc 107011; thread serves
 * another device 107012; 107002; 107017; more than 1024 threads 507000.
 */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);

/*
 * A task that has fn(userData) run once in the subscribed thread, inside its aclrtProcessReport,
 * after everything submitted before. With BLOCK the stream goes on when fn has returned, with
 * NO_BLOCK at once: then a synchronise may return before fn has run. Callbacks of a stream run in
 * order, those of a thread one at a time. fn must not allocate, free, synchronise, submit or abort.
 * A function that throws or ends its thread counts as returned. Behind a failed task it runs.
 * Errors: fn NULL 107000; bad blockType 100000; no thread subscribed 107015; 107011; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData,
                                                 aclrtCallbackBlockType blockType,
                                                 aclrtStream stream);

/*
 * Waits until callbacks of the calling thread's streams are ready, runs those, and returns. timeout
 * in milliseconds limits only the waiting; -1 waits until there are some, or the thread's last
 * subscription ends (107012). Needs no context.
 * Errors: timeout 0 or below -1 100000; thread not subscribed, or called in a callback, 107012 at
 * once; none in time 507012; npud gone 507901.
 */
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

/*
 * Ends the subscription; synchronise the stream first while the thread still runs its loop. What
 * has not begun is dropped: it never runs, and the stream goes on as if it had. What is running is
 * waited for, unless it is the caller. The same when a subscribed stream is destroyed, its context,
 * or its device reset.
 * Errors: not subscribed or used with aclrtLaunchHostFunc 107011; subscribed to another thread
 * 107012; 107002; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/*
 * As aclrtLaunchCallback with BLOCK, but a thread of the library runs fn; the host functions of a
 * context never run at the same time. A stream uses either this or subscriptions, never both, until
 * it is destroyed, which waits for them (aclrtDestroyStreamForce drops what has not begun). The
 * thread is made at the first call in a context, blocks all signals, and ends with the context. It
 * has no current context.
 * Errors: fn NULL 107000; subscribed stream 107011; stream codes; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/*
 * For host operators of models on small devices: rarely used. npud has no such operators; the three
 * are the functions for reports above under other names, but exeStream must not be NULL (107000).
 */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId,
                                                    aclrtStream exeStream);
ACL_FUNC_VISIBILITY aclError aclrtProcessHostFunc(int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId,
                                                      aclrtStream exeStream);

/*
 * Deprecated, still common: sets the one process-wide callback for failed tasks; NULL removes it.
 * It runs once per failed task, in a thread of the library's choice and perhaps in several at once,
 * not for event-wait timeouts. It must not allocate, free, synchronise, submit or abort.
 *
 * npud: one call at a time, in order for each stream; in a thread of the library, or in the one
 * whose synchronise call is about to return the failure, which waits until all that failed before
 * was told. While 64 failures of a device wait for a callback that is slow, further streams that
 * fail wait, too. The end of npud is a failure of each device in use (507901). Of stopped contexts
 * only the first failure is told, of discarded tasks none. aclInit and aclFinalize are refused
 * inside (500000). A forked child that calls aclInit has no callbacks.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

/*
 * Any number of further callbacks, told apart by address; registering twice keeps one, removing an
 * unknown one succeeds. Removal does not wait for calls that are running. Errors: NULL 107000.
 */
ACL_FUNC_VISIBILITY aclError
aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback);
ACL_FUNC_VISIBILITY aclError
aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback);

/*
 * What failed: task and stream as numbered by aclrtGetThreadLastTaskId and aclrtStreamGetId, the
 * kernel's id of the submitting thread, the device, and the ACL code. 0xFFFFFFFF for a NULL info;
 * the first three also for failures of the device as a whole.
 */
ACL_FUNC_VISIBILITY uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);
ACL_FUNC_VISIBILITY uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/*
 * What is known of a kernel that failed, for exception callbacks. The arguments are a copy, which
 * stays until the calling thread's next call or its end. The latest 64 failures are known. The
 * third has a callback called for failures of the kernels of a binary, behind the other callbacks;
 * one per binary. Errors: info NULL -1; another pointer NULL 100000; no kernel, or one that is not
 * known any more, -1 for arguments, 107000 for the function, as for a kernel without a handle;
 * stale binHandle 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info,
                                                           void **devArgsPtr, uint32_t *devArgsLen);
ACL_FUNC_VISIBILITY aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info,
                                                                 aclrtFuncHandle *func);
ACL_FUNC_VISIBILITY aclError aclrtBinarySetExceptionCallback(aclrtBinHandle binHandle,
                                                             aclrtOpExceptionCallback callback,
                                                             void *userData);

/* ------------------------------------------------------------------------------------- memory */

/* Page sizes wanted by an allocation; the last three combine with one of the others. */
typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0, /* 2 MiB pages where sensible and available */
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2, /* 4 KiB pages */
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000,
} aclrtMemMallocPolicy;

/* Kinds of device memory. */
typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17,
} aclrtMemAttr;

/* Direction of a copy. Plain copies take 0 to 5 and look at the addresses, not at the kind. */
typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5, /* the source may be reused when the call returns */
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7,
} aclrtMemcpyKind;

typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2, /* memory that the library does not know */
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4, /* the id is a NUMA node */
} aclrtMemLocationType;

typedef struct aclrtMemLocation {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize; /* bytes of one page */
    uint32_t rsv[4];
} aclrtPtrAttributes;

typedef struct aclrtMemUsageInfo {
    char name[32];
    uint64_t curMemSize;
    uint64_t memPeakSize;
    size_t reserved[8];
} aclrtMemUsageInfo;

typedef enum aclrtMallocAttrType {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2,
    ACL_RT_MEM_ATTR_VA_FLAG = 3,
} aclrtMallocAttrType;

typedef union aclrtMallocAttrValue {
    uint16_t moduleId;
    uint32_t deviceId;
    uint32_t vaFlag;
    uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct aclrtMallocAttribute {
    aclrtMallocAttrType attr;
    aclrtMallocAttrValue value;
} aclrtMallocAttribute;

typedef struct aclrtMallocConfig {
    aclrtMallocAttribute *attrs;
    size_t numAttrs;
} aclrtMallocConfig;

typedef struct aclrtMemcpyBatchAttr {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16]; /* zero */
} aclrtMemcpyBatchAttr;

/*
 * Allocates size bytes on the current device, aligned to 64 bytes at least, content undefined. The
 * size is rounded up to a multiple of 32, and no guard is added to it, as on the newest devices:
 * what aclrtGetMemInfo calls free can be had. All pages are 4 KiB here whatever the policy, and an
 * unknown policy counts as HUGE_FIRST; the two HUGE1G policies get 207000, because no device has
 * such pages. Free it with aclrtFree. Needs a context.
 * Errors: NULL, size 0, or size within 64 of SIZE_MAX 100000; no memory 207001; 1 GiB pages 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/* The same. */
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size,
                                                aclrtMemMallocPolicy policy);

/* The same as aclrtMalloc, cacheable: pair it with aclrtMemFlush and aclrtMemInvalidate. */
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size,
                                               aclrtMemMallocPolicy policy);

/*
 * The same with attributes, cfg NULL for none; the policy may be combined with a bandwidth flag and
 * READONLY, which change nothing here. MODULE_ID is accepted and means nothing. Errors: as
 * aclrtMalloc; attrs NULL with numAttrs above 0 100000; attrs NULL, VA_FLAG or unknown attribute,
 * or DEVICE_ID (the last one counts) that is not the current device, 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size,
                                                aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig *cfg);

/*
 * Frees device or managed memory at once, without waiting for queued work that uses it. Any thread
 * may call; needs no context. Errors: NULL 100000; unknown, interior or freed address, and that of
 * a mapping (aclrtMapMem), 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);

/*
 * Allocates page-locked host memory that the current device can reach, for copies that are truly
 * asynchronous. Aligned to 64 bytes at least. Free it with aclrtFreeHost. Needs a context.
 * Errors: NULL or size 0 100000; 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);

/*
 * The same with the attributes MODULE_ID and VA_FLAG (0 or 1); cfg NULL for none. Host and device
 * addresses are the same here with either. Errors: also attrs NULL, another attribute, or a vaFlag
 * above 1, 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size,
                                                    aclrtMallocConfig *cfg);

/* Frees it at once. Needs no context. Errors: NULL 100000; any other address 107000. */
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);

/*
 * Copies count bytes to dst, which has room for destMax, and returns when they are there. The
 * addresses tell the direction. Waits for no stream: synchronise first. count 0 and dst == src are
 * successes; otherwise overlapping ranges are undefined. Needs a context.
 * Errors: NULL, or kind above 5, 100000; count above destMax 107000; peer not enabled 507899;
 * beyond the end of an allocation of aclrtMalloc or aclrtMallocHost, whose size counts as rounded
 * up to a multiple of 32, 107000 (a range may go on in the next mapping of the same reserved
 * addresses, also in sets); in one of the last 256 that were freed (64 GiB of them at most,
 * whose addresses are not given out again until then), 107000. Other addresses are the program's
 * own business.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                                         aclrtMemcpyKind kind);

/*
 * The same as a task of a stream. Host memory from aclrtMallocHost must stay as it is until the
 * task is done; with pageable memory the call first waits for the stream, copies, and returns.
 * Errors: as aclrtMemcpy; kind that does not fit pageable memory 107000; both sides host 207000;
 * stream codes. Failures of the copy itself appear at the next synchronise.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src,
                                              size_t count, aclrtMemcpyKind kind,
                                              aclrtStream stream);

/*
 * Sets count bytes of device or library-allocated host memory to the low 8 bits of value and
 * returns when done; count 0 is a success. Waits for no stream. Needs a context.
 * Errors: NULL 100000; count above maxCount 107000; addresses as in aclrtMemcpy.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value,
                                         size_t count);

/*
 * The same as a task of a stream. Host memory is set at once, unless all of the range is in one
 * registration of aclrtHostRegister: then in the order of the stream, too. Errors: also the stream
 * codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value,
                                              size_t count, aclrtStream stream);

/*
 * Copies height rows of width bytes between host and device; row starts are dpitch and spitch bytes
 * apart. width at most 5000000, height at most 5242880; 0 of either is a success. The addresses
 * tell the direction. Nothing is copied when the last row of either side leaves its allocation.
 * Needs a context. The asynchronous form also copies from device to device, and is a task for each
 * row, or one task if both pitches equal the width; with pageable memory it waits for the stream
 * first. Errors: NULL, kind not 1 to 4, width above a pitch 100000; over the limits, both sides of
 * the same kind, addresses as in aclrtMemcpy 107000; kind 3 207000 in the blocking form; stream
 * codes in the other.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch,
                                           size_t width, size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src,
                                                size_t spitch, size_t width, size_t height,
                                                aclrtMemcpyKind kind, aclrtStream stream);

/*
 * Copies numBatches pieces between host and device, in no order among each other. attrs[k] holds
 * from entry attrsIndexes[k] to the next; attrsIndexes[0] is 0 and they rise. A location that is
 * declared HOST or HOST_NUMA is any host memory, DEVICE is memory of the device with this id,
 * MANAGED is managed memory. *failIndex tells the bad entry, or SIZE_MAX. All entries are checked
 * before the first is copied. Entries of size 0 are passed over in the blocking form, and 107000 in
 * the other; if all are 0, the call succeeds. Needs a context. Errors: NULL, numBatches 0,
 * destMaxs[i] < sizes[i], rsv not zero 100000; bad attributes, wrong location, host to host or
 * device to device, addresses as in aclrtMemcpy, over 4096 pieces in the blocking form 107000;
 * stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs,
                                              size_t *sizes, size_t numBatches,
                                              aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                              size_t numAttrs, size_t *failIndex);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs,
                                                   size_t *sizes, size_t numBatches,
                                                   aclrtMemcpyBatchAttr *attrs,
                                                   size_t *attrsIndexes, size_t numAttrs,
                                                   size_t *failIndex, aclrtStream stream);

/*
 * Write back and drop the cache lines of aclrtMallocCached memory: nothing is cached apart from the
 * memory here, so both only check. Need a context.
 * Errors: NULL or size 0 100000; addresses as in aclrtMemcpy 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void *devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void *devPtr, size_t size);

/*
 * Free and total bytes of one kind of memory of the current device; DDR and HBM alone sum over page
 * sizes. Here all kinds are one, with the same numbers, and none has pages of 1 GiB. Allocations
 * count in whole pages of 4 KiB. What is free can be had, by the limits of the user and its job,
 * too. Other processes change the numbers. Needs a context.
 * Errors: NULL 100000; attr outside 0..17 107016; the kinds of 1 GiB pages 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/*
 * Tells what an address is: the kind of memory, its device and its page size. Interior addresses
 * are fine; plain malloc memory is UNREGISTERED, not an error. Proves no liveness. Needs no
 * context. Errors: NULL 100000; kind that has no name 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void *ptr,
                                                       aclrtPtrAttributes *attributes);

/*
 * Host memory of the program made known to the device. PINNED and MAPPED mean the same here, but
 * that MAPPED memory must begin at a multiple of 4096 bytes. Registering remembers the range, and
 * changes nothing about the memory: any memory of the process will do, private or shared, a file's,
 * a thread's stack, of aclrtMallocHost. A child of fork() has its copy, as of all memory.
 *
 * The address at which devices reach it is its own. Copies, sets, reductions, value writes and
 * waits and random numbers take it like device memory, in any pairing; a copy between two places
 * that are both registered says by its kind which of them is a device's. Such tasks run in the
 * order of their stream: in a thread of the library, or, in memory of aclrtMallocHost, in the
 * engine where it can. A value wait there sees stores of the program
 * within some 10 ms, and what the library writes at once.
 *
 * The memory must stay, and stay registered, until the stream has passed the tasks that name it:
 * the library does not see that it is unmapped, and would fault. A value wait for memory that is
 * not registered any more fails with 507013.
 *
 * The memory is the program's: it stays when the device is reset, and the registration too. With
 * aclFinalize, or when aclInit finds that npud was lost, registrations end.
 * aclrtPointerGetAttributes says HOST for a registered range. A copy that leaves the range is one
 * of pageable memory.
 */
typedef enum aclrtHostRegisterType {
    ACL_HOST_REGISTER_MAPPED = 0,
    ACL_HOST_REGISTER_IOMEMORY = 0x04,
    ACL_HOST_REGISTER_READONLY = 0x08,
} aclrtHostRegisterType;

#define ACL_HOST_REG_MAPPED   0x2UL
#define ACL_HOST_REG_IOMEMORY 0x4UL
#define ACL_HOST_REG_READONLY 0x8UL
#define ACL_HOST_REG_PINNED   0x10000000UL

/*
 * Registers `size` bytes as MAPPED. *devPtr becomes their address for kernels, which here is ptr.
 * READONLY has no effect. Errors, the first that fits: ptr or devPtr NULL, size 0 100000; IOMEMORY
 * or unknown bits 207000; no context 107002; not aligned, not mapped, or too large 107000; a shared
 * buffer 207000; part of it is registered 507910; device memory, or freed 107000; out of memory
 * 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type,
                                               void **devPtr);

/*
 * Registers `size` bytes by flag: ACL_HOST_REG_PINNED, ACL_HOST_REG_MAPPED or both, which is as
 * MAPPED. READONLY may be added, and has no effect. Errors, the first that fits: ptr NULL, size 0
 * 100000; unknown bits, or none of the two 107000; IOMEMORY 207000; the rest as aclrtHostRegister,
 * but that memory that is PINNED alone may begin anywhere.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);

/*
 * The address for devices of memory that was registered in either way, by its start: the same
 * address. Errors: NULL, flag not 0 100000; no such start 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/*
 * Ends a registration by its start, before the memory is freed. Does not wait for tasks that are
 * queued, but for one that the library's thread executes at this moment. Needs no context. Errors:
 * NULL 100000; no such start 507911.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void *ptr);

typedef enum aclrtHacType {
    ACL_RT_HAC_TYPE_STARS = 0,
    ACL_RT_HAC_TYPE_AICPU = 1,
    ACL_RT_HAC_TYPE_AIC = 2,
    ACL_RT_HAC_TYPE_AIV = 3,
    ACL_RT_HAC_TYPE_PCIEDMA = 4,
    ACL_RT_HAC_TYPE_RDMA = 5,
    ACL_RT_HAC_TYPE_SDMA = 6,
    ACL_RT_HAC_TYPE_DVPP = 7,
    ACL_RT_HAC_TYPE_UDMA = 8,
    ACL_RT_HAC_TYPE_CCU = 9,
} aclrtHacType;

typedef enum aclrtHostMemMapCapability {
    ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0,
    ACL_RT_HOST_MEM_MAP_SUPPORTED = 1,
} aclrtHostMemMapCapability;

/*
 * Which unit of a device can reach registered host memory: here the scheduler, the cores and the
 * copy engines can; npud has none of the others. Errors, the first that fits: NULL 100000; bad
 * device 107001; unknown unit 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
                                                         aclrtHostMemMapCapability *capabilities);

/*
 * More about allocation: rarely used. The first two synchronise the current device, then free; an
 * error of the synchronise is returned, and nothing is freed. Need a context.
 */
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void *devPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void *hostPtr);
/* The same as aclrtMallocWithCfg: the scheduler of a simulated device is npud. */
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size,
                                                         aclrtMemMallocPolicy policy,
                                                         aclrtMallocConfig *cfg);

/*
 * Who uses how many bytes of a device, the largest first, *outputNum of them, at most inputNum:
 * "APP" is what this process has allocated, also as physical memory, "OTHERS" are all others, whose
 * peak is not known and is what they use now.
 * Errors: NULL 100000; inputNum 0 107000; bad device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo,
                                                  size_t inputNum, size_t *outputNum);

/*
 * Start and size, in whole pages, of the allocation (or mapping) that holds ptr, of any kind; one
 * of the outputs may be NULL. Needs no context. Calls that name the allocation (exports, hints, and
 * the like) take this range as they take the size that was asked for; copies and sets do not.
 * Errors: ptr NULL 100000; both outputs NULL, unknown or freed address 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

#define ACL_RT_MEM_TYPE_DEV  0x2U
#define ACL_RT_MEM_TYPE_DVPP 0x8U
#define ACL_RT_MEM_TYPE_RSVD 0x10U

/*
 * *checkResult is 1 if all addresses are of the types in the mask, else 0. All device memory is DEV
 * here. Errors: NULL 100000; size 0, mask 0 or with other bits, reserve not 0, 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType,
                                               uint32_t *checkResult, uint32_t reserve);

/*
 * Maps memory for a device with which peer access is enabled: npud's engines do that when they come
 * to it, so the call only checks. Needs a context. Errors: NULL, size 0, flags not 0 100000; not
 * device memory, addresses as in aclrtMemcpy 107000; bad device 107001; no peer access 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId,
                                            uint64_t flags);

/*
 * More copies and sets: rarely used. The first is deprecated: aclrtMemcpyAsync that refuses
 * pageable memory with 107000. The next two are the batch copies without failIndex.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax,
                                                           const void *src, size_t count,
                                                           aclrtMemcpyKind kind,
                                                           aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs,
                                                size_t *sizes, size_t numBatches,
                                                aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                                size_t numAttrs);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs,
                                                     size_t *sizes, size_t numBatches,
                                                     aclrtMemcpyBatchAttr *attrs,
                                                     size_t *attrsIndexes, size_t numAttrs,
                                                     aclrtStream stream);

/*
 * A copy inside one device by a descriptor of GetMemcpyDescSize bytes in memory of the program, of
 * any kind. kind is ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, config NULL. The descriptor is read by the
 * call that copies, not when the stream gets there. Errors: NULL, config not NULL 100000; kind
 * 207000; not memory of one device, not a descriptor, addresses as in aclrtMemcpy 107000; stream
 * codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);
ACL_FUNC_VISIBILITY aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr,
                                                void *dstAddr, size_t count, void *config);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind,
                                                      aclrtStream stream);

/*
 * A copy inside one device from *src + srcDataOffset to *dst + dstDataOffset. The two pointers are
 * read by the call; if they are in memory that tasks may write, it waits for the stream first.
 * Errors: count 0 is a success; NULL 100000; kind not ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, count
 * above destMax, *dst or *src NULL or not memory of one device, addresses as in aclrtMemcpy 107000;
 * stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax,
                                                        size_t dstDataOffset, const void **src,
                                                        size_t count, size_t srcDataOffset,
                                                        aclrtMemcpyKind kind, aclrtStream stream);

/*
 * Set N words of 32 bits in device memory, a shared buffer, host memory from aclrtMallocHost, or
 * registered memory. The asynchronous form sets when aclrtMemsetAsync does. memSize is bytes; N 0
 * is a success. Need a context. Errors: NULL, not 4-byte aligned, memSize below 4 * N, other memory
 * 100000; addresses as in aclrtMemcpy 107000; stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value,
                                                 size_t N, aclrtStream stream);

/*
 * Variables of kernels, by symbol: the address of a variable with __gm__, outside of functions, in
 * a source that the toolkit tree has compiled (docs/kernels.md). It is memory of the process: its
 * device address is its own, all devices see the same variable, and it keeps its value over
 * aclrtResetDevice. Other functions may use the address as device memory: copies, sets and words
 * in the order of a stream.
 *
 * Copies are aclrtMemcpy() and aclrtMemcpyAsync() of `count` bytes from `offset` on: with memory of
 * aclrtMallocHost and of devices the asynchronous ones are tasks of the stream, with other memory
 * of the host the call returns when they are over. Copies of 0 bytes succeed. Any thread with a
 * context. A library that has the variable stays loaded until the stream has passed the copy.
 * Errors: NULL 100000; kind not 2, 3 or 4 (from a symbol), 1, 3 or 4 (to one) 100000; offset and
 * count leave the variable 100000; count above dstMax 107000; a variable that is const (to it)
 * 107000; no context 107002; stream codes; no such symbol 107042.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr);
ACL_FUNC_VISIBILITY aclError aclrtGetSymbolSize(const void *symbol, size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbol(void *dst, size_t dstMax, const void *symbol,
                                                   size_t count, size_t offset,
                                                   aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax,
                                                        const void *symbol, size_t count,
                                                        size_t offset, aclrtMemcpyKind kind,
                                                        aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count,
                                                 size_t offset, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src,
                                                      size_t count, size_t offset,
                                                      aclrtMemcpyKind kind, aclrtStream stream);

/*
 * Hints to the cache, as tasks of a stream: rarely used. There is nothing to do on a coherent
 * simulated device: the calls check their arguments and succeed, and a wait for a barrier passes.
 * What a program copies is seen by all that use the memory, with hints and without.
 *
 * src is device memory, and so is a descriptor: SetDesc writes src and size into one at once, which
 * takes the bytes that GetDescSize tells, and AsyncWithDesc does not look at what is in it.
 * barrierId may be any number, taskInfo is not looked into, flag is 0 and reserve NULL.
 * Errors: a pointer NULL, size 0, cmoType outside 0..3, flag or reserve set, 100000; no device
 * memory, or not enough, 107000; stream codes. SetDesc needs a context.
 */
#define ACL_RT_CMO_MAX_BARRIER_NUM 6U

typedef enum aclrtCmoType {
    ACL_RT_CMO_TYPE_PREFETCH = 0,
    ACL_RT_CMO_TYPE_WRITEBACK = 1,
    ACL_RT_CMO_TYPE_INVALID = 2,
    ACL_RT_CMO_TYPE_FLUSH = 3,
} aclrtCmoType;

typedef struct aclrtBarrierCmoInfo {
    aclrtCmoType cmoType;
    uint32_t barrierId;
} aclrtBarrierCmoInfo;

typedef struct aclrtBarrierTaskInfo aclrtBarrierTaskInfo; /* layout not in the reference */

ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType,
                                           aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType,
                                                      uint32_t barrierId, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream,
                                                 uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCmoGetDescSize(size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType,
                                                   aclrtStream stream, const void *reserve);

/*
 * Managed memory, one address for host and devices: rarely used. It is host memory of npud, which
 * its engines reach for every device, and counts against limits.host_memory, not as memory of a
 * device. It is source and destination of all copies, and of sets in stream order; words of it are
 * not for aclrtValueWait and the like. aclrtFree frees it; a reset of a device does not.
 */
#define ACL_RT_MEM_ATTACH_GLOBAL 0x1U

typedef enum aclrtMemManagedAdviseType {
    ACL_MEM_ADVISE_SET_READ_MOSTLY = 0,
    ACL_MEM_ADVISE_UNSET_READ_MOSTLY = 1,
    ACL_MEM_ADVISE_SET_PREFERRED_LOCATION = 2,
    ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 3,
    ACL_MEM_ADVISE_SET_ACCESSED_BY = 4,
    ACL_MEM_ADVISE_UNSET_ACCESSED_BY = 5,
} aclrtMemManagedAdviseType;

typedef enum aclrtMemManagedLocationType {
    ACL_MEM_LOCATIONTYPE_INVALID = 0,
    ACL_MEM_LOCATIONTYPE_DEVICE = 1,
    ACL_MEM_LOCATIONTYPE_HOST = 2,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA = 3,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT = 4,
} aclrtMemManagedLocationType;

typedef enum aclrtMemManagedRangeAttribute {
    ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
    ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 4,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 5,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 6,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8,
} aclrtMemManagedRangeAttribute;

/* Unlike aclrtMemLocation, the type comes first. */
typedef struct aclrtMemManagedLocation {
    aclrtMemManagedLocationType type;
    int32_t id;
} aclrtMemManagedLocation;

/*
 * Allocates size bytes, rounded up to 2 MiB. Needs a context. Errors: ptr NULL, flag not
 * ACL_RT_MEM_ATTACH_GLOBAL 100000; size 0 107000; over 3 TiB in the process, or no memory, 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);

/*
 * Advice for the blocks of 2 MiB that a range is in. Nothing ever moves: it is noted and given
 * back. A location is a device by its id, or the host (its NUMA nodes only as preferred location);
 * READ_MOSTLY and UNSET_PREFERRED_LOCATION look at none. Needs no context. Errors: NULL 100000;
 * size 0, range not in managed memory, unknown advice or location 107000; bad device 107001.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
                                                   aclrtMemManagedAdviseType advise,
                                                   aclrtMemManagedLocation location);

/*
 * What holds for all of a range, as int32_t: READ_MOSTLY 0 or 1; a type; or an id, -1 for the host,
 * -2 for none or more than one. ACCESSED_BY fills the data with ids, the rest with -2; the data of
 * the others is 4 bytes. Needs no context. Errors: NULL 100000; unknown attribute, size of the
 * data, no attributes, range not in managed memory 107000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute,
                                                    const void *ptr, size_t size, void *data,
                                                    size_t dataSize);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes,
                                                     size_t numAttributes, const void *ptr,
                                                     size_t size, void **data, size_t *dataSizes);

/*
 * Note the location as LAST_PREFETCH_LOCATION, at the call. location[k] holds from range
 * prefetchLocIdxs[k] to the next; prefetchLocIdxs[0] is 0 and they rise. Errors: NULL, flags not 0
 * 100000; no range, bad indexes, unknown location, not in managed memory 107000; bad device 107001;
 * stream codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
                                                          aclrtMemManagedLocation location,
                                                          uint32_t flags, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchBatchAsync(
    const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream);

/* --------------------------------------------------- memory shared between processes, by key */

#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT                0x0UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT                0x0UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS     0x1UL

/*
 * Exports device memory from aclrtMalloc and writes its key, a text of at most 65 bytes with the
 * final NUL; pass 65 as len. devPtr is the address that the allocator gave, size at most what was
 * asked for, or what aclrtMemGetAddressRange answers. Both sides see the same bytes; their order in
 * time is the program's task. Unless the flags say DISABLE_PID_VALIDATION, importers must be on the
 * list of aclrtIpcMemSetImportPid. Needs a context.
 * The same memory may be exported several times, and by its own process imported. Who has imported
 * it keeps it, whatever the exporter does then: closes, frees, or dies. Waits for words of it
 * (aclrtValueWait) fail with 507057 as soon as no process is left that could write them.
 * Errors: NULL 100000; size 0, len below 65, flags above 1, or other memory (of the host, imported,
 * mapped, not the start, fewer bytes) 107000; no context 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key,
                                                     size_t len, uint64_t flags);

/*
 * Adds processes to the list of importers, before they import. The pids are those that importers
 * got from aclrtDeviceGetBareTgid: at most 256 on the list. Each stands for the process that has it
 * at this moment, or, if there is none, for the first that imports with it.
 * Errors: NULL 100000; num 0, a pid that is not positive, or not a key 107000; the list is full
 * 207005; exported without list 207006; not exported by this process, or not any more, 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);

/*
 * Maps exported memory into this process for the current device. ENABLE_PEER_ACCESS also lets that
 * device reach the owner's. Each call gives another address, and needs an aclrtIpcMemClose, not
 * aclrtFree. Reset of the current device ends it, too. Needs a context.
 * Errors: NULL 100000; flags above 1, or not a key, 107000; no context 107002; not on the list, or
 * another user's without a list, 207006; the export has ended 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);

/*
 * In an importer: removes the oldest mapping of the key. In the exporter: ends the export; close
 * there last, before the memory is freed. Waits for no work.
 * Errors: NULL 100000; not a key 107000; neither imported nor exported by this process, or not any
 * more, 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char *key);

/* Links and white lists across servers: rarely used. */
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_SIO                0x0UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS               0x1UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_ONE_PORT_PATH   0x2UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH 0x3UL

typedef enum aclrtIpcMemAttrType {
    ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0,
} aclrtIpcMemAttrType;

ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type,
                                                uint64_t attr);
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportPidInterServer(const char *key,
                                                             aclrtServerPid *serverPids,
                                                             size_t num);

/* ---------------------------------------------------------------- virtual memory management */

/*
 * Addresses, physical memory and access are separate here: reserve an address, allocate physical
 * memory, map one to the other, grant access, and undo in reverse. Never pass such an address to
 * aclrtFree or aclrtIpcMemGetExportKey. Sizes are multiples of the allocation granularity, 2 MiB.
 *
 * A range of addresses may go on from one mapping into the next of the same reservation, for all
 * copies and fills. Where nothing is mapped, calls are refused (107000) and the program faults.
 */
#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT                0x0UL
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL

typedef enum aclrtMemAllocationType {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0,
} aclrtMemAllocationType;

typedef enum aclrtMemHandleType {
    ACL_MEM_HANDLE_TYPE_NONE = 0,
    ACL_MEM_HANDLE_TYPE_POSIX = 2,
} aclrtMemHandleType;

typedef enum aclrtMemSharedHandleType {
    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 0x1, /* a uint64_t */
    ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 0x2,  /* an aclrtMemFabricHandle */
} aclrtMemSharedHandleType;

typedef enum aclrtMemGranularityOptions {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF,
} aclrtMemGranularityOptions;

typedef enum aclrtMemAccessFlags {
    ACL_RT_MEM_ACCESS_FLAGS_NONE = 0x0,
    ACL_RT_MEM_ACCESS_FLAGS_READ = 0x1,
    ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 0x3,
} aclrtMemAccessFlags;

typedef struct aclrtPhysicalMemProp {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve; /* zero */
} aclrtPhysicalMemProp;

typedef struct aclrtMemAccessDesc {
    aclrtMemAccessFlags flags;
    aclrtMemLocation location;
    uint8_t rsv[12]; /* zero */
} aclrtMemAccessDesc;

typedef struct aclrtMemFabricHandle {
    uint8_t data[128];
} aclrtMemFabricHandle;

/*
 * Addresses. size: at most 64 TiB, which cost nothing until memory is mapped; it is rounded up to a
 * multiple of 2 MiB. alignment: 0, or a power of two up to 1 GiB. expectPtr: NULL, or a wish from
 * 16 TiB to 24 TiB. Release: the start, with nothing mapped there. Neither needs a context.
 * Errors: virPtr NULL, size 0 or flags above 1 100000; size, alignment or wish other than above, or
 * not a start, 107000; no such addresses left 207001; addresses in use, or mappings there, 507899.
 * NoUCMemory: 207000, as addresses above 47 bits are no user's here.
 */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment,
                                                    void *expectPtr, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size,
                                                              size_t alignment, void *expectPtr,
                                                              uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void *virPtr);

/*
 * Physical memory. Every handle from Malloc, Retain and Import needs one aclrtFreePhysical; the
 * memory stays until its handles and mappings are gone, also beyond a reset of the device. Without
 * context. Kinds with pages of 1 GiB, and a chosen NUMA node: 207000.
 * Errors: NULL, size 0, flags or types other than above, a kind that the place does not have,
 * 100000; size no multiple of 2 MiB, or another option, 107000; no such device 107001; not a
 * handle, or freed, 107017; out of memory 207001.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                                              aclrtMemGranularityOptions option,
                                                              size_t *granularity);
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                                                 const aclrtPhysicalMemProp *prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
ACL_FUNC_VISIBILITY aclError aclrtMemRetainAllocationHandle(void *virPtr,
                                                            aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                                       aclrtPhysicalMemProp *prop);

/*
 * Mappings. The owner of the memory may read and write; others need aclrtMemSetAccess, which lets a
 * device reach it as aclrtDeviceEnablePeerAccess does. size is that of the physical memory, offset
 * 0. All mappings of one reservation are of devices, or all of the host: own and imported memory
 * may lie side by side, also of several devices. SetAccess: of what one MapMem has mapped;
 * GetAccess: any address there.
 * Errors: NULL (SetAccess: 107000), size 0 or flags 100000; addresses, sizes or rights other than
 * above 107000; not a handle 107017; something is mapped there 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void *virPtr, size_t size, size_t offset,
                                         aclrtDrvMemHandle handle, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset,
                                                 aclrtDrvMemHandle handle, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void *virPtr);
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc,
                                               size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location,
                                               uint64_t *flag);

/* The physical link that a mapping uses: rarely used. */
#define ACL_RT_MEM_LINK_IDX_0 0x0U
#define ACL_RT_MEM_LINK_IDX_1 0x1U

typedef enum aclrtMemLinkType {
    ACL_RT_MEM_ACCESS_LINK_SIO = 0,
    ACL_RT_MEM_ACCESS_LINK_HCCS = 1,
    ACL_RT_MEM_ACCESS_UB_ONE_PORT_PATH = 2,
    ACL_RT_MEM_ACCESS_UB_MULTI_PORT_PATH = 3,
} aclrtMemLinkType;

ACL_FUNC_VISIBILITY aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc,
                                                     uint32_t linkIdx);
ACL_FUNC_VISIBILITY aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle,
                                                aclrtMemLinkType linkType);

/*
 * Sharing. The number, or the 128 bytes, goes to the importer by a channel of the program. Lists of
 * importers, and lifetimes, are as with aclrtIpcMemGetExportKey. A handle is exported once. The
 * number ends with the last handle of the exporter, whatever is mapped: imports go on.
 * FABRIC: the 128 bytes stand for the number, and are good on the same host only.
 * Errors: NULL or another handleType 100000; flags above 1, another shareType, or to export what
 * was imported, 107000; Import: no such device 107001, no context of it 107002; not on the list
 * 207006; exported before, or not (any more), 507899.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                                             aclrtMemHandleType handleType,
                                                             uint64_t flags,
                                                             uint64_t *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle,
                                                               uint64_t flags,
                                                               aclrtMemSharedHandleType shareType,
                                                               void *shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                                             size_t pidNum);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                                               aclrtMemSharedHandleType shareType,
                                                               int32_t *pid, size_t pidNum);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle,
                                                               int32_t deviceId,
                                                               aclrtDrvMemHandle *handle);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                                 aclrtMemSharedHandleType shareType,
                                                                 uint64_t flags,
                                                                 aclrtDrvMemHandle *handle);

/* Names of memory kinds by page and place: reserved, no function takes them. */
typedef enum aclrtMemPgType {
    NORMAL_PAGE_TYPE = 0,
    HUGE_PAGE_TYPE = 1,
    HUGE1G_PAGE_TYPE = 2,
} aclrtMemPgType;

typedef enum aclrtMemType {
    HBM_TYPE = 0,
    DDR_TYPE = 1,
    P2P_HBM_TYPE = 2,
    P2P_DDR_TYPE = 3,
} aclrtMemType;

typedef struct MemAttrMapping {
    aclrtMemPgType pgType;
    aclrtMemType memType;
    bool isHostAlloc;
    aclrtMemAttr memAttr;
} MemAttrMapping;

/* --------------------------------------------------------------------------- shared buffers */

/*
 * Reserved twins of the acltdt*Buf* functions in acl_tdt_queue.h, which see: the same objects with
 * the same rules. Only the allocation differs; its arguments are the other way round, and size 0
 * gives 100000.
 */
ACL_FUNC_VISIBILITY aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeBuf(aclrtMbuf buf);
ACL_FUNC_VISIBILITY aclError aclrtGetBufData(const aclrtMbuf buf, void **dataPtr, size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtSetBufDataLen(aclrtMbuf buf, size_t len);
ACL_FUNC_VISIBILITY aclError aclrtGetBufDataLen(aclrtMbuf buf, size_t *len);
ACL_FUNC_VISIBILITY aclError aclrtSetBufUserData(aclrtMbuf buf, const void *dataPtr, size_t size,
                                                 size_t offset);
ACL_FUNC_VISIBILITY aclError aclrtGetBufUserData(const aclrtMbuf buf, void *dataPtr, size_t size,
                                                 size_t offset);
ACL_FUNC_VISIBILITY aclError aclrtCopyBufRef(const aclrtMbuf buf, aclrtMbuf *newBuf);
ACL_FUNC_VISIBILITY aclError aclrtAppendBufChain(aclrtMbuf headBuf, aclrtMbuf buf);
ACL_FUNC_VISIBILITY aclError aclrtGetBufChainNum(aclrtMbuf headBuf, uint32_t *num);
ACL_FUNC_VISIBILITY aclError aclrtGetBufFromChain(aclrtMbuf headBuf, uint32_t index,
                                                  aclrtMbuf *buf);

/* ------------------------------------------------------------------------------------ kernels */

/*
 * Binaries of kernels. A kernel is host code, which the process that launches it runs itself
 * (docs/kernels.md): a binary is an ELF shared object of the host. One of a real device gets 107000
 * and a sentence that names its machine.
 *
 * Handles of binaries and functions are the process's. Any thread. A binary that is unloaded stays
 * in memory until the last launch of it has run; its handle and its functions are stale (107017) at
 * once, and stay valid over aclrtResetDevice. A function may be launched on the devices where it
 * was looked up, in the session in which it was. Loading needs no context, looking up does (107000
 * without), but for aclrtBinaryLoad (107002).
 *
 * aclrtBinaryLoadFromFile: binPath of a shared object, which may be named .o; with cpuKernelMode 0
 * or 1 of a .json file, with the shared object beside it (.so). A JSON file beside a .o is not
 * read. aclrtBinaryGetFunction: kernelName is plain for extern "C", else mangled; a name that is no
 * registered kernel is looked up as a symbol, and called with 8-byte words.
 * aclrtBinaryGetFunctionCount, aclrtBinaryEnumerateFunctions: the registered kernels, in the order
 * of their names; count handles are written, NULL behind the last. A plain shared object has none.
 * count 0 107000.
 * aclrtBinaryGetDevAddress: where it is loaded, and its extent. aclrtBinaryGetGlobal: an object of
 * the shared object, by its symbol, or a variable with __gm__ by its name in the source (a::b),
 * also if it is static; dptr or size may be NULL. Its address may be used as device memory until
 * the binary is unloaded.
 */
#define ACL_RT_BINARY_MAGIC_ELF_AICORE      0x43554245U
#define ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE 0x41415246U
#define ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE   0x41494343U

typedef enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2, /* older name of the next */
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3,
} aclrtBinaryLoadOptionType;

typedef union aclrtBinaryLoadOptionValue {
    uint32_t isLazyLoad;
    uint32_t magic;
    int32_t cpuKernelMode;
    uint32_t rsv[4];
} aclrtBinaryLoadOptionValue;

typedef struct aclrtBinaryLoadOption {
    aclrtBinaryLoadOptionType type;
    aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;

typedef struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption *options;
    size_t numOpt;
} aclrtBinaryLoadOptions;

ACL_FUNC_VISIBILITY aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen);
ACL_FUNC_VISIBILITY aclError aclrtDestroyBinary(aclrtBinary binary);
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromFile(const char *binPath,
                                                     aclrtBinaryLoadOptions *options,
                                                     aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromData(const void *data, size_t length,
                                                     const aclrtBinaryLoadOptions *options,
                                                     aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetDevAddress(const aclrtBinHandle binHandle,
                                                      void **binAddr, size_t *binSize);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetGlobal(aclrtBinHandle binHandle, const char *name,
                                                  void **devPtr, size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle,
                                                    const char *kernelName,
                                                    aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle,
                                                           uint64_t funcEntry,
                                                           aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunctionCount(aclrtBinHandle binHandle, uint32_t *count);
ACL_FUNC_VISIBILITY aclError aclrtBinaryEnumerateFunctions(aclrtBinHandle binHandle,
                                                           aclrtFuncHandle *functions,
                                                           uint32_t count);
ACL_FUNC_VISIBILITY aclError aclrtRegisterCpuFunc(const aclrtBinHandle handle, const char *funcName,
                                                  const char *kernelName,
                                                  aclrtFuncHandle *funcHandle);

/* Functions in a binary. */
typedef enum aclrtFuncAttribute {
    ACL_FUNC_ATTR_KERNEL_TYPE = 1,
    ACL_FUNC_ATTR_KERNEL_RATIO = 2,
    ACL_FUNC_ATTR_KERNEL_SCHED_MODE = 3,
} aclrtFuncAttribute;

typedef enum aclrtKernelType {
    ACL_KERNEL_TYPE_AICORE = 0,
    ACL_KERNEL_TYPE_CUBE = 1,
    ACL_KERNEL_TYPE_VECTOR = 2,
    ACL_KERNEL_TYPE_MIX = 3,
    ACL_KERNEL_TYPE_AICPU = 100,
} aclrtKernelType;

ACL_FUNC_VISIBILITY aclError aclrtGetFuncBySymbol(const void *symbol, aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr,
                                                  void **aivAddr);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionSize(aclrtFuncHandle funcHandle, size_t *aicSize,
                                                  size_t *aivSize);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen,
                                                  char *name);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAttribute(aclrtFuncHandle funcHandle,
                                                       aclrtFuncAttribute attrType,
                                                       int64_t *attrValue);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetBinary(const aclrtFuncHandle funcHandle,
                                                    aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetParamCount(const void *func, size_t *paramCount);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetParamInfo(const void *func, size_t paramIndex,
                                                       size_t *paramOffset, size_t *paramSize);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetAvailDynUbufPerBlock(void *func, uint32_t blockDim,
                                                                  size_t *dynUbufSize);

/* Arguments of a kernel. */
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle,
                                                 aclrtArgsHandle *argsHandle);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsInitByUserMem(aclrtFuncHandle funcHandle,
                                                          aclrtArgsHandle argsHandle,
                                                          void *userHostMem, size_t actualArgsSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetMemSize(aclrtFuncHandle funcHandle,
                                                       size_t userArgsSize, size_t *actualArgsSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle,
                                                             size_t *memSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param,
                                                   size_t paramSize, aclrtParamHandle *paramHandle);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle,
                                                              aclrtParamHandle *paramHandle);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle,
                                                                 aclrtParamHandle paramHandle,
                                                                 size_t dataSize,
                                                                 void **bufferAddr);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle,
                                                       aclrtParamHandle paramHandle, void *param,
                                                       size_t paramSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle);

/* Launches. */
typedef enum aclrtEngineType {
    ACL_RT_ENGINE_TYPE_AIC = 0,
    ACL_RT_ENGINE_TYPE_AIV = 1,
} aclrtEngineType;

typedef enum aclrtLaunchKernelAttrId {
    ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1,
    ACL_RT_LAUNCH_KERNEL_ATTR_LOCAL_MEMORY_SIZE = 2, /* older name of the next */
    ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2,
    ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
    ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6,
    ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7,
    ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US = 8,
    ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING = 9,
} aclrtLaunchKernelAttrId;

typedef struct aclrtTimeoutUs {
    uint32_t timeoutLow;
    uint32_t timeoutHigh;
} aclrtTimeoutUs;

typedef union aclrtLaunchKernelAttrValue {
    uint8_t schemMode;
    uint32_t localMemorySize; /* older name of the next */
    uint32_t dynUBufSize;
    aclrtEngineType engineType;
    uint32_t blockDimOffset;
    uint8_t isBlockTaskPrefetch;
    uint8_t isDataDump;
    uint16_t timeout;
    aclrtTimeoutUs timeoutUs;
    uint8_t enableProfiling;
    uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;

typedef struct aclrtLaunchKernelAttr {
    aclrtLaunchKernelAttrId id;
    aclrtLaunchKernelAttrValue value;
} aclrtLaunchKernelAttr;

typedef struct aclrtLaunchKernelCfg {
    aclrtLaunchKernelAttr *attrs;
    size_t numAttrs;
} aclrtLaunchKernelCfg;

typedef struct dim3 {
    uint32_t x;
    uint32_t y;
    uint32_t z;
} dim3;

/* In bytes from the begin of the block: the address of its bytes there is put here. */
typedef struct aclrtPlaceHolderInfo {
    uint32_t addrOffset;
    uint32_t dataOffset;
} aclrtPlaceHolderInfo;

ACL_FUNC_VISIBILITY aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t blockDim,
                                               const void *argsData, size_t argsSize,
                                               aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t blockDim,
                                                 const void *argsData, size_t argsSize,
                                                 aclrtLaunchKernelCfg *cfg, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle,
                                                         uint32_t blockDim, aclrtStream stream,
                                                         aclrtLaunchKernelCfg *cfg,
                                                         aclrtArgsHandle argsHandle, void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithHostArgs(
    aclrtFuncHandle funcHandle, uint32_t blockDim, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
    void *hostArgs, size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithArgsArray(void *func, uint32_t blockDim,
                                                            aclrtStream stream,
                                                            aclrtLaunchKernelCfg *cfg, void **args);
ACL_FUNC_VISIBILITY aclError aclrtLaunchSIMTKernelWithArgsArray(void *func, dim3 gridDim,
                                                                dim3 blockDim, size_t dynUBufSize,
                                                                aclrtStream stream,
                                                                aclrtLaunchKernelCfg *cfg,
                                                                void **args);
ACL_FUNC_VISIBILITY aclError aclrtLaunchSIMTKernelWithHostArgs(
    void *func, dim3 gridDim, dim3 blockDim, size_t dynUBufSize, aclrtStream stream,
    aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
    aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum);

/* ------------------------------------------------------------------------------- model graphs */

/*
 * Graphs (docs/graphs.md), which these functions call models: recorded tasks of one or several
 * streams that one call executes. A handle is good in this process until aclmdlRIDestroy, or until
 * its context ends, which destroys its models without calling their callbacks. In a forked child
 * none is. Any thread may call; calls about one model at a time, but for executions.
 *
 * An execution takes the tasks one after the other, in the order of the calls that recorded them:
 * streams of one graph do not overlap in time. What one branch waits for must be recorded before,
 * if it comes from another branch by a notify, a word of memory or an ACL_EVENT_EXTERNAL event.
 * Two executions of one model do not overlap, also on different streams; a program for other
 * devices than npud's orders them by itself.
 *
 * What tasks name is looked up at each execution: memory that was freed fails its task with 507013,
 * a destroyed event its wait with 107000. A task that fails ends its execution: what is behind it
 * in the model is not run, and the stream tells the failure as that of any task. Models take pinned
 * memory (64 bytes for each task), which counts for the limits of the user. A model has at most
 * 1,048,576 tasks, recorded by half as many calls.
 */
#define ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY 0x0U
#define ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE 0x1U

typedef enum aclmdlRICaptureMode {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;

typedef enum aclmdlRICaptureStatus {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

typedef enum aclmdlRITaskType {
    ACL_MODEL_RI_TASK_DEFAULT = 0,
    ACL_MODEL_RI_TASK_KERNEL = 1,
    ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
    ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
    ACL_MODEL_RI_TASK_EVENT_RESET = 4,
    ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
    ACL_MODEL_RI_TASK_VALUE_WAIT = 6,
} aclmdlRITaskType;

typedef struct aclmdlRIKernelTaskParams {
    aclrtFuncHandle funcHandle;
    aclrtLaunchKernelCfg *cfg;
    void *args;
    uint32_t isHostArgs;
    size_t argsSize;
    uint32_t numBlocks;
    uint32_t rsv[10];
} aclmdlRIKernelTaskParams;

typedef struct aclmdlRIEventRecordTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t recordFlag;
} aclmdlRIEventRecordTaskParams;

typedef struct aclmdlRIEventWaitTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t waitFlag;
} aclmdlRIEventWaitTaskParams;

typedef struct aclmdlRIEventResetTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t resetFlag;
} aclmdlRIEventResetTaskParams;

typedef struct aclmdlRIValueWriteTaskParams {
    void *devAddr;
    uint64_t value;
} aclmdlRIValueWriteTaskParams;

typedef struct aclmdlRIValueWaitTaskParams {
    void *devAddr;
    uint64_t value;
    uint32_t flag;
} aclmdlRIValueWaitTaskParams;

/* The reference gives the size of the last part, not the names of its members; these are npud's. */
typedef struct aclmdlRITaskParams {
    aclmdlRITaskType type;
    uint32_t rsv0[3];
    aclrtTaskGrp taskGrp;
    void *opInfoPtr;
    size_t opInfoSize;
    uint8_t rsv1[32];
    union {
        uint8_t rsv2[128];
        aclmdlRIKernelTaskParams kernelTaskParams;
        aclmdlRIEventRecordTaskParams eventRecordTaskParams;
        aclmdlRIEventWaitTaskParams eventWaitTaskParams;
        aclmdlRIEventResetTaskParams eventResetTaskParams;
        aclmdlRIValueWriteTaskParams valueWriteTaskParams;
        aclmdlRIValueWaitTaskParams valueWaitTaskParams;
    };
} aclmdlRITaskParams;

typedef enum aclmdlRICondHandleFlag {
    ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1,
} aclmdlRICondHandleFlag;

typedef enum aclmdlRICondTaskType {
    ACL_MODEL_RI_COND_TYPE_IF = 0,
    ACL_MODEL_RI_COND_TYPE_WHILE = 1,
    ACL_MODEL_RI_COND_TYPE_SWITCH = 2,
} aclmdlRICondTaskType;

typedef struct tagAclmdlRICondTaskParams {
    aclmdlRICondHandle handle;
    aclmdlRICondTaskType type;
    uint32_t size;
    aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;

/*
 * Capture: what the stream is given from Begin to End is recorded and not executed. Recorded are
 * copies, fills and reductions in memory that devices reach (registered memory too), value writes
 * and waits, notifies, kernels, and functions of the host, which block their stream in a model,
 * whatever type they were launched with. What a call makes or takes at once (random numbers,
 * HOST_TO_BUF_TO_DEVICE copies) is not: 207000. Work that was submitted before is not part of it.
 *
 * Events: those of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC are edges of the graph. A stream
 * that waits for such an event, recorded in a capture, joins the capture; before End, the last that
 * it was given must be a record for which another stream of the capture waits, up to the origin.
 * Without ACL_EVENT_SYNC a record is ignored. ACL_EVENT_EXTERNAL events are recorded as tasks that
 * touch the event at each execution. Other kinds, IPC events among them, are refused (207000). When
 * the capture ends, its events are ordinary again; recorded on another stream meanwhile, an event
 * leaves the capture.
 *
 * Modes: while a GLOBAL capture is active, no thread of its context may call what blocks for memory
 * (aclrtMemset, aclrtMemcpy and their kin: 107030; asynchronous copies of pageable memory on other
 * streams: 107041), while a THREAD_LOCAL one is, not the thread that has begun it. RELAXED forbids
 * nothing, and any thread may end it. ThreadExchangeMode swaps *mode with the mode of the calling
 * thread, GLOBAL at first, which weakens this for its own calls: THREAD_LOCAL heeds captures that
 * it has begun by itself, RELAXED none.
 *
 * End gives the model, or NULL: then the capture is discarded, and its streams are usable. GetInfo
 * needs no context; *modelRI is the model under construction, or NULL.
 *
 * Errors: NULL 100000 (CaptureEnd without modelRI 107000); mode above 2 107000; default stream
 * 207000; PERSISTENT, CPU_SCHEDULE or DEVICE_USE_ONLY stream 507000; stream of a model 107005, in
 * an update window 107033; stream captured already 107027, not captured 107029, joined and not the
 * origin 107036; other thread 107038; invalidated 507903; nested model still captured 107045; task
 * group open 107033; not joined 107025; too many models or tasks 207010. In a capture: pageable
 * memory 107000; an event that was not recorded in it 107024, or of another one 107032 (both
 * captures are invalidated); the default stream and its events 107031; what cannot be recorded
 * 207000; to wait for a stream, query or destroy it 107027; to use one of its events from the host
 * 107028; an execution 107027. After invalidation each call answers 507903.
 *
 * CaptureToModelRIBegin captures into a nested model of aclmdlRIAddCondTask, on another stream,
 * while its parent is captured: no nested model, 107000; captured before, 107026. If its End fails,
 * the parent is invalidated.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                                           aclmdlRICaptureMode mode);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureGetInfo(aclrtStream stream,
                                                    aclmdlRICaptureStatus *status,
                                                    aclmdlRI *modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);
/*
 * Task groups: kernels of a capture that are exchanged later. Between GrpBegin and GrpEnd the
 * stream takes launches of kernels alone (507009), and no other stream of the capture anything
 * (107034); what was refused breaks the group, and GrpEnd answers its code. The handle lives as
 * long as the model. Between UpdateBegin and UpdateEnd, on a stream that is not captured, as many
 * launches in the same order are executed by nobody; they replace those of the group when the
 * stream gets there, so order that before the execution that shall see it. A surplus launch, and
 * UpdateEnd after too few, 507000, and then nothing is replaced; another task 507009. A window that
 * is open when its stream ends is dropped. Errors: NULL 100000; no group 107017; model under
 * capture 107026; group open or not, window open or not, group updated elsewhere 107033.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream,
                                                            aclrtTaskGrp handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/*
 * Building by hand: BuildBegin, BindStream, tasks, EndTask once on one of the streams, BuildEnd. A
 * stream of a model starts with it (HEAD, and the first that is bound), or waits until another one
 * starts it (DEFAULT). It must be created with ACL_STREAM_PERSISTENT and without
 * ACL_STREAM_FAST_LAUNCH, and records from when it is bound: tasks before that run. It takes sync
 * events, whose records get no timestamp there, those with ACL_EVENT_EXTERNAL, and notifies, no
 * others (207000). A copy of pageable memory is made at the call, and is no part of the model; a
 * HOST_TO_BUF_TO_DEVICE copy is refused (107000). After BuildEnd it takes nothing until it is
 * unbound (107005). Its streams do not run side by side: where each begins once, by itself or by
 * ActiveStream, tasks run in the order of the calls, but those that wait for an event or a notify
 * of another stream after its record; else streams that start with the model run one after the
 * other, in the order of their binding. aclmdlRIDestroy releases the streams.
 *
 * Execute runs it on the default stream of the current context and waits: -1 for ever; after
 * `timeout` ms 507046, and it goes on. Abort ends the task that it is at, and with that the
 * execution, which counts as failed with 107023. Errors: NULL 100000 (Abort 107000); flag, timeout,
 * reserve 107000 (reserve 100000); stream bound, or not bound to it 107005; EndTask twice, or on
 * another stream 507000; BuildEnd without EndTask, execution before BuildEnd 507011; a captured
 * model: Execute and BindStream 107000, Abort 207000; model or stream of another context 107004,
 * 107003.
 */
#define ACL_MODEL_STREAM_FLAG_HEAD    0x00000000U
#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU

ACL_FUNC_VISIBILITY aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream,
                                                uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);
/*
 * Conditions, in models that are captured. A handle has a word of 8 bytes in device memory, 0 at
 * first, which kernels and copies write; GetCondPtr gives its address. With ASSIGN_DEFAULT it is
 * set to defaultValue at the beginning of each execution of the whole model. AddCondTask adds a
 * task that looks at the word, and fills in `size` nested models, to be captured with
 * aclmdlRICaptureToModelRIBegin; one that is not captured does nothing. IF (1 or 2 of them): 0 if
 * the word is not zero, else 1. WHILE (1): again and again, while it is not zero. SWITCH (up to
 * 1024): the one with that number, or none. A handle is for one task. Nested models may nest
 * further; they go with the whole one. Errors: NULL 100000 (in params 107000); model not captured,
 * another model, unknown flag, type or size, handle used before 107000; built by hand 207000;
 * stream not captured 107029; Execute, Destroy, Abort and callbacks of nested models 207000.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultValue,
                                                      aclmdlRICondHandleFlag flag,
                                                      aclmdlRICondHandle *handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle,
                                                          uint64_t **condPtr);
ACL_FUNC_VISIBILITY aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream,
                                                 uint32_t flag);

/*
 * ExecuteAsync submits one execution; NULL is the default stream. Destroy waits for an execution
 * that is under way, up to 10 s (then 107037, and the model stays), and calls the registered
 * functions in the calling thread when the model's memory is gone. Abort ends the latest execution,
 * if its stream is at it. Errors: NULL 100000 (callbacks 107000); unknown or destroyed model
 * 107017; under capture 107026; not built 507011; nested 207000; model or stream of another context
 * 107004, 107003; stream of a model, or PERSISTENT 107000; captured 107027; functions of
 * aclrtLaunchCallback where no thread is subscribed to the stream 107015; the same function
 * registered twice, or not registered 107000.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRIUpdate(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIAbort(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroy(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func,
                                                             void *userData);
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI,
                                                               aclrtCallback func);

/*
 * Names have up to 512 bytes, longer ones are cut; "" at first. GetName: maxLen 0 107000, too short
 * for the name and its end 507000. Ids are unique in the process. DebugPrint writes a line for each
 * recorded call to the program's log (INFO). DebugJsonPrint writes a file for Chrome's and
 * Perfetto's viewers, an array of an object per recorded call; VERBOSE with the arguments of
 * kernels in hex; a file that cannot be written 107000. NULL 100000; a model under capture 107026.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugPrint(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path,
                                                    uint32_t flags);
/*
 * GetStreams gives names of the streams of a model, for aclrtStreamGetId and GetTasksByStream alone
 * (107000 for others), which gives its tasks in order; both also of a nested model. An array that
 * is NULL: only the number; too short: 107039, and filled as far as it reaches; too long: NULLs
 * behind. Names and tasks live as long as the model. Types are those of the enum; a task of type
 * DEFAULT has no parameters (107000). Of a kernel, args count as device memory (isHostArgs 0):
 * aclrtMemcpy reads them, SetParams takes them as they are, nothing writes them, and they are gone
 * with the next change of the task. SetParams changes a value write or wait in device memory, or a
 * kernel, Disable turns a task into nothing (an edge of the graph stays); both take effect with
 * Update, and answer 107040 while the model runs, or a stream has not come to the end of an update
 * window of it yet. For a kernel, arguments are copied (isHostArgs 1:
 * placeholders are filled in again if argsSize is as before) or read from device memory whenever it
 * begins (0), cfg NULL is that of the process, and funcHandle NULL keeps the kernel, if it has no
 * handle. KernelTaskGetAttribute tells the attributes 1, 2 and 6 to 9 of a launch. Models built by
 * hand, nested ones: 207000. Other type than the task's, taskGrp not NULL, memory that is none of
 * the device, args NULL or of size 0, another attribute 107000; the function has ended 107017; NULL
 * 100000.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams,
                                                uint32_t *numStreams);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks,
                                                      uint32_t *numTasks);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskDisable(aclmdlRITask task);
ACL_FUNC_VISIBILITY aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask task,
                                                            aclrtLaunchKernelAttrId attrId,
                                                            aclrtLaunchKernelAttrValue *attrValue);

/*
 * Dumps by a configuration of their own, beside that of aclInit: acl_dump.h says what it may have,
 * and what is dumped. aclmdlInitDump lets aclmdlSetDump be called, whose file replaces what was in
 * force before: one without the object `dump` turns all dumps off, an empty one changes nothing.
 * aclmdlFinalizeDump ends all dumps, also those that aclInit has begun.
 * Errors: before aclInit 100001; aclmdlInitDump twice 100002; the others before it 100045; path
 * NULL 100000; file missing or too large 100003, not an object of JSON 100006, wrong contents
 * 100009: then nothing changes.
 */
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char *dumpCfgPath);
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif
