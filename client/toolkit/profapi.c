/* libprofapi.so: what profiling/aprof_pub.h says. */
#include "profiling/aprof_pub.h"

#include <string.h>
#include <time.h>

uint64_t MsprofSysCycleTime(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t MsprofGetHashId(const char *hashInfo, size_t length)
{
    uint64_t x = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; hashInfo && i < length; i++)
        x = (x ^ (unsigned char)hashInfo[i]) * UINT64_C(0x100000001b3);
    return hashInfo ? x : 0;
}

uint64_t MsprofStr2Id(const char *hashInfo, size_t length)
{
    return MsprofGetHashId(hashInfo, length);
}

int32_t MsprofRegTypeInfo(uint16_t level, uint32_t typeId, const char *typeName)
{
    (void)level, (void)typeId, (void)typeName;
    return 0;
}

int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle)
{
    (void)moduleId, (void)handle;
    return 0;
}

int32_t MsprofReportApi(uint32_t nonPersistantFlag, const struct MsprofApi *api)
{
    (void)nonPersistantFlag, (void)api;
    return 0;
}

int32_t MsprofReportEvent(uint32_t nonPersistantFlag, const void *event)
{
    (void)nonPersistantFlag, (void)event;
    return 0;
}

int32_t MsprofReportCompactInfo(uint32_t nonPersistantFlag, const VOID_PTR data, uint32_t length)
{
    (void)nonPersistantFlag, (void)data, (void)length;
    return 0;
}

int32_t MsprofReportAdditionalInfo(uint32_t nonPersistantFlag, const VOID_PTR data, uint32_t length)
{
    (void)nonPersistantFlag, (void)data, (void)length;
    return 0;
}

int32_t MsprofInit(uint32_t dataType, VOID_PTR data, uint32_t dataLen)
{
    (void)dataType, (void)data, (void)dataLen;
    return 0;
}

int32_t MsprofFinalize(void)
{
    return 0;
}

int32_t MsprofNotifySetDevice(uint32_t chipId, uint32_t deviceId, int32_t isOpen)
{
    (void)chipId, (void)deviceId, (void)isOpen;
    return 0;
}

int32_t MsprofSetDeviceIdByGeModelIdx(uint32_t geModelIdx, uint32_t deviceId)
{
    (void)geModelIdx, (void)deviceId;
    return 0;
}

int32_t MsprofUnsetDeviceIdByGeModelIdx(uint32_t geModelIdx, uint32_t deviceId)
{
    (void)geModelIdx, (void)deviceId;
    return 0;
}
