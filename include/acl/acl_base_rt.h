/* Base types, API-layer error codes, data types, and the data-buffer, float16 and log helpers. */
#ifndef ACL_ACL_BASE_RT_H
#define ACL_ACL_BASE_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks the functions of the library; define FUNC_VISIBILITY where they are built for export. */
#if defined(FUNC_VISIBILITY) && defined(_MSC_VER)
#define ACL_FUNC_VISIBILITY __declspec(dllexport)
#elif defined(FUNC_VISIBILITY)
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#else
#define ACL_FUNC_VISIBILITY
#endif

#if defined(__GNUC__) && __GNUC__ >= 6
#define ACL_DEPRECATED              __attribute__((deprecated))
#define ACL_DEPRECATED_MESSAGE(msg) __attribute__((deprecated(msg)))
#elif defined(__clang__)
#define ACL_DEPRECATED              __attribute__((deprecated))
#define ACL_DEPRECATED_MESSAGE(msg) __attribute__((deprecated(msg)))
#elif defined(_MSC_VER)
#define ACL_DEPRECATED              __declspec(deprecated)
#define ACL_DEPRECATED_MESSAGE(msg) __declspec(deprecated(msg))
#else
#define ACL_DEPRECATED
#define ACL_DEPRECATED_MESSAGE(msg)
#endif

/* Every function that returns aclError returns 0 on success and a code below otherwise. */
typedef int aclError;

/* The bit pattern of an IEEE 754 half precision number. */
typedef uint16_t aclFloat16;

/*
 * Handles. They are opaque, belong to the process that got them, and mean nothing elsewhere. A NULL
 * aclrtStream stands for the default stream of the calling thread's current context.
 */
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtNotify;
typedef void *aclrtCntNotify;
typedef void *aclrtLabel;
typedef void *aclrtLabelList;
typedef void *aclrtMbuf;
typedef void *aclrtTaskGrp;
typedef void *aclmdlRI;
typedef void *aclmdlRITask;
typedef void *aclmdlRICondHandle;
typedef void *aclrtDrvMemHandle;
typedef void *aclrtBinary;
typedef void *aclrtBinHandle;
typedef void *aclrtFuncHandle;
typedef void *aclrtArgsHandle;
typedef void *aclrtParamHandle;
typedef void *aclrtAllocator;
typedef void *aclrtAllocatorDesc;
typedef void *aclrtAllocatorBlock;
typedef void *aclrtAllocatorAddr;

typedef struct aclDataBuffer aclDataBuffer;

/*
 * Error codes of the API layer, which checks pointers, enumerators and reserved arguments before
 * anything else. The codes of the runtime layer below it are in error_codes/rt_error_codes.h; the
 * same mistake may give 100000 in one function and 107000 in another, so compare with ACL_SUCCESS.
 */

/* Older alias of success. */
static const int ACL_ERROR_NONE = 0;
/* Call worked. */
static const int ACL_SUCCESS = 0;

