#include "daemon/base/config.h"

#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cgroup.h"
#include "daemon/base/log.h"
#include "proto/util/number_text.h"
#include "proto/wire/packet.h"

enum type {
    TYPE_STRING,
    TYPE_U32,
    TYPE_U64,   /* with K, M, G, T */
    TYPE_DEPTH, /* u32, a power of two */
    TYPE_SCOPE, /* uid | any */
    TYPE_BOOL,  /* yes | no */
    TYPE_LEVEL, /* of the log */
    TYPE_UIDS,  /* FIRST-LAST, or empty */
};

/* A live key takes effect when the configuration is read again; the others need a restart. */
enum life {
    RESTART,
    LIVE,
};

/* min and max: of a number; of the length of a string. */
#define KEY(section, name, type, life, field, min, max, def, help)                                 \
    {                                                                                              \
        section, name, type, life, offsetof(struct config, field), min, max, def, help             \
    }

#define FILE_BYTES (1u << 20) /* bytes of a configuration file */
#define PATH_BYTES 107u       /* of a socket address */
#define UIDS_MIN   4u         /* in a range */
#define UIDS_MAX   65536u
#define UIDS_END   (1u << 31)
#define UID_NOBODY 65534u
#define UID_NO_16  65535u /* what says "none" where uids have 16 bits */

