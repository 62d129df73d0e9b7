/*
 * Profiling: what streams and the program do, with times, in files.
 *
 * A session begins with aclprofInit and ends with aclprofFinalize; within it, aclprofStart and
 * aclprofStop begin and end collection, as often as one likes. What is collected:
 *
 *   times of tasks   of all streams of the configuration's devices, also of those that are made
 *                    meanwhile; with any of ACL_PROF_TASK_TIME, _L0, _L2, _L3 and
 *                    ACL_PROF_TRAINING_TRACE. The streams tell them themselves: behind each task
 *                    npud's engine stores the time. So a task takes two entries of its stream's
 *                    ring, and ids of tasks leave some out, while its times are collected.
 *   calls            which function of the interface which thread was in, from when to when, also
 *                    one that fails, and calls in callbacks inside of others; with ACL_PROF_ACL_API
 *                    or ACL_PROF_RUNTIME_API, which are one layer here. A call then takes about a
 *                    microsecond more. Not those that only compute, or read an object of the
 *                    program, such as aclDataTypeSize and aclGetRecentErrMsg.
 *   steps            as tasks: aclprofGetStepTimestamp
 *   stamps           messages of the program; with ACL_PROF_MSPROFTX. They also go into a trace
 *                    (npuctl trace) and the reports of npud check.
 *
 * Other bits of dataTypeConfig and metrics are accepted, and collect nothing more: a simulated
 * device has no counters.
 *
 * Files: <path>/PROF_<session>_<time>_<pid and 8 letters>/host/trace_<pid>.json and
 * .../device_<N>/trace_<pid>.json, with the N of the program, in Chrome's trace format (Perfetto,
 * chrome://tracing): arrays of events, times in microseconds of CLOCK_MONOTONIC, threads of a
 * device are its streams. An execution of a graph is one task, "model", with its kernels inside of
 * it. Calls stand in the file of the host, threads by their ids. Each write leaves a whole array,
 * one event a line: of a process that is killed, a file lacks what was in memory, up to 64 KiB of
 * events, and if that was in the middle of a write, its last line is cut off. A file that reaches
 * ACL_PROF_STORAGE_LIMIT grows no more. Folders have mode 750.
 *
 * Profiling can begin from outside: the object `profiler` in the configuration of aclInit, of which
 * switch, output, storage_limit, msproftx, task_time, ascendcl and runtime_api have an effect
 * (calls are collected unless the last two are off), and on/off values are checked: wrong ones fail
 * aclInit with 100010. It collects on all devices until the last aclFinalize, in `output`; else
 * below ASCEND_WORK_PATH in profiling_data; else in ACL_PROF_PATH; else in the current folder.
 * aclprofInit, aclprofStart and aclprofStop fail with 100042 then. PROFILER_SAMPLECONFIG, of the
 * vendor's launching tool, has no effect.
 *
 * Threads: any; starting and stopping is one thread at a time. A process that exits in the middle
 * writes what it has. A forked child has no session, and writes nothing into its parent's files.
 * If nothing is collected, calls cost what they cost without profiling.
 */
#ifndef ACL_ACL_PROF_H
#define ACL_ACL_PROF_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a configuration collects, bits of a uint64_t. */
#define ACL_PROF_ACL_API        0x0001ULL
#define ACL_PROF_TASK_TIME      0x0002ULL
#define ACL_PROF_AICORE_METRICS 0x0004ULL
#define ACL_PROF_AICPU          0x0008ULL
#define ACL_PROF_L2CACHE        0x0010ULL
#define ACL_PROF_HCCL_TRACE     0x0020ULL
#define ACL_PROF_TRAINING_TRACE 0x0040ULL
#define ACL_PROF_MSPROFTX       0x0080ULL
#define ACL_PROF_RUNTIME_API    0x0100ULL
#define ACL_PROF_GE_API_L0      0x0200ULL
#define ACL_PROF_TASK_TIME_L0   0x0800ULL
#define ACL_PROF_TASK_MEMORY    0x1000ULL
#define ACL_PROF_TASK_TIME_L2   0x2000ULL
#define ACL_PROF_OP_ATTR        0x4000ULL
#define ACL_PROF_TASK_TIME_L3   0x8000ULL
#define ACL_PROF_GE_API_L1      0x1000000ULL
#define ACL_PROF_API_STATS      0x400000000ULL
#define ACL_PROF_AICORE_SHAPE   0x800000000ULL