/* Bad argument caught by the API layer (NULL, bad enum, non-zero reserved field). */
static const int ACL_ERROR_INVALID_PARAM = 100000;
/* Component used before initialisation. */
static const int ACL_ERROR_UNINITIALIZE = 100001;
/* aclInit called again while active (harmless, still counted). */
static const int ACL_ERROR_REPEAT_INITIALIZE = 100002;
/* File missing, unreadable, not regular, or too big. */
static const int ACL_ERROR_INVALID_FILE = 100003;
/* Writing a file failed. */
static const int ACL_ERROR_WRITE_FILE = 100004;
/* File has an unacceptable size. */
static const int ACL_ERROR_INVALID_FILE_SIZE = 100005;
/* JSON text is malformed or nested too deeply. */
static const int ACL_ERROR_PARSE_FILE = 100006;
/* Required key absent from a file. */
static const int ACL_ERROR_FILE_MISSING_ATTR = 100007;
/* Key present but value unacceptable. */
static const int ACL_ERROR_FILE_ATTR_INVALID = 100008;
/* Dump section of the configuration is wrong. */
static const int ACL_ERROR_INVALID_DUMP_CONFIG = 100009;
/* Profiling section of the configuration is wrong. */
static const int ACL_ERROR_INVALID_PROFILING_CONFIG = 100010;
/* No model with this id. */
static const int ACL_ERROR_INVALID_MODEL_ID = 100011;
/* Model blob could not be decoded. */
static const int ACL_ERROR_DESERIALIZE_MODEL = 100012;
/* Model structure could not be interpreted. */
static const int ACL_ERROR_PARSE_MODEL = 100013;
/* Model could not be read. */
static const int ACL_ERROR_READ_MODEL_FAILURE = 100014;
/* Model size out of bounds. */
static const int ACL_ERROR_MODEL_SIZE_INVALID = 100015;
/* Model lacks a needed attribute. */
static const int ACL_ERROR_MODEL_MISSING_ATTR = 100016;
/* Given inputs do not fit the model. */
static const int ACL_ERROR_MODEL_INPUT_NOT_MATCH = 100017;
/* Given outputs do not fit the model. */
static const int ACL_ERROR_MODEL_OUTPUT_NOT_MATCH = 100018;
/* Dynamic-shape call on a static model. */
static const int ACL_ERROR_MODEL_NOT_DYNAMIC = 100019;
/* Single-operator type differs. */
static const int ACL_ERROR_OP_TYPE_NOT_MATCH = 100020;
/* Single-operator inputs differ. */
static const int ACL_ERROR_OP_INPUT_NOT_MATCH = 100021;
/* Single-operator outputs differ. */
static const int ACL_ERROR_OP_OUTPUT_NOT_MATCH = 100022;
/* Single-operator attributes differ. */
static const int ACL_ERROR_OP_ATTR_NOT_MATCH = 100023;
/* No such operator. */
static const int ACL_ERROR_OP_NOT_FOUND = 100024;
/* Operator could not be loaded. */
static const int ACL_ERROR_OP_LOAD_FAILED = 100025;
/* Data type cannot be used here. */
static const int ACL_ERROR_UNSUPPORTED_DATA_TYPE = 100026;
/* Tensor format differs. */
static const int ACL_ERROR_FORMAT_NOT_MATCH = 100027;
/* Kernel selector callback missing. */
static const int ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED = 100028;
/* Kernel missing or not registered. */
static const int ACL_ERROR_KERNEL_NOT_FOUND = 100029;
/* Kernel selector callback set twice. */
static const int ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED = 100030;
/* Kernel registered twice. */
static const int ACL_ERROR_KERNEL_ALREADY_REGISTERED = 100031;
/* No queue with this id. */
static const int ACL_ERROR_INVALID_QUEUE_ID = 100032;
/* Thread/stream already subscribed. */
static const int ACL_ERROR_REPEAT_SUBSCRIBE = 100033;
/* Stream has no callback subscription. */
static const int ACL_ERROR_STREAM_NOT_SUBSCRIBE = 100034;
/* Thread has no callback subscription. */
static const int ACL_ERROR_THREAD_NOT_SUBSCRIBE = 100035;
/* Waiting for a host callback timed out. */
static const int ACL_ERROR_WAIT_CALLBACK_TIMEOUT = 100036;
/* Finalize called again with nothing active. */
static const int ACL_ERROR_REPEAT_FINALIZE = 100037;
/* Static image preprocessing config absent. */
static const int ACL_ERROR_NOT_STATIC_AIPP = 100038;
/* Link-time stub library used at run time. */
static const int ACL_ERROR_COMPILING_STUB_MODE = 100039;
/* Resource group was not selected. */
static const int ACL_ERROR_GROUP_NOT_SET = 100040;
/* Resource group does not exist. */
static const int ACL_ERROR_GROUP_NOT_CREATE = 100041;
/* Profiling is already active. */
static const int ACL_ERROR_PROF_ALREADY_RUN = 100042;
/* Profiling was not started. */
static const int ACL_ERROR_PROF_NOT_RUN = 100043;
/* Dump is already active. */
static const int ACL_ERROR_DUMP_ALREADY_RUN = 100044;
/* Dump was not started. */
static const int ACL_ERROR_DUMP_NOT_RUN = 100045;

/* Same model subscribed to profiling twice. */
static const int ACL_ERROR_PROF_REPEAT_SUBSCRIBE = 148046;
/* Two profiling interfaces used at once. */
static const int ACL_ERROR_PROF_API_CONFLICT = 148047;
/* Operator cache length setting is wrong. */
static const int ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG = 148048;
/* Operator package path variable unset or wrong. */
static const int ACL_ERROR_INVALID_OPP_PATH = 148049;
/* Operator has no dynamic-shape support. */
static const int ACL_ERROR_OP_UNSUPPORTED_DYNAMIC = 148050;
/* Dependent resource must be freed first. */
static const int ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED = 148051;
/* JPEG variant not decodable. */
static const int ACL_ERROR_UNSUPPORTED_JPEG = 148052;
/* No model bundle with this id. */
static const int ACL_ERROR_INVALID_BUNDLE_MODEL_ID = 148053;

