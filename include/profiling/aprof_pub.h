/*
 * The profiler's interface for libraries that report what they do: libprofapi.so. It is declared
 * and there so that such libraries build, link and go on; what they report is accepted and goes
 * nowhere, as with the vendor's library while nothing is collected. npud's profiles are those of
 * acl/acl_prof.h, for which no library has to report anything.
 *
 * All functions may be called from any thread, at any time.
 */
#ifndef PROFILING_APROF_PUB_H
#define PROFILING_APROF_PUB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSVP_PROF_API __attribute__((visibility("default")))

typedef void *VOID_PTR;

/* First member of all reports. */
#define MSPROF_REPORT_DATA_MAGIC_NUM 0x5A5AU

/* Who reports. */
#define MSPROF_REPORT_ACL_LEVEL       20000U
#define MSPROF_REPORT_MODEL_LEVEL     15000U
#define MSPROF_REPORT_NODE_LEVEL      10000U
#define MSPROF_REPORT_HCCL_NODE_LEVEL 5500U
#define MSPROF_REPORT_RUNTIME_LEVEL   5000U

/* A call. Times are of MsprofSysCycleTime(). */
struct MsprofApi {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint32_t reserve;
    uint64_t beginTime;
    uint64_t endTime;
    uint64_t itemId; /* of MsprofGetHashId() */
};

/* A module learns when collection begins and ends. npud never calls it. */
typedef int32_t (*MsprofCtrlHandle)(uint32_t type, void *data, uint32_t len);
typedef MsprofCtrlHandle ProfCommandHandle;

/* A clock that goes on: nanoseconds of CLOCK_MONOTONIC. */
MSVP_PROF_API uint64_t MsprofSysCycleTime(void);

/* A hash of `length` bytes, or of a string: the same for the same text. 0 for NULL. */
MSVP_PROF_API uint64_t MsprofGetHashId(const char *hashInfo, size_t length);
MSVP_PROF_API uint64_t MsprofStr2Id(const char *hashInfo, size_t length);

/* All of these return 0, and do nothing more. */
MSVP_PROF_API int32_t MsprofRegTypeInfo(uint16_t level, uint32_t typeId, const char *typeName);
MSVP_PROF_API int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle);
MSVP_PROF_API int32_t MsprofReportApi(uint32_t nonPersistantFlag, const struct MsprofApi *api);
MSVP_PROF_API int32_t MsprofReportEvent(uint32_t nonPersistantFlag, const void *event);
MSVP_PROF_API int32_t MsprofReportCompactInfo(uint32_t nonPersistantFlag, const VOID_PTR data,
                                              uint32_t length);
MSVP_PROF_API int32_t MsprofReportAdditionalInfo(uint32_t nonPersistantFlag, const VOID_PTR data,
                                                 uint32_t length);
MSVP_PROF_API int32_t MsprofInit(uint32_t dataType, VOID_PTR data, uint32_t dataLen);
MSVP_PROF_API int32_t MsprofFinalize(void);
MSVP_PROF_API int32_t MsprofNotifySetDevice(uint32_t chipId, uint32_t deviceId, int32_t isOpen);
/* Which device runs the model of this number, until it is taken back. */
MSVP_PROF_API int32_t MsprofSetDeviceIdByGeModelIdx(uint32_t geModelIdx, uint32_t deviceId);
MSVP_PROF_API int32_t MsprofUnsetDeviceIdByGeModelIdx(uint32_t geModelIdx, uint32_t deviceId);

#ifdef __cplusplus
}
#endif

#endif
