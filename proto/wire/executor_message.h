/*
 * Messages between npud and an executor, over a SOCK_SEQPACKET pair: proto/util/fd_message.h. npud
 * asks, the executor answers each request once, in any order. npud trusts no answer more than a
 * client's request.
 *
 * The executor is started with the socket as descriptor 3. The first request is HELLO.
 *
 * npud names memory, host pages and binaries by handles, which it never uses twice: a slot below
 * EXECUTOR_HANDLES in the low half, and a number other than 0 in the high half.
 */
#pragma once

#include <stdint.h>

#define EXECUTOR_HANDLES     65536u
#define EXECUTOR_TOKEN_BYTES 64u
#define EXECUTOR_NAME_BYTES  256u
#define EXECUTOR_FUNCTIONS   65536u /* numbers that functions of a binary may have */
#define EXECUTOR_DEVICES     16u
#define EXECUTOR_SOCKET      3
#define EXECUTOR_LIST_MOST   512u /* handles behind an answer */

/*
 * What there is to ask. In the comments: what is in the request -> what is in the answer; `+ fd`
 * where a descriptor goes along.
 */
enum executor_request_op {
    /* value: EXECUTOR_VERSION; + fds of ring (for reading) and page -> devices in `value` */
    EXECUTOR_HELLO = 1,
    /* device -> what it is: struct executor_device_info behind the answer */
    EXECUTOR_DEVICE_INFO,
    /* device; + an eventfd to write when a task on it is over and awaited. Use it -> */
    EXECUTOR_DEVICE_BEGIN,
    /* device -> : nothing of it is used any more; all memory of it is gone */
    EXECUTOR_DEVICE_END,
    /* device, handle, size -> address, size (at least what was asked for) */
    EXECUTOR_MEMORY_NEW,
    /*
     * handle: new, imported, host pages or a binary. Work that has begun comes to its end first. No
     * answer
     */
    EXECUTOR_MEMORY_FREE,
    /* handle, device -> token, + fd if the library shares by descriptors */
    EXECUTOR_MEMORY_EXPORT,
    /* handle of what was exported, value: a pid that may import it -> */
    EXECUTOR_MEMORY_ALLOW,
    /* handle, device, size, token, + fd if there was one -> address, size */
    EXECUTOR_MEMORY_IMPORT,
    /* handle, size; + memfd: pages of the host. No answer: work with them fails if it failed */
    EXECUTOR_HOST_ATTACH,
    /*
     * handle, device, size, value: 0 or what its kernels are for (ACL_RT_BINARY_MAGIC_*); + memfd
     * with the file of a binary, from its begin on ->
     */
    EXECUTOR_BINARY_LOAD,
    /* handle of a binary, name of a function, value: its number from then on. May come again -> */
    EXECUTOR_FUNCTION,
    /* lane in value: make its thread. No answer */
    EXECUTOR_LANE_BEGIN,
    /*
     * lane in value: end what it does, and begin no task there up to the number in size. -> when
     * the device has ended it
     */
    EXECUTOR_LANE_ABORT,
    /* device -> temperature and the like: struct executor_health behind the answer */
    EXECUTOR_HEALTH,
    /*
     * value: a slot -> all handles from there on, behind the answer: as many as `more` says, and in
     * `value` where to go on
     */
    EXECUTOR_LIST,
    EXECUTOR_REQUESTS
};

struct executor_request {
    uint32_t op; /* enum executor_request_op */
    uint32_t device;
    uint64_t number; /* of the request: 1, 2, ...; executor_task.after counts by it */
    uint64_t handle;
    uint64_t size;
    uint64_t value;
    char token[EXECUTOR_TOKEN_BYTES];
    char name[EXECUTOR_NAME_BYTES];
};

struct executor_answer {
    uint32_t op;
    int32_t code; /* 0, or an ACL error; `text` says more */
    uint64_t number;
    uint64_t handle;
    uint64_t address;
    uint64_t size;
    uint64_t value;
    uint32_t more; /* EXECUTOR_LIST: handles behind it */
    uint32_t reserved;
    char token[EXECUTOR_TOKEN_BYTES];
    char text[128];
};

/** What a device can do. A bit is set when it was seen to work. */
#define EXECUTOR_CAN_SHARE    0x0001u /* memory by EXPORT and IMPORT between executors */
#define EXECUTOR_CAN_FD       0x0002u /* by descriptors */
#define EXECUTOR_CAN_REGISTER 0x0004u /* pages of the host are registered */
#define EXECUTOR_CAN_SET      0x0008u
#define EXECUTOR_CAN_REDUCE   0x0010u
#define EXECUTOR_CAN_WORD     0x0020u /* value writes of the library */
#define EXECUTOR_CAN_ABORT    0x0040u
#define EXECUTOR_CAN_KERNEL   0x0080u
#define EXECUTOR_CAN_PEER     0x0100u
#define EXECUTOR_CAN_HEALTH   0x0200u

struct executor_device_info {
    char name[64];    /* of the chip */
    char version[64]; /* of library and driver, in words */
    char bus[32];
    uint8_t uuid[16];
    uint64_t memory, free; /* bytes */
    uint64_t granularity;  /* of what can be shared */
    uint64_t capabilities; /* EXECUTOR_CAN_* */
};

struct executor_health {
    int32_t temperature; /* degrees; INT32_MIN: not known */
    int32_t power;       /* milliwatts; the same */
    int32_t busy;        /* percent; the same */
    uint32_t errors;     /* of memory, uncorrected */
};
