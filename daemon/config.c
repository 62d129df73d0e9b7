#include "daemon/config.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/log.h"
#include "proto/packet.h"

enum type {
    TYPE_STRING,
    TYPE_U32,
    TYPE_U64,   /* with K, M, G, T */
    TYPE_DEPTH, /* u32, a power of two */
    TYPE_SCOPE, /* uid | any */
};

#define KEY(section, name, type, field, min, max, def, help)                                       \
    {                                                                                              \
        section, name, type, offsetof(struct config, field), min, max, def, help                   \
    }
#define LIMIT(name, resource, def, help)                                                           \
    {                                                                                              \
        "limits", name, TYPE_U64, offsetof(struct config, limit) + (resource) * sizeof(uint64_t),  \
            0, UINT64_MAX, def, help                                                               \
    }

static const struct key {
    const char *section;
    const char *name;
    enum type type;
    size_t offset;
    uint64_t min, max;
    const char *def;
    const char *help;
} keys[] = {
    KEY("npud", "socket", TYPE_STRING, socket, 0, 0, NPUD_SOCKET_DEFAULT,
        "where clients connect, when systemd passes no sockets"),
    KEY("npud", "admin_socket", TYPE_STRING, admin_socket, 0, 0, NPUD_ADMIN_SOCKET_DEFAULT,
        "where npuctl connects"),
    KEY("npud", "access_group", TYPE_STRING, access_group, 0, 0, "npu",
        "group that may use the devices; empty: only npud's own user; *: everybody"),
    KEY("npud", "admin_group", TYPE_STRING, admin_group, 0, 0, "npu-admin",
        "group that may use npuctl, beside root; empty: root and npud's own user only"),
    KEY("npud", "backend", TYPE_STRING, backend, 0, 0, "sim", "what makes the devices work"),
    KEY("sim", "devices", TYPE_U32, devices, 1, 16, "2", "number of simulated NPUs"),
    KEY("sim", "memory", TYPE_U64, device_memory, 1 << 20, UINT64_C(1) << 46, "8G",
        "memory of each, in bytes; used from the host's only as programs touch it"),
    KEY("sim", "soc_name", TYPE_STRING, soc_name, 0, 0, "AscendSim1",
        "what aclrtGetSocName() answers"),
    KEY("engine", "spin_us", TYPE_U64, spin_us, 0, 1000000, "50",
        "how long an engine that was just busy looks for work before it sleeps; 0: not at all"),
    KEY("stream", "depth", TYPE_DEPTH, ring_depth, 64, 65536, "1024",
        "tasks that a stream can hold before submitting blocks; a power of two"),
    KEY("ipc", "scope", TYPE_SCOPE, ipc_any_uid, 0, 0, "uid",
        "who may open a handle without pid list: processes of the same uid, or any"),
    KEY("ipc", "linger_max", TYPE_U32, linger_max, 0, 1 << 20, "1024",
        "per uid: exported events that are destroyed but still openable"),
    LIMIT("sessions", RESOURCE_SESSIONS, "4096", "per uid: connected processes"),
    LIMIT("streams", RESOURCE_STREAMS, "65536", "per uid: streams"),
    LIMIT("events", RESOURCE_EVENTS, "1M", "per uid: plain events"),
    LIMIT("ipc_events", RESOURCE_IPC_EVENTS, "8192", "per uid: open IPC events"),
    LIMIT("device_memory", RESOURCE_DEVICE_MEMORY, "1T", "per uid: bytes, all devices together"),
    LIMIT("host_memory", RESOURCE_HOST_MEMORY, "64G", "per uid: bytes of pinned host memory"),
    LIMIT("fds", RESOURCE_FDS, "65536", "per uid: descriptors that npud holds for it"),
    LIMIT("notifies", RESOURCE_NOTIFIES, "8192", "per uid: open notifies and count notifies"),
    LIMIT("mbuf_memory", RESOURCE_MBUF_MEMORY, "64G",
          "per uid: bytes of shared buffers, with what describes them"),
    LIMIT("queues", RESOURCE_QUEUES, "4096", "per uid: shared queues; there are no more ids"),
    LIMIT("routes", RESOURCE_ROUTES, "65536", "per uid: routes between queues"),
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool parse_number(const char *text, bool suffix, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    char *end;
    const char *s;
    unsigned shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (suffix && *end && (s = strchr(suffixes, *end))) {
        shift = 10 * (unsigned)(s - suffixes + 1);
        end++;
    }
    if (*end || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return true;
}

static const char *set_number(const struct key *key, void *field, const char *text)
{
    uint64_t value;

    if (!parse_number(text, key->type == TYPE_U64, &value))
        return "not a number";
    if (value < key->min || value > key->max)
        return "out of range";
    if (key->type == TYPE_DEPTH && (value & (value - 1)))
        return "not a power of two";
    if (key->type == TYPE_U64)
        *(uint64_t *)field = value;
    else
        *(uint32_t *)field = (uint32_t)value;
    return NULL;
}

/* NULL, or what is wrong with text. */
static const char *set_key(struct config *config, const struct key *key, const char *text)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case TYPE_STRING:
        free(*(char **)field);
        *(char **)field = strdup(text);
        return *(char **)field ? NULL : "out of memory";
    case TYPE_SCOPE:
        if (strcmp(text, "uid") != 0 && strcmp(text, "any") != 0)
            return "must be uid or any";
        *(bool *)field = text[0] == 'a';
        return NULL;
    case TYPE_U32:
    case TYPE_U64:
    case TYPE_DEPTH:
        break;
    }
    return set_number(key, field, text);
}

static const struct key *find_key(const char *section, const char *name)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static int set_named(struct config *config, const char *section, const char *name,
                     const char *value)
{
    const struct key *key = find_key(section, name);
    const char *wrong = key ? set_key(config, key, value) : "no such key (see npud --help)";

    if (!wrong)
        return 0;
    log_error("%s.%s = %s: %s", section, name, value, wrong);
    return -EINVAL;
}

void config_init(struct config *config)
{
    *config = (struct config){0};
    for (size_t i = 0; i < N_KEYS; i++)
        if (set_key(config, &keys[i], keys[i].def))
            abort(); /* a default of the table above is wrong: found by the first start */
}

void config_deinit(struct config *config)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (keys[i].type == TYPE_STRING)
            free(*(char **)((char *)config + keys[i].offset));
    *config = (struct config){0};
}

static int on_ini(void *arg, const char *section, const char *name, const char *value)
{
    return set_named(arg, section, name, value) == 0;
}

int config_read(struct config *config, const char *path)
{
    struct stat st;
    int line;

    /* What inih takes for granted would read "key = value # text" and indented keys as values. */
    ini_allow_multiline = false;
    ini_inline_comment_prefixes = (char *)";#";
    ini_use_stack = false;
    ini_max_line = ini_initial_alloc = 4096;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        log_error("%s: is a directory", path);
        return -EINVAL;
    }
    line = ini_parse(path, on_ini, config);
    if (line == 0)
        return 0;
    if (line < 0)
        log_error("%s: cannot be read: %m", path);
    else
        log_error("%s: line %d is wrong", path, line);
    return -EINVAL;
}

int config_set(struct config *config, const char *assignment)
{
    char *copy = strdup(assignment);
    char *dot = copy ? strchr(copy, '.') : NULL;
    char *equals = dot ? strchr(dot, '=') : NULL;
    int r = -EINVAL;

    if (equals) {
        *dot = *equals = '\0';
        r = set_named(config, copy, dot + 1, equals + 1);
    } else {
        log_error("\"%s\" is not section.key=value", assignment);
    }
    free(copy);
    return r;
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