#define ACL_PROF_MAX_OP_NAME_LEN       257
#define ACL_PROF_MAX_OP_TYPE_LEN       65
#define ACL_PROF_TENSOR_DATA_SHAPE_LEN 8
#define ACL_PROF_EVENT_ATTR_VERSION    1

typedef enum aclprofAicoreMetrics {
    ACL_AICORE_ARITHMETIC_UTILIZATION = 0,
    ACL_AICORE_PIPE_UTILIZATION = 1,
    ACL_AICORE_MEMORY_BANDWIDTH = 2,
    ACL_AICORE_L0B_AND_WIDTH = 3,
    ACL_AICORE_RESOURCE_CONFLICT_RATIO = 4,
    ACL_AICORE_MEMORY_UB = 5,
    ACL_AICORE_L2_CACHE = 6,
    ACL_AICORE_PIPE_EXECUTE_UTILIZATION = 7,
    ACL_AICORE_MEMORY_ACCESS = 8,
    ACL_AICORE_NONE = 0xFF,
} aclprofAicoreMetrics;

typedef enum aclprofStepTag {
    ACL_STEP_START = 0,
    ACL_STEP_END = 1,
} aclprofStepTag;

typedef enum aclprofSubscribeOpFlag {
    ACL_SUBSCRIBE_OP = 0,
    ACL_SUBSCRIBE_SUBGRAPH = 1,
    ACL_SUBSCRIBE_OP_THREAD = 2,
    ACL_SUBSCRIBE_NONE = 0xFF,
} aclprofSubscribeOpFlag;

typedef enum aclprofSubscribeOpAttri {
    ACL_SUBSCRIBE_ATTRI_THREADID = 0,
    ACL_SUBSCRIBE_ATTRI_NONE = 1,
} aclprofSubscribeOpAttri;

typedef enum aclprofConfigType {
    ACL_PROF_ARGS_MIN = 0,
    ACL_PROF_STORAGE_LIMIT = 1,
    ACL_PROF_SYS_HARDWARE_MEM_FREQ = 3,
    ACL_PROF_LLC_MODE = 4,
    ACL_PROF_SYS_IO_FREQ = 5,
    ACL_PROF_SYS_INTERCONNECTION_FREQ = 6,
    ACL_PROF_DVPP_FREQ = 7,
    ACL_PROF_HOST_SYS = 8,
    ACL_PROF_HOST_SYS_USAGE = 9,
    ACL_PROF_HOST_SYS_USAGE_FREQ = 10,
    ACL_PROF_LOW_POWER_FREQ = 11,
    ACL_PROF_SYS_MEM_SERVICEFLOW = 12,
    ACL_PROF_SYS_CPU_FREQ = 13,
    ACL_PROF_OPTYPE = 14,
    ACL_PROF_NTS_METRICS = 15,
    ACL_PROF_PATH = 16,
    ACL_PROF_ARGS_MAX = 17,
} aclprofConfigType;

typedef enum aclprofMessageType {
    ACL_PROF_MESSAGE_TYPE_TENSOR_INFO = 0,
} aclprofMessageType;

typedef struct aclprofTensor {
    uint32_t type;
    uint32_t format;
    uint32_t dataType;
    uint32_t shapeDim;
    uint32_t shape[ACL_PROF_TENSOR_DATA_SHAPE_LEN];
} aclprofTensor;

