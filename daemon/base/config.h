/* Configuration: built-in defaults, then the file, then --set and options of the command line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/resource.h"
#include "daemon/base/uid_range.h"

struct config {
    char *socket; /* where to listen when systemd gives no sockets */
    char *admin_socket;
    char *access_group; /* may connect to socket; empty: own user only; *: everybody */
    char *admin_group;  /* may connect to admin_socket, beside root; empty: root only */
    char *subuid_file;  /* subuid.h; empty: none */
    char *backend;
    int log_level; /* LOG_ERR .. LOG_DEBUG */
    uint32_t devices;
    uint64_t device_memory; /* bytes each */
    char *soc_name;
    bool strict;                  /* programs cannot read device memory */
    uint64_t latency_us;          /* from the begin of work to its end */
    uint32_t copiers;             /* backend/copiers.h; 0: by the number of CPUs */
    uint64_t shuffle;             /* engine/shuffle.h: a seed; 0: none */
    char *vendor_library;         /* of the device; empty: the backend's default */
    uint32_t vendor_hang_s;       /* without an answer, or an end of work; 0: no limit */
    bool vendor_nesting;          /* it may be npud's own */
    char *vendor_environment;     /* of executors: NAME=VALUE, with spaces between them */
    char *vendor_executor;        /* session or user; empty: the backend's default */
    struct uid_range vendor_uids; /* of executors; empty: npud's own */
    char *vendor_group;           /* that executors with such uids have; empty: none */
    uint64_t spin_us;
    uint32_t ring_depth;
    bool ipc_any_uid;
    uint32_t linger_max;
    uint32_t device_share; /* percent */
    uint64_t submit_ms;
    char *job_cgroups;              /* cgroup.h */
    char *job_root;                 /* of /proc and /sys/fs/cgroup of the host; empty: / */
    uint64_t job_memory;            /* bytes per job */
    uint64_t limit[RESOURCE_COUNT]; /* per uid */
    char *text;                     /* of the file, as it was read, owned; NULL: there was none */
    size_t size;                    /* bytes of it, without the zero byte behind them */
};

/** Set every key to its default. */
void config_init(struct config *config);
void config_deinit(struct config *config);

/** Read an ini file whole and exactly. -EINVAL after a line in the log: what could not be read, or
 * which line is wrong. */
int config_read(struct config *config, const char *path);

/** The same for a text, with a zero byte behind its size bytes, which is the configuration's in any
 * case; freed with free(). name: for the log. */
int config_read_text(struct config *config, const char *name, char *text, size_t size);

/** Apply "section.key=value", as --set does. -EINVAL, after logging what is wrong. */
int config_set(struct config *config, const char *assignment);
/** The same for one key. */
int config_set_key(struct config *config, const char *section, const char *name, const char *value);

/** Take over the live keys of a configuration that was read again, and its text; the log tells
 * which, and which others have changed. Returns how many of those need a restart of npud. */
unsigned config_adopt(struct config *config, struct config *read);

/** Has this key its default? */
bool config_is_default(const struct config *config, const char *section, const char *name);

/** Print every key with its default and meaning: the reference that --help and the man page show.
 */
void config_print_reference(FILE *f);