/* Host allocation failed in the API layer. */
static const int ACL_ERROR_BAD_ALLOC = 200000;
/* Function exists but is not available here. */
static const int ACL_ERROR_API_NOT_SUPPORT = 200001;
/* Device cannot be used. */
static const int ACL_ERROR_INVALID_DEVICE = 200002;
/* Address misses required alignment. */
static const int ACL_ERROR_MEMORY_ADDRESS_UNALIGNED = 200003;
/* Resources do not belong together. */
static const int ACL_ERROR_RESOURCE_NOT_MATCH = 200004;
/* Resource handle is not valid. */
static const int ACL_ERROR_INVALID_RESOURCE_HANDLE = 200005;
/* Option exists but is not available (e.g. peer access flags != 0). */
static const int ACL_ERROR_FEATURE_UNSUPPORTED = 200006;
/* Profiling module not available. */
static const int ACL_ERROR_PROF_MODULES_UNSUPPORTED = 200007;

/* Storage quota reached. */
static const int ACL_ERROR_STORAGE_OVER_LIMIT = 300000;

/* Unclassified fault of the library. */
static const int ACL_ERROR_INTERNAL_ERROR = 500000;
/* Generic failure of the API layer. */
static const int ACL_ERROR_FAILURE = 500001;
/* Generic failure of the graph engine. */
static const int ACL_ERROR_GE_FAILURE = 500002;
/* Generic failure of the runtime layer. */
static const int ACL_ERROR_RT_FAILURE = 500003;
/* Generic failure of the driver. */
static const int ACL_ERROR_DRV_FAILURE = 500004;
/* Generic failure of profiling. */
static const int ACL_ERROR_PROFILING_FAILURE = 500005;

typedef enum aclDataType {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
    ACL_INT4 = 29,
    ACL_UINT1 = 30,
    ACL_COMPLEX32 = 33,
    ACL_HIFLOAT8 = 34,
    ACL_FLOAT8_E5M2 = 35,
    ACL_FLOAT8_E4M3FN = 36,
    ACL_FLOAT8_E8M0 = 37,
    ACL_FLOAT6_E3M2 = 38,
    ACL_FLOAT6_E2M3 = 39,
    ACL_FLOAT4_E2M1 = 40,
    ACL_FLOAT4_E1M2 = 41,
} aclDataType;

/* Layouts of tensors in memory. */
typedef enum aclFormat {
    ACL_FORMAT_UNDEFINED = -1,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_ND = 2,
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_FRACTAL_Z = 4,
    ACL_FORMAT_NC1HWC0_C04 = 12,
    ACL_FORMAT_HWCN = 16,
    ACL_FORMAT_NDHWC = 27,
    ACL_FORMAT_FRACTAL_NZ = 29,
    ACL_FORMAT_NCDHW = 30,
    ACL_FORMAT_NDC1HWC0 = 32,
    ACL_FRACTAL_Z_3D = 33,
    ACL_FORMAT_NC = 35,
    ACL_FORMAT_NCL = 47,
    ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
    ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
    ACL_FORMAT_FRACTAL_NZ_C0_2 = 52,
    ACL_FORMAT_FRACTAL_NZ_C0_4 = 53,
    ACL_FORMAT_FRACTAL_NZ_C0_8 = 54,
} aclFormat;

typedef enum aclLogLevel {
    ACL_DEBUG = 0,
    ACL_INFO = 1,
    ACL_WARNING = 2,
    ACL_ERROR = 3,
} aclLogLevel;

typedef enum aclMemType {
    ACL_MEMTYPE_DEVICE = 0,
    ACL_MEMTYPE_HOST = 1,
    ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2,
} aclMemType;

typedef enum aclSysParamOpt {
    ACL_OPT_DETERMINISTIC = 0, /* takes 0..3, the others 0..1 */
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
    ACL_OPT_STRONG_CONSISTENCY = 2, /* deprecated */
    ACL_OPT_ENABLE_KERNEL_EARLY_START = 3,
} aclSysParamOpt;