typedef struct aclprofTensorInfo {
    uint64_t opNameId;
    uint64_t opTypeId;
    uint32_t resv;
    uint32_t tensorNum;
    uint32_t kernelType;
    uint32_t blockNums;
    aclrtStream stream;
    aclprofTensor *tensors;
} aclprofTensorInfo;

typedef struct aclprofEventAttributes {
    uint16_t version;
    uint16_t size;
    uint32_t messageType; /* aclprofMessageType */
    void *message;        /* aclprofTensorInfo */
} aclprofEventAttributes;

typedef struct aclprofConfig aclprofConfig;
typedef struct aclprofAicoreEvents aclprofAicoreEvents;
typedef struct aclprofStepInfo aclprofStepInfo;
typedef struct aclprofSubscribeConfig aclprofSubscribeConfig;

/*
 * Begins a session below a folder, which is made if it is missing. Errors: path NULL, or length 0,
 * above 4095, or not that of the path 100000; a session is there 100002; the folder cannot be made
 * or written 100003; profiling was begun from outside 100042; PROFILING_MODE is dynamic 200006.
 */
ACL_FUNC_VISIBILITY aclError aclprofInit(const char *profilerResultPath, size_t length);
/* Ends the session, and collection. 0 without one. 100003: a file could not be written. */
ACL_FUNC_VISIBILITY aclError aclprofFinalize(void);
/*
 * What to collect, on which devices. The list is copied; aicoreEvents is NULL; no device: stamps
 * alone. NULL: deviceIdList NULL with deviceNums above 0, a device twice or that there is not,
 * aicoreEvents not NULL, no device without ACL_PROF_MSPROFTX, no npud, or no memory. Freed by
 * aclprofDestroyConfig, which does not stop what it has started (NULL, or destroyed already:
 * 100000).
 */
ACL_FUNC_VISIBILITY aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums,
                                                       aclprofAicoreMetrics aicoreMetrics,
                                                       const aclprofAicoreEvents *aicoreEvents,
                                                       uint64_t dataTypeConfig);
ACL_FUNC_VISIBILITY aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig);
/*
 * A setting of type 1 to 16, as text, before aclprofStart makes the files. Of the settings
 * ACL_PROF_STORAGE_LIMIT has an effect: MB, of each file. Errors: another type, config NULL, length
 * above 256 or not that of config 100000; not a value of that setting 100010.
 */
ACL_FUNC_VISIBILITY aclError aclprofSetConfig(aclprofConfigType configType, const char *config,
                                              size_t configLength);
/*
 * Without a session, begins one in ACL_PROF_PATH, or the current folder. NULL: times of tasks and
 * stamps, all devices. Collected already by an equal configuration: 0, and nothing happens.
 * Errors: a configuration that was destroyed, or collects nothing, or with metrics that there are
 * not 100000; another one is collected 100010; begun from outside 100042; bits that there are not
 * 200007; the files cannot be written 100003.
 */
ACL_FUNC_VISIBILITY aclError aclprofStart(const aclprofConfig *profilerConfig);
/*
 * Writes all that is collected. Tasks that are not over are missing: synchronise first. NULL:
 * whatever is collected. 0 if nothing is. Errors: as aclprofStart.
 */
ACL_FUNC_VISIBILITY aclError aclprofStop(const aclprofConfig *profilerConfig);

