/*
 * The checks of `npuctl doctor`. Each asks one thing, changes nothing, and prints nothing; it says
 * what it has seen, and, if that is not well, what mends it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/tools/npuctl/task.h"

/** In the order in which they outweigh each other. */
enum verdict {
    VERDICT_OK,
    VERDICT_SKIP, /* it does not concern this host or this user, or cannot be seen from here */
    VERDICT_WARN, /* it works, but less well, or not for all */
    VERDICT_FAIL, /* it does not work */
};

/** What the checks have in common. */
struct host {
    const char *admin, *programs; /* paths of the sockets */
    bool own;                     /* an npud of the user's own: the host's units are not of it */
    Npud__Report *status, *devices, *limits; /* NULL: npud does not tell this user */
};

#define FINDING_TEXT 640

struct finding {
    char seen[FINDING_TEXT];
    char cure[FINDING_TEXT]; /* empty: that of the row */
};

/** Writes f->seen, or f->cure, as printf() does; the verdict is for the return statement. */
enum verdict finding_say(struct finding *f, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void finding_cure(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** What a check looks at stands in the table of doctor.c. */
typedef enum verdict check_fn(const struct host *host, struct finding *f);

check_fn check_memory_files, check_process_handles, check_barriers, check_page_faults,
    check_own_memory, check_async_io, check_mappings, check_descriptors; /* doctor_kernel.c */
check_fn check_programs_socket, check_admin_socket, check_groups, check_versions, check_devices,
    check_limits, check_npud_descriptors; /* doctor_npud.c */
check_fn check_configuration, check_units, check_library, check_toolkit,
    check_cdi; /* doctor_files.c */