typedef enum aclCannAttr {
    ACL_CANN_ATTR_UNDEFINED = -1,
    ACL_CANN_ATTR_INF_NAN = 0,
    ACL_CANN_ATTR_BF16 = 1,
    ACL_CANN_ATTR_JIT_COMPILE = 2,
} aclCannAttr;

typedef enum aclDeviceInfo {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2, /* bytes */
} aclDeviceInfo;

/*
 * Bytes of one element of dataType. ACL_DT_UNDEFINED and ACL_STRING give 0; types narrower than a
 * byte that have a place of their own (ACL_INT4, ACL_UINT1) give 1; numbers that are not listed,
 * and the 6-bit and 4-bit floating point types, give 8.
 */
ACL_FUNC_VISIBILITY size_t aclDataTypeSize(aclDataType dataType);

/*
 * Widens a half precision number exactly. npud follows IEEE 754 for all inputs, also where other
 * implementations read exponent 31 as an ordinary one: 0x7C00 gives infinity, and NaN stays NaN
 * with its sign and payload.
 */
ACL_FUNC_VISIBILITY float aclFloat16ToFloat(aclFloat16 value);

/*
 * Narrows to half precision, rounding to nearest with ties to even; subnormal results are kept.
 * There is no overflow to infinity: values that are too large, infinities and NaN become the
 * largest finite number of their sign, 0x7BFF or 0xFBFF.
 */
ACL_FUNC_VISIBILITY aclFloat16 aclFloatToFloat16(float value);

/*
 * Makes a small record of an address and a size in bytes. The data is neither looked at nor owned;
 * NULL and 0 are allowed. Returns NULL only when memory is short. Give the record back with
 * aclDestroyDataBuffer. Two threads that use one record need a lock of their own.
 */
ACL_FUNC_VISIBILITY aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);

/* Frees the record, never the data. Errors: NULL 100000. */
ACL_FUNC_VISIBILITY aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);

/* Replaces address and size of an existing record. Errors: dataBuffer NULL 100000. */
ACL_FUNC_VISIBILITY aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data,
                                                 size_t size);

/* The address in the record; NULL for a NULL record. */
ACL_FUNC_VISIBILITY void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer);

/* Deprecated: the size cut to its low 32 bits. Use aclGetDataBufferSizeV2. */
ACL_FUNC_VISIBILITY uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer);

/* The size in bytes; 0 for a NULL record. */
ACL_FUNC_VISIBILITY size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer);

/*
 * Writes one line with level, function, file, line and the printf-style message to standard error,
 * or to standard output if ASCEND_SLOG_PRINT_TO_STDOUT is 1. Messages below the level in
 * ASCEND_GLOBAL_LOG_LEVEL are dropped: 0 debug, 1 info, 2 warning, 3 error, 4 none; 3 if it is not
 * set, or anything else. Both are read from the environment when the first message comes. About
 * 1 KiB of the message is kept; a longer one is cut and marked. A call with func, file or fmt NULL
 * does nothing. Any thread may call; errno is preserved. Usually called by ACL_APP_LOG.
 */
ACL_FUNC_VISIBILITY void aclAppLog(aclLogLevel logLevel, const char *func, const char *file,
                                   uint32_t line, const char *fmt, ...);

/* ACL_APP_LOG(level, fmt, ...): aclAppLog with the place of the call. */
#define ACL_APP_LOG(level, ...) aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)

/*
 * Name of the chip, owned by the library and valid as long as the process. npud tells it; where no
 * npud is, the environment variable NPUD_SOC_NAME does, for programs that only compile for a chip.
 * NULL when neither does. Needs neither aclInit nor a context.
 */
ACL_FUNC_VISIBILITY const char *aclrtGetSocName(void);

/*
 * What the installation can do: the attributes that are available, in a list of the library's, and
 * whether one is (1 or 0). npud has INF_NAN and BF16, and no compiler. Rarely used.
 * Errors: NULL, unknown attribute 100000.
 */
ACL_FUNC_VISIBILITY aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num);
ACL_FUNC_VISIBILITY aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value);

/*
 * Static data of a chip, as aclrtGetDeviceInfo has them: rarely used. Errors: NULL, unknown item,
 * no such device 100000; npud cannot be asked 500000.
 */
ACL_FUNC_VISIBILITY aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo,
                                                    int64_t *value);

#ifdef __cplusplus
}
#endif

#endif
