#include "client/runtime/chip.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_platform.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

#define KIB 1024u
#define MIB (1024u * KIB)

#define CORES_OF_910B                                                                              \
    .aic_version = "AIC-C-220", .memory_type = "HBM", .arch = DAV_2201, .device_cpus = 6,          \
    .ub_bytes = 192 * KIB, .l0_a_bytes = 64 * KIB, .l0_b_bytes = 64 * KIB,                         \
    .l0_c_bytes = 128 * KIB, .l1_bytes = 512 * KIB, .bt_bytes = KIB
#define CORES_OF_910                                                                               \
    .aic_version = "AIC-C-100", .memory_type = "HBM", .arch = DAV_1001, .device_cpus = 14,         \
    .ub_bytes = 256 * KIB, .l0_a_bytes = 64 * KIB, .l0_b_bytes = 64 * KIB,                         \
    .l0_c_bytes = 256 * KIB, .l1_bytes = MIB, .mhz = 1000, .l2_bytes = 32 * MIB

static const struct chip chips[] = {
    {"Ascend910B3", CORES_OF_910B, .cube_cores = 20, .vector_cores = 40, .mhz = 1800,
     .l2_bytes = 192 * MIB},
    {"Ascend910B4", CORES_OF_910B, .cube_cores = 20, .vector_cores = 40, .mhz = 1650,
     .l2_bytes = 96 * MIB},
    {"Ascend910B", CORES_OF_910B, .cube_cores = 24, .vector_cores = 48, .mhz = 1800,
     .l2_bytes = 192 * MIB},
    {"Ascend910_93", CORES_OF_910B, .cube_cores = 24, .vector_cores = 48, .mhz = 1800,
     .l2_bytes = 192 * MIB},
    {"Ascend910Pro", CORES_OF_910, .cube_cores = 30},
    {"Ascend910A", CORES_OF_910, .cube_cores = 32},
    {"Ascend310P", .aic_version = "AIC-M-200", .memory_type = "DDR", .arch = DAV_2002,
     .cube_cores = 8, .vector_cores = 7, .device_cpus = 4, .mhz = 1080, .l2_bytes = 16 * MIB,
     .ub_bytes = 256 * KIB, .l0_a_bytes = 64 * KIB, .l0_b_bytes = 64 * KIB, .l0_c_bytes = 256 * KIB,
     .l1_bytes = MIB},
    {"", CORES_OF_910B, .cube_cores = 24, .vector_cores = 48, .mhz = 1800, .l2_bytes = 192 * MIB},
};

const struct chip *chip_of(const char *name)
{
    const struct chip *chip = chips;

    while (strncmp(name, chip->prefix, strlen(chip->prefix)) != 0)
        chip++;
    return chip;
}

const struct chip *chip_of_device(const struct session *s, uint32_t device)
{
    return chip_of(s->device_info[device].soc_name);
}

/* --- the name --- */

/*
 * Names that programs have been given. They stay, because the next npud may name another chip.
 * There is no lock, so that a forked child cannot find it held.
 */
struct given_name {
    struct given_name *next;
    char name[];
};

static _Atomic(struct given_name *) given;

static struct given_name *find_given(const char *name)
{
    struct given_name *g = atomic_load_explicit(&given, memory_order_acquire);

    while (g && strcmp(g->name, name) != 0)
        g = g->next;
    return g;
}

/* The same text for as long as the process lives. NULL: no memory. */
static const char *keep_name(const char *name)
{
    struct given_name *g = find_given(name);

    if (g)
        return g->name;
    g = malloc(sizeof(*g) + strlen(name) + 1);
    if (!g)
        return NULL;
    strcpy(g->name, name);
    g->next = atomic_load_explicit(&given, memory_order_relaxed);
    /* Two threads may add the same name: each of the two texts stays. */
    while (!atomic_compare_exchange_weak_explicit(&given, &g->next, g, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return g->name;
}

/* Programs that only compile for a chip run where no npud is. */
static const char *name_without_npud(const struct error_saved *saved, int *error)
{
    const char *name = secure_getenv("NPUD_SOC_NAME");

    if (*error == ACL_ERROR_RT_NO_DEVICE && name && name[0])
        return name;
    *error = error_tell(saved, *error);
    return NULL;
}

const char *chip_name(const char *function, int *error)
{
    struct error_saved saved;
    struct session *s;
    const char *name;

    error_save(&saved);
    s = session_get(function, error);
    if (s && s->n_devices == 0)
        *error = error_set(ACL_ERROR_RT_NO_DEVICE, "%s: npud has no device", function);
    error_save_end(&saved);
    name = *error == 0 ? s->device_info[0].soc_name : name_without_npud(&saved, error);
    if (!name)
        return NULL;
    name = keep_name(name);
    *error = name ? 0 : error_no_memory(function);
    return name;
}

const char *aclrtGetSocName(void)
{
    CALL_SCOPE;
    int error;

    return chip_name(__func__, &error);
}