static const struct key {
    const char *section;
    const char *name;
    enum type type;
    enum life life;
    size_t offset;
    uint64_t min, max;
    const char *def;
    const char *help;
} keys[] = {
    KEY("npud", "socket", TYPE_STRING, RESTART, socket, 1, PATH_BYTES, NPUD_SOCKET_DEFAULT,
        "where clients connect, when systemd passes no sockets"),
    KEY("npud", "admin_socket", TYPE_STRING, RESTART, admin_socket, 1, PATH_BYTES,
        NPUD_ADMIN_SOCKET_DEFAULT, "where npuctl connects"),
    KEY("npud", "access_group", TYPE_STRING, RESTART, access_group, 0, 255, "npu",
        "group that may use the devices; empty: only npud's own user; *: everybody"),
    KEY("npud", "admin_group", TYPE_STRING, RESTART, admin_group, 0, 255, "npu-admin",
        "group that may use npuctl, beside root; empty: root and npud's own user only"),
    KEY("npud", "subuid_file", TYPE_STRING, RESTART, subuid_file, 0, 4095, "/etc/subuid",
        "uids in these ranges count for the owner of the range; empty: for themselves"),
    KEY("npud", "backend", TYPE_STRING, RESTART, backend, 1, 63, "sim",
        "what makes the devices work: sim, acl or cuda"),
    KEY("npud", "log_level", TYPE_LEVEL, LIVE, log_level, 0, 0, "info",
        "least important lines that are logged: error, warning, notice, info or debug"),
    KEY("sim", "devices", TYPE_U32, RESTART, devices, 1, 16, "2", "number of simulated NPUs"),
    KEY("sim", "memory", TYPE_U64, RESTART, device_memory, 1 << 20, UINT64_C(1) << 46, "8G",
        "memory of each, in bytes; used from the host's only as programs touch it"),
    KEY("sim", "soc_name", TYPE_STRING, RESTART, soc_name, 1, 63, "AscendSim1",
        "what aclrtGetSocName() answers"),
    KEY("sim", "strict", TYPE_BOOL, RESTART, strict, 0, 0, "no",
        "yes: as on hardware, programs cannot read device memory by its address; no: they can"),
    KEY("sim", "latency_us", TYPE_U64, RESTART, latency_us, 0, 1000000, "0",
        "microseconds after which copies, sets and reductions are done, half as many to 1.5 times"),
    KEY("sim", "copiers", TYPE_U32, RESTART, copiers, 0, 64, "0",
        "threads that make large copies beside the engines; 0: half of the CPUs, less one"),
    KEY("sim", "shuffle", TYPE_U64, RESTART, shuffle, 0, UINT64_MAX, "0",
        "a seed by which tasks are delayed, so that streams without an order meet; 0: none are"),
    KEY("vendor", "library", TYPE_STRING, RESTART, vendor_library, 0, 4095, "",
        "backend acl or cuda: the device's library, by its absolute path; empty for cuda: the "
        "driver's"),
    KEY("vendor", "nesting", TYPE_BOOL, RESTART, vendor_nesting, 0, 0, "no",
        "yes: that may be npud's own library, of another npud; for tests"),
    KEY("vendor", "environment", TYPE_STRING, RESTART, vendor_environment, 0, 4095, "",
        "what the library finds in its environment: NAME=VALUE, with spaces between them"),
    KEY("vendor", "executor", TYPE_STRING, RESTART, vendor_executor, 0, 15, "",
        "session or user: who has a process of its own for device work; empty: session for acl, "
        "user for cuda"),
    KEY("vendor", "uids", TYPE_UIDS, RESTART, vendor_uids, 0, 0, "",
        "FIRST-LAST: uids that nobody else has, of which each such process gets two; empty: "
        "npud's"),
    KEY("vendor", "group", TYPE_STRING, RESTART, vendor_group, 0, 255, "",
        "group that a process with such a uid is in, for the nodes of devices; empty: none"),
    KEY("vendor", "hang_s", TYPE_U32, RESTART, vendor_hang_s, 0, 86400, "60",
        "seconds without an answer of such a process, or an end of its work, after which npud ends "
        "it; 0: none"),
    KEY("engine", "spin_us", TYPE_U64, RESTART, spin_us, 0, 1000000, "50",
        "how long an engine that was just busy looks for work before it sleeps; 0: not at all"),
    KEY("stream", "depth", TYPE_DEPTH, RESTART, ring_depth, 64, 65536, "1024",
        "tasks that a stream can hold before submitting blocks; a power of two"),
    KEY("ipc", "scope", TYPE_SCOPE, LIVE, ipc_any_uid, 0, 0, "uid",
        "which processes may open a handle without a list of pids: those of the same uid, or any"),
    KEY("ipc", "linger_max", TYPE_U32, LIVE, linger_max, 0, 1 << 20, "1024",
        "per uid: exported events that are destroyed but still openable"),
    KEY("ipc", "submit_ms", TYPE_U64, LIVE, submit_ms, 0, 3600000, "10000",
        "milliseconds after which a pending record fails that is in no stream, if it is asked for"),
#define RESOURCE(NAME, name, def, help)                                                            \
    KEY("limits", #name, TYPE_U64, LIVE, limit[RESOURCE_##NAME], 0, UINT64_MAX, def, help),
#include "daemon/base/resources.inc"
#undef RESOURCE
    KEY("limits", "device_share", TYPE_U32, LIVE, device_share, 1, 100, "90",
        "per uid: percent of a device's memory that others have not, where npud serves several"),
    KEY("jobs", "cgroups", TYPE_STRING, RESTART, job_cgroups, 0, CGROUP_PATH_MAX - 1, "",
        "patterns of control groups that a scheduler makes for its jobs; empty: there are no jobs"),
    KEY("jobs", "memory", TYPE_U64, LIVE, job_memory, 0, UINT64_MAX, "1T",
        "per job: bytes of all kinds; less if memory.max of its control group is less"),
    KEY("jobs", "host_root", TYPE_STRING, RESTART, job_root, 0, CGROUP_PATH_MAX - 1, "",
        "where /proc and /sys/fs/cgroup of the host are, for npud in a container; empty: at /"),
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

/* What is wrong with a value, as a sentence. */
struct wrong {
    char text[128];
};

static bool say_wrong(struct wrong *wrong, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static bool say_wrong(struct wrong *wrong, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(wrong->text, sizeof(wrong->text), fmt, ap);
    va_end(ap);
    return false;
}

static bool set_number(const struct key *key, void *field, const char *text, struct wrong *wrong)
{
    uint64_t value;

    if (!number_read(text, key->type == TYPE_U64 ? "KMGT" : "", &value))
        return say_wrong(wrong, "not a number%s",
                         key->type == TYPE_U64 ? " (K, M, G or T may follow its digits)" : "");
    if (value < key->min || value > key->max)
        return say_wrong(wrong, "must be from %llu to %llu", (unsigned long long)key->min,
                         (unsigned long long)key->max);
    if (key->type == TYPE_DEPTH && (value & (value - 1)))
        return say_wrong(wrong, "must be a power of two");
    if (key->type == TYPE_U64)
        *(uint64_t *)field = value;
    else
        *(uint32_t *)field = (uint32_t)value;
    return true;
}

static bool set_string(const struct key *key, char **field, const char *text, struct wrong *wrong)
{
    char *copy;

    if (strlen(text) < key->min || strlen(text) > key->max)
        return say_wrong(wrong, "must have from %llu to %llu bytes", (unsigned long long)key->min,
                         (unsigned long long)key->max);
    copy = strdup(text);
    if (!copy)
        return say_wrong(wrong, "out of memory");
    free(*field);
    *field = copy;
    return true;
}

static bool set_level(int *field, const char *text, struct wrong *wrong)
{
    int level = log_level_named(text);

    if (level < 0)
        return say_wrong(wrong, "must be error, warning, notice, info or debug");
    *field = level;
    return true;
}

static bool parse_uids(const char *text, uint64_t *first, uint64_t *last)
{
    char begin[16];
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : sizeof(begin);

    if (n >= sizeof(begin))
        return false;
    memcpy(begin, text, n);
    begin[n] = '\0';
    return number_read(begin, "", first) && number_read(dash + 1, "", last);
}

/* Not root's, not nobody's, and none of those that mean "no uid" somewhere. */
static bool set_uids(struct uid_range *range, const char *text, struct wrong *wrong)
{
    uint64_t first = 0, last = 0;

    if (text[0] && !parse_uids(text, &first, &last))
        return say_wrong(wrong, "must be FIRST-LAST, such as 1900000000-1900001999");
    if (text[0] &&
        (first == 0 || first > last || last - first < UIDS_MIN - 1 || last - first >= UIDS_MAX ||
         last >= UIDS_END || (first <= UID_NO_16 && last >= UID_NOBODY)))
        return say_wrong(wrong, "must be %u to %u uids, without 0, %u and %u, below %u", UIDS_MIN,
                         UIDS_MAX, UID_NOBODY, UID_NO_16, UIDS_END);
    *range = (struct uid_range){(uint32_t)first, (uint32_t)last};
    return true;
}

static bool set_key(struct config *config, const struct key *key, const char *text,
                    struct wrong *wrong)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case TYPE_STRING:
        return set_string(key, field, text, wrong);
    case TYPE_LEVEL:
        return set_level(field, text, wrong);
    case TYPE_SCOPE:
        if (strcmp(text, "uid") != 0 && strcmp(text, "any") != 0)
            return say_wrong(wrong, "must be uid or any");
        *(bool *)field = text[0] == 'a';
        return true;
    case TYPE_UIDS:
        return set_uids(field, text, wrong);
    case TYPE_BOOL:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return say_wrong(wrong, "must be yes or no");
        *(bool *)field = text[0] == 'y';
        return true;
    case TYPE_U32:
    case TYPE_U64:
    case TYPE_DEPTH:
        break;
    }
    return set_number(key, field, text, wrong);
}

static const struct key *find_key(const char *section, const char *name)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

int config_set_key(struct config *config, const char *section, const char *name, const char *value)
{
    const struct key *key = find_key(section, name);
    struct wrong wrong = {"no such key (see npud --print-config)"};

    if (key && set_key(config, key, value, &wrong))
        return 0;
    log_error("%s.%s = %.200s: %s", section, name, value, wrong.text);
    return -EINVAL;
}

void config_init(struct config *config)
{
    struct wrong wrong;

    *config = (struct config){0};
    for (size_t i = 0; i < N_KEYS; i++)
        if (!set_key(config, &keys[i], keys[i].def, &wrong))
            abort(); /* a default of the table above is wrong: found by the first start */
}

void config_deinit(struct config *config)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (keys[i].type == TYPE_STRING)
            free(*(char **)((char *)config + keys[i].offset));
    free(config->text);
    *config = (struct config){0};
}

