/*
 * Dumps: what was in memory when a kernel failed, or before and after each kernel; tensors that the
 * program gives; and arguments of kernels.
 *
 * Exception dumps are turned on by dump_scene in the object `dump` of the configuration of aclInit
 * or aclmdlSetDump, or by ASCEND_DUMP_SCENE when aclInit has no such object: aic_err_brief_dump or
 * lite_exception (the arguments), aic_err_norm_dump or aic_err_detail_dump (also the memory that
 * words of the arguments are addresses of, up to 64 MiB of each allocation); watcher is accepted,
 * and dumps nothing. When a kernel fails, before the exception callback is called, a file
 * exception_info.<stream>.<task>.<milliseconds> is written, and the kernel's file is copied beside
 * it. The folder is <root>/extra-info/data-dump/<device>/; the root is the first that is set of
 * NPU_COLLECT_PATH, ASCEND_WORK_PATH, dump_path, and the current folder. Missing folders are made
 * with mode 750.
 *
 * A dump of data is on with dump_op_switch "on", for kernels that are launched (operators of aclnn
 * among them), and with dump_list, for kernels of models (aclmdlRI), and writes files below
 * <dump_path>/<device>/ (the root as above):
 *
 *   <kernel>.<stream>.<task>.<microseconds>.<when>
 *   <model>.<model id>/<execution>/<kernel>_<place>.<stream>.<task>.<microseconds>.<when>
 *
 * with slashes of names as "_". dump_mode says when: "input" is what there was before the kernel
 * began, "output" (the default) what there is when it has ended well, "all" both. Either has the
 * arguments, and the memory that words of them are addresses of, as an exception dump has it: a
 * kernel does not say what it reads, and what it writes. With dump_data "stats", the bytes of
 * memory are left out, and their number is told: statistics need types, which arguments do not
 * have. dump_list is an array of objects {model_name, layer}: the name of aclmdlRISetName (absent:
 * any model), and names of kernels, or <kernel>_<place> (absent or empty: all). <place> is that of
 * the kernel among the kernels and functions of the host of its model, and executions of a model
 * are counted from 0, whether they are dumped or not; dump_step chooses some, as "0|2|5-9". Copies
 * and other tasks are not dumped. A stream goes on when the file of its kernel is written.
 *
 * dump_debug "on" asks for overflows: npud simulates no saturation (aclrtGetOverflowStatus tells
 * none), so there are none to dump. Such a dump is on, as acldumpGetPath tells, and stays empty;
 * infinities are seen in a dump of data.
 *
 * Other values of these keys are wrong contents (100009), and so are those of dump_path (a string;
 * needed unless dump_scene is there), of dump_kernel_data (all, printf, tensor, assert, timestamp,
 * several with commas; without an effect), and dump_scene together with dump_debug "on". With
 * dump_scene, nothing else is dumped.
 *
 * All files are made of parts: a line of JSON, whose member `bytes` says how many bytes follow,
 * these bytes, and a newline. The first part says what the file is. What cannot be written is told
 * to nobody.
 */
#ifndef ACL_ACL_DUMP_H
#define ACL_ACL_DUMP_H

#include <stddef.h>
#include <stdint.h>

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_DUMP_MAX_FILE_PATH_LENGTH 4096
#define ACL_DUMP_MAX_SHAPE_NUM        25
#define ACL_OP_DUMP_OP_AICORE_ARGS    0x00000001U

typedef enum acldumpType {
    AIC_ERR_BRIEF_DUMP = 1,
    AIC_ERR_NORM_DUMP = 2,
    AIC_ERR_DETAIL_DUMP = 3,
    DATA_DUMP = 4,
    OVERFLOW_DUMP = 5,
} acldumpType;

typedef enum acldumpTensorType {
    ACL_DUMP_TENSOR_INPUT = 0,
    ACL_DUMP_TENSOR_OUTPUT = 1,
    ACL_DUMP_TENSOR_WORKSPACE = 2,
} acldumpTensorType;

