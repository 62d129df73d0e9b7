/*
 * How a GPU is, by libnvidia-ml.so.1, where that is there. npud calls it only when somebody asks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct executor_health;
struct nvml;

/**
 * Load the library. beside: the path of libcuda, in whose folder it is looked for first if the path
 * names one. NULL: it is not there, or does not work.
 */
struct nvml *nvml_open(const char *beside);
void nvml_close(struct nvml *nvml);

/** The version of the driver, in words. False: not known. nvml: may be NULL. Any thread. */
bool nvml_version(struct nvml *nvml, char *version, unsigned size);
/** How the GPU at that bus address is; what is not known stays as it is. False: nothing is. */
bool nvml_health(struct nvml *nvml, const char *bus, struct executor_health *health);
