/*
 * What the library says of a chip. The simulated NPU runs nothing on cores and has no caches: the
 * numbers are those of the chip that npud's configuration names, so that programs divide their work
 * as they do there.
 */
#pragma once

#include <stdint.h>

struct session;

struct chip {
    const char *prefix;      /* of the names of such chips: the first row that fits is taken */
    const char *aic_version; /* of its cores, as the vendor's platform files have it */
    const char *memory_type;
    uint64_t arch; /* aclplatformNpuArch */
    uint64_t cube_cores, vector_cores, device_cpus, mhz;
    uint64_t l2_bytes;
    uint64_t ub_bytes, l0_a_bytes, l0_b_bytes, l0_c_bytes, l1_bytes, bt_bytes; /* of a core */
};

/** The row for a chip of this name. An unknown name has the last row, whose prefix is "". */
const struct chip *chip_of(const char *name);

/** The row for npud's device. */
const struct chip *chip_of_device(const struct session *s, uint32_t device);

/**
 * Name of the chip, valid as long as the process: npud's device 0 has it, or NPUD_SOC_NAME if no
 * npud is there. NULL with the sentence stored and *error set: neither tells it.
 */
const char *chip_name(const char *function, int *error);