static int on_ini(void *arg, const char *section, const char *name, const char *value)
{
    return config_set_key(arg, section, name, value) == 0;
}

/*
 * The whole file, with a zero byte behind it, or NULL after a line in the log. Freed by the caller.
 */
static char *read_whole(int fd, const char *path, size_t *size)
{
    char *text = malloc(FILE_BYTES + 2);
    ssize_t n = 1;

    if (!text)
        log_error("%s: out of memory", path);
    for (*size = 0; text && n > 0 && *size <= FILE_BYTES; *size += (size_t)n)
        if ((n = read(fd, text + *size, FILE_BYTES + 1 - *size)) < 0)
            break;
    if (text && n < 0)
        log_error("%s: cannot be read: %m", path);
    else if (text && *size > FILE_BYTES)
        log_error("%s: larger than 1 MiB, which no configuration is", path);
    else if (text) {
        text[*size] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

/*
 * Only files that are read at once: a pipe could make npud wait. /dev/null is how to say that there
 * is no configuration.
 */
static char *read_file(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    struct stat st, null;

    if (fd < 0 || fstat(fd, &st) < 0)
        log_error("%s: cannot be read: %m", path);
    else if (S_ISREG(st.st_mode) ||
             (stat("/dev/null", &null) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev))
        text = read_whole(fd, path, size);
    else
        log_error("%s: is not a regular file", path);
    if (fd >= 0)
        close(fd);
    return text;
}

int config_read_text(struct config *config, const char *name, char *text, size_t size)
{
    int line;

    free(config->text);
    config->text = text;
    config->size = size;
    if (strlen(text) < size) { /* inih would see its end there */
        log_error("%s: has a zero byte", name);
        return -EINVAL;
    }
    /* What inih takes for granted would read "key = value # text" and indented keys as values, and
     * split long lines. */
    ini_allow_multiline = false;
    ini_inline_comment_prefixes = (char *)";#";
    ini_use_stack = false;
    ini_max_line = ini_initial_alloc = FILE_BYTES + 3;
    line = ini_parse_string(text, on_ini, config);
    if (line < 0)
        log_error("%s: out of memory", name);
    else if (line > 0)
        log_error("%s: line %d is no section or key = value of npud.conf(5)", name, line);
    return line == 0 ? 0 : -EINVAL;
}

int config_read(struct config *config, const char *path)
{
    size_t size;
    char *text = read_file(path, &size);

    return text ? config_read_text(config, path, text, size) : -EINVAL;
}

int config_set(struct config *config, const char *assignment)
{
    char *copy = strdup(assignment);
    char *dot = copy ? strchr(copy, '.') : NULL;
    char *equals = dot ? strchr(dot, '=') : NULL;
    int r = -EINVAL;

    if (equals) {
        *dot = *equals = '\0';
        r = config_set_key(config, copy, dot + 1, equals + 1);
    } else {
        log_error("\"%s\" is not section.key=value", assignment);
    }
    free(copy);
    return r;
}

/* Bytes of the field, which is no string. */
static size_t field_size(const struct key *key)
{
    return key->type == TYPE_U64                               ? sizeof(uint64_t)
           : key->type == TYPE_UIDS                            ? sizeof(struct uid_range)
           : key->type == TYPE_SCOPE || key->type == TYPE_BOOL ? sizeof(bool)
                                                               : sizeof(uint32_t);
}

static bool key_differs(const struct key *key, const struct config *a, const struct config *b)
{
    const char *one = (const char *)a + key->offset, *other = (const char *)b + key->offset;

    if (key->type == TYPE_STRING)
        return strcmp(*(char *const *)one, *(char *const *)other) != 0;
    return memcmp(one, other, field_size(key)) != 0;
}

unsigned config_adopt(struct config *config, struct config *read)
{
    unsigned restart = 0;

    for (size_t i = 0; i < N_KEYS; i++) {
        const struct key *key = &keys[i];
        void *field = (char *)config + key->offset;

        if (!key_differs(key, config, read))
            continue;
        restart += key->life == RESTART;
        log_line(key->life == RESTART ? LOG_WARNING : LOG_NOTICE, NULL, "%s.%s has changed%s",
                 key->section, key->name,
                 key->life == RESTART ? ": takes effect at the next start of npud" : "");
        if (key->life == LIVE)
            memcpy(field, (const char *)read + key->offset, field_size(key));
    }
    free(config->text);
    config->text = read->text;
    config->size = read->size;
    read->text = NULL;
    return restart;
}

bool config_is_default(const struct config *config, const char *section, const char *name)
{
    const struct key *key = find_key(section, name);
    struct config defaults;
    bool same;

    config_init(&defaults);
    same = key && !key_differs(key, config, &defaults);
    config_deinit(&defaults);
    return same;
}

void config_print_reference(FILE *f)
{
    const char *section = "";

    for (size_t i = 0; i < N_KEYS; i++) {
        const struct key *k = &keys[i];

        if (strcmp(section, k->section) != 0)
            fprintf(f, "%s[%s]\n", i ? "\n" : "", k->section);
        section = k->section;
        fprintf(f, "# %s\n#%s = %s\n", k->help, k->name, k->def);
    }
}
