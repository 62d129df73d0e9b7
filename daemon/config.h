/* Configuration: built-in defaults, then the file, then --set and options of the command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/user.h"

struct config {
    char *socket; /* where to listen when systemd gives no sockets */
    char *admin_socket;
    char *access_group; /* may connect to socket; empty: own user only; *: everybody */
    char *admin_group;  /* may connect to admin_socket, beside root; empty: root only */
    char *backend;
    uint32_t devices;
    uint64_t device_memory; /* bytes each */
    char *soc_name;
    uint64_t spin_us;
    uint32_t ring_depth;
    bool ipc_any_uid;
    uint32_t linger_max;
    uint64_t limit[RESOURCE_COUNT]; /* per uid */
};

/** Set every key to its default. */
void config_init(struct config *config);
void config_deinit(struct config *config);

/** Read an ini file. A wrong line is reported with its number through the log and makes the call
 * return -EINVAL. */
int config_read(struct config *config, const char *path);

/** Apply "section.key=value", as --set does. -EINVAL, after logging what is wrong. */
int config_set(struct config *config, const char *assignment);

/** Print every key with its default and meaning: the reference that --help and the man page show.
 */
void config_print_reference(FILE *f);