/* What an address of a tensor is. */
typedef enum acldumpTensorAddressType {
    ACL_DUMP_ADDR_PTR = 0,
    ACL_DUMP_ADDR_PTR_PTR = 1, /* of a word that holds the address */
    ACL_DUMP_ADDR_RAW = 2,
} acldumpTensorAddressType;

typedef enum acldumpTensorPlacement {
    ACL_DUMP_PLACEMENT_DEVICE = 0,
    ACL_DUMP_PLACEMENT_HOST = 1,
    ACL_DUMP_PLACEMENT_END = 2, /* filler */
} acldumpTensorPlacement;

/* A piece of a dump file on its way to the program; bufLen bytes follow it. */
typedef struct acldumpChunk {
    char fileName[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    uint32_t bufLen;
    uint32_t isLastChunk;
    int64_t offset; /* in the file; -1: at its end */
    int32_t flag;
    __extension__ uint8_t dataBuf[0];
} acldumpChunk;

typedef struct acldumpTensorInfo {
    acldumpTensorType type;
    size_t tensorSize; /* bytes */
    int32_t format;    /* aclFormat */
    int32_t dataType;  /* aclDataType */
    int64_t *tensorAddr;
    acldumpTensorAddressType addrType;
    acldumpTensorPlacement placement;
    uint32_t argsOffset;
    uint32_t shapeNum;
    uint32_t originShapeNum;
    int64_t shape[ACL_DUMP_MAX_SHAPE_NUM];
    int64_t originShape[ACL_DUMP_MAX_SHAPE_NUM];
} acldumpTensorInfo;

/*
 * Dumps go to a function of the program from now on, in pieces, and not into files: fileName is the
 * path that the file would have; the pieces of a file come in order, by one thread, of at most 1
 * MiB each; the second argument is sizeof(acldumpChunk) + bufLen. If it does not return 0, the rest
 * of the file is not given. The last one that was registered counts. It may run in a thread of the
 * library. Errors: messageCallback NULL, or flag not 0: 500001.
 */
ACL_FUNC_VISIBILITY aclError
acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk *, int32_t), int32_t flag);
ACL_FUNC_VISIBILITY void acldumpUnregCallback(void);

/*
 * Arguments of the kernels that are launched from now on, below path, which is made if it is
 * missing: one file <name>.<size>.args for each name of a kernel and size of its arguments.
 * Errors: path NULL or empty, not to be made or written, dumpType without
 * ACL_OP_DUMP_OP_AICORE_ARGS, or begun already: 500001. aclopStopDumpArgs: 0 also if it was not
 * begun.
 */
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

/*
 * The root folder of one kind of dump; NULL: that kind is off, or there is none such. The library's
 * memory: the next call for the same kind may change it.
 */
ACL_FUNC_VISIBILITY const char *acldumpGetPath(acldumpType dumpType);

/*
 * Saves tensors, as they are now, to <folder>/<fileName>.custom.<milliseconds>, of a later time if
 * there is such a file; for use in an exception callback. Memory that cannot be read is noted, and
 * the others are written. opName may be NULL. Errors: fileName NULL, empty, or with ".." or a
 * slash, tensors NULL, tensorNum 0 or above 4096: 100000; no exception dump is on, or the file
 * cannot be written: 500001.
 *
 * acldumpGetExceptionInfoPath: that folder, with a slash at its end, of the current device; 0 if
 * the thread has none. Errors: path NULL, length at most 1 or too small 100000; off 500001.
 */
ACL_FUNC_VISIBILITY aclError acldumpSaveExceptionInfo(const char *fileName, const char *opName,
                                                      const acldumpTensorInfo *tensors,
                                                      size_t tensorNum);
ACL_FUNC_VISIBILITY aclError acldumpGetExceptionInfoPath(char *path, size_t length);

#ifdef __cplusplus
}
#endif

#endif
