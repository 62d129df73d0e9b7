/*
 * Dump of tensors and of the arguments of operators. npud runs no kernels, so it has nothing to
 * dump: the functions can be linked, and answer ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
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

/* Pieces of dump files to a function of the program; 0 from it: it has taken the piece. */
ACL_FUNC_VISIBILITY aclError
acldumpRegCallback(int32_t (*const messageCallback)(const acldumpChunk *, int32_t), int32_t flag);
ACL_FUNC_VISIBILITY void acldumpUnregCallback(void);

/* Arguments of operators into files below path. */
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

/* The folder of one kind of dump; always NULL. */
ACL_FUNC_VISIBILITY const char *acldumpGetPath(acldumpType dumpType);

/* What is saved about an operator that failed. */
ACL_FUNC_VISIBILITY aclError acldumpSaveExceptionInfo(const char *opName, const char *fileName,
                                                      const acldumpTensorInfo *tensors,
                                                      size_t tensorNum);
ACL_FUNC_VISIBILITY aclError acldumpGetExceptionInfoPath(char *path, size_t length);

#ifdef __cplusplus
}
#endif

#endif