/*
 * Subscriptions: how long the operators of a model take, through a pipe, while it is executed. A
 * model is a graph (aclmdlRI) that can be executed, by its id of aclmdlRIGetId; nested ones go with
 * the whole one. An operator is a kernel; copies and functions of the host are none, nor is what is
 * launched outside of the model. Each that has run, in each execution, also one that has failed, is
 * a record; what is discarded before it begins has none.
 *
 * aclprofCreateSubscribeConfig: fd points to the descriptor (an int) of the writing end of a pipe,
 * and is read by aclprofModelSubscribe. timeInfoSwitch not 0: times; with 0, all times are 0, as
 * there are no metrics. NULL for no memory. A subscription needs neither the configuration nor the
 * descriptor any more once it has begun: both may go.
 *
 * aclprofModelSubscribe: records from here on. They come in the order of the kernels' ends. A
 * thread of the library writes them, so that no stream waits for the reader; up to 65,536 wait in
 * memory. Errors: configuration NULL, destroyed, without fd, with a descriptor that cannot be
 * written, or without times and metrics 100000; no such model 100011; subscribed already 148046; a
 * session of aclprofInit or aclprofStart 148047, of aclInit 100042 (while a model is subscribed to,
 * aclprofInit, aclprofStart and aclprofStop answer 148047); another model of the device with
 * another configuration 100010; no thread or descriptor 500005.
 *
 * aclprofModelUnSubscribe: no record comes after it. It writes what is there, as long as the reader
 * makes room at least once a second: so synchronise the streams before it, and read until it has
 * returned. It is due also when the model was destroyed; the last aclFinalize does it, too. Then
 * the pipe ends, once the program has closed its own descriptor. Errors: not subscribed 100011;
 * records were lost, because the reader was too slow or the descriptor failed, 500005. A reader
 * that has closed the pipe is no error, and no SIGPIPE.
 *
 * The reader takes records of the size that aclprofGetOpDescSize tells (512), whole: a read may end
 * in the middle of one. The functions below take a buffer of them. Type: the name of the kernel,
 * cut after 64 bytes. Name: it, "_", and the place of the kernel among the kernels and functions of
 * the host of the model, from 0, in the order of their recording, those of nested models behind: so
 * each operator has its own. Times: microseconds of CLOCK_MONOTONIC when its first block began and
 * its last one had ended, and the difference. Flag: ACL_SUBSCRIBE_OP. Attribute
 * ACL_SUBSCRIBE_ATTRI_THREADID: the id of the thread that led the kernel, as text in the buffer.
 * Errors: buffer NULL, length 0 or no multiple, index behind the end, something else than a record
 * there, room too small for the text, output NULL: 100000 (aclprofGetModelId as its value), 0 for
 * times, ACL_SUBSCRIBE_NONE, NULL.
 */
ACL_FUNC_VISIBILITY aclprofSubscribeConfig *aclprofCreateSubscribeConfig(
    int8_t timeInfoSwitch, aclprofAicoreMetrics aicoreMetrics, void *fd);
ACL_FUNC_VISIBILITY aclError
aclprofDestroySubscribeConfig(const aclprofSubscribeConfig *profSubscribeConfig);
ACL_FUNC_VISIBILITY aclError
aclprofModelSubscribe(uint32_t modelId, const aclprofSubscribeConfig *profSubscribeConfig);
ACL_FUNC_VISIBILITY aclError aclprofModelUnSubscribe(uint32_t modelId);
ACL_FUNC_VISIBILITY aclError aclprofGetOpDescSize(size_t *opDescSize);
ACL_FUNC_VISIBILITY aclError aclprofGetOpNum(const void *opInfo, size_t opInfoLen,
                                             uint32_t *opNumber);
ACL_FUNC_VISIBILITY size_t aclprofGetModelId(const void *opInfo, size_t opInfoLen, uint32_t index);
ACL_FUNC_VISIBILITY aclError aclprofGetOpTypeLen(const void *opInfo, size_t opInfoLen,
                                                 uint32_t index, size_t *opTypeLen);
ACL_FUNC_VISIBILITY aclError aclprofGetOpType(const void *opInfo, size_t opInfoLen, uint32_t index,
                                              char *opType, size_t opTypeLen);
ACL_FUNC_VISIBILITY aclError aclprofGetOpNameLen(const void *opInfo, size_t opInfoLen,
                                                 uint32_t index, size_t *opNameLen);
