/* Plays libnvidia-ml.so.1 beside libfake_cuda.so. FAKE_NVML=broken: it cannot be started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct utilization {
    unsigned gpu, memory;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int error_type, int counter_type,
                                       unsigned long long *count);

static int a_device;

int nvmlInit_v2(void)
{
    const char *how = getenv("FAKE_NVML");

    return how && strcmp(how, "broken") == 0 ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    snprintf(version, size, "570.0.fake");
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    *device = &a_device;
    return strncmp(bus, "0000:1", 6) == 0 ? 0 : 6;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees)
{
    *degrees = 41;
    return device == &a_device && sensor == 0 ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 71000;
    return device == &a_device ? 0 : 2;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates)
{
    *rates = (struct utilization){17, 3};
    return device == &a_device ? 0 : 2;
}

int nvmlDeviceGetTotalEccErrors(void *device, int error_type, int counter_type,
                                unsigned long long *count)
{
    *count = 2;
    return device == &a_device && error_type == 1 && counter_type == 0 ? 0 : 2;
}
