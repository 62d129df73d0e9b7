#include "daemon/executor/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/executor_message.h"

#define NVML "libnvidia-ml.so.1"

#define TEMPERATURE_OF_GPU 0
#define UNCORRECTED        1
#define SINCE_LOADED       0

struct utilization {
    unsigned gpu, memory; /* percent */
};

/* All answer 0 where all is well. */
#define NVML_FUNCTIONS(X)                                                                          \
    X(nvmlInit_v2, (void))                                                                         \
    X(nvmlShutdown, (void))                                                                        \
    X(nvmlSystemGetDriverVersion, (char *version, unsigned size))                                  \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, void **device))                          \
    X(nvmlDeviceGetTemperature, (void *device, int sensor, unsigned *degrees))                     \
    X(nvmlDeviceGetPowerUsage, (void *device, unsigned *milliwatts))                               \
    X(nvmlDeviceGetUtilizationRates, (void *device, struct utilization *rates))                    \
    X(nvmlDeviceGetTotalEccErrors,                                                                 \
      (void *device, int error_type, int counter_type, unsigned long long *count))

#define MEMBER(name, arguments) int(*name) arguments;
struct nvml {
    void *dl;
    NVML_FUNCTIONS(MEMBER)
};

static void *open_library(const char *beside)
{
    const char *slash = beside ? strrchr(beside, '/') : NULL;
    char path[PATH_MAX];
    void *dl = NULL;

    if (slash && (size_t)(slash - beside) < sizeof(path) - sizeof(NVML) - 1) {
        snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - beside), beside, NVML);
        dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dl ? dl : dlopen(NVML, RTLD_NOW | RTLD_LOCAL);
}

static void find_symbol(void *dl, const char *name, void *member)
{
    void *symbol = dlsym(dl, name);

    memcpy(member, &symbol, sizeof(symbol));
}

struct nvml *nvml_open(const char *beside)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));

    if (!nvml)
        return NULL;
    nvml->dl = open_library(beside);
    if (nvml->dl) {
#define FIND(name, arguments) find_symbol(nvml->dl, #name, &nvml->name);
        NVML_FUNCTIONS(FIND)
        if (nvml->nvmlInit_v2 && nvml->nvmlDeviceGetHandleByPciBusId_v2 && nvml->nvmlInit_v2() == 0)
            return nvml;
        dlclose(nvml->dl);
    }
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->nvmlShutdown)
        nvml->nvmlShutdown();
    dlclose(nvml->dl);
    free(nvml);
}

bool nvml_version(struct nvml *nvml, char *version, unsigned size)
{
    return nvml && nvml->nvmlSystemGetDriverVersion &&
           nvml->nvmlSystemGetDriverVersion(version, size) == 0;
}

bool nvml_health(struct nvml *nvml, const char *bus, struct executor_health *health)
{
    struct utilization rates;
    unsigned long long errors;
    unsigned value;
    void *device;
    bool known = false;

    if (!nvml || nvml->nvmlDeviceGetHandleByPciBusId_v2(bus, &device) != 0)
        return false;
    if (nvml->nvmlDeviceGetTemperature &&
        nvml->nvmlDeviceGetTemperature(device, TEMPERATURE_OF_GPU, &value) == 0) {
        health->temperature = (int32_t)value;
        known = true;
    }
    if (nvml->nvmlDeviceGetPowerUsage && nvml->nvmlDeviceGetPowerUsage(device, &value) == 0) {
        health->power = (int32_t)value;
        known = true;
    }
    if (nvml->nvmlDeviceGetUtilizationRates &&
        nvml->nvmlDeviceGetUtilizationRates(device, &rates) == 0) {
        health->busy = (int32_t)rates.gpu;
        known = true;
    }
    if (nvml->nvmlDeviceGetTotalEccErrors &&
        nvml->nvmlDeviceGetTotalEccErrors(device, UNCORRECTED, SINCE_LOADED, &errors) == 0) {
        health->errors = errors > UINT32_MAX ? UINT32_MAX : (uint32_t)errors;
        known = true;
    }
    return known;
}