ACL_FUNC_VISIBILITY aclError aclprofGetOpName(const void *opInfo, size_t opInfoLen, uint32_t index,
                                              char *opName, size_t opNameLen);
ACL_FUNC_VISIBILITY uint64_t aclprofGetOpStart(const void *opInfo, size_t opInfoLen,
                                               uint32_t index);
ACL_FUNC_VISIBILITY uint64_t aclprofGetOpEnd(const void *opInfo, size_t opInfoLen, uint32_t index);
ACL_FUNC_VISIBILITY uint64_t aclprofGetOpDuration(const void *opInfo, size_t opInfoLen,
                                                  uint32_t index);
ACL_FUNC_VISIBILITY aclprofSubscribeOpFlag aclprofGetOpFlag(const void *opInfo, size_t opInfoLen,
                                                            uint32_t index);
ACL_FUNC_VISIBILITY const char *aclprofGetOpAttriValue(const void *opInfo, size_t opInfoLen,
                                                       uint32_t index,
                                                       aclprofSubscribeOpAttri attri);

/*
 * Steps: a time in the order of a stream for the start, and one for the end, which may be another
 * stream's. Numbered in the order of starts. 0 also if no times are collected: then nothing is
 * told. Errors of aclprofGetStepTimestamp: stepInfo NULL or destroyed, stream NULL, a tag twice or
 * that there is not 100000; those of submissions to a stream. NULL for no memory.
 */
ACL_FUNC_VISIBILITY aclprofStepInfo *aclprofCreateStepInfo(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStepInfo(aclprofStepInfo *stepInfo);
ACL_FUNC_VISIBILITY aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag,
                                                     aclrtStream stream);

/*
 * Stamps. All need collection with ACL_PROF_MSPROFTX, but for aclprofStr2Id and the two that need
 * none to undo: else -1, or NULL. A stamp has a message; a process has 100 of them.
 *
 * aclprofSetStampTraceMessage: at most 127 bytes; -1 for NULL, more, or no stamp.
 * aclprofMark: this moment. aclprofPush, aclprofPop: a range of the calling thread, at most 64 in
 * each other; Pop without Push: -1. aclprofRangeStart, aclprofRangeStop: a range of the process,
 * which another thread may end; an id that there is not: -1. A stamp may be used again at once: a
 * range has a copy of the message. stamp or rangeId NULL: 100000. Ranges that are open when
 * collection stops are not written.
 * aclprofMarkEx: this moment, and the one at which the stream gets there; msg at most 155 bytes,
 * msgLen its length; -1 for all errors.
 * aclprofRangePushEx, aclprofRangePop: one range of the process around a launch; the last Push
 * counts. It is named by opNameId. attr NULL, or Pop without Push: 100000; another messageType: -1.
 * aclprofStr2Id: a hash of the text, which is remembered for names; UINT64_MAX for NULL.
 */
ACL_FUNC_VISIBILITY void *aclprofCreateStamp(void);
ACL_FUNC_VISIBILITY void aclprofDestroyStamp(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofSetStampTraceMessage(void *stamp, const char *msg,
                                                         uint32_t msgLen);
ACL_FUNC_VISIBILITY aclError aclprofMark(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclprofPush(void *stamp);
ACL_FUNC_VISIBILITY aclError aclprofPop(void);
ACL_FUNC_VISIBILITY aclError aclprofRangeStart(void *stamp, uint32_t *rangeId);
ACL_FUNC_VISIBILITY aclError aclprofRangeStop(uint32_t rangeId);
ACL_FUNC_VISIBILITY aclError aclprofRangePushEx(aclprofEventAttributes *attr);
ACL_FUNC_VISIBILITY aclError aclprofRangePop(void);
ACL_FUNC_VISIBILITY uint64_t aclprofStr2Id(const char *message);

#ifdef __cplusplus
}
#endif

#endif
