#include "client/core/acl_config.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/core/device_limit.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "proto/util/lift_fd.h"

#define FILE_MAX  (10 * 1024 * 1024)
#define DEPTH_MAX 10

static _Atomic int32_t default_device = -1;

/* Text of the first successful aclInit, as a fingerprint: later ones must come with the same. */
static uint64_t fingerprint;
static bool have_fingerprint;
static bool first_load; /* the latest successful load set the fingerprint */

int32_t acl_config_default_device(void)
{
    return default_device;
}

void acl_config_disable(void)
{
    default_device = -1;
}

void acl_config_undo(void)
{
    acl_config_disable();
    if (first_load)
        have_fingerprint = false;
}

static void forget_all(void)
{
    default_device = -1;
    have_fingerprint = false;
    error_use_process_store(false);
}

const struct part acl_config_part = {.fork_child = forget_all};

static uint64_t hash_text(const char *text)
{
    uint64_t x = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        x = (x ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return x;
}

static int read_file(const char *function, const char *path, char **text)
{
    int fd = lift_fd(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return error_set(ACL_ERROR_INVALID_FILE, "%s: %s: %m", function, path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX &&
        (*text = malloc((size_t)st.st_size + 1))) {
        n = read(fd, *text, (size_t)st.st_size);
        if (n >= 0)
            (*text)[n] = '\0';
        else {
            free(*text);
            *text = NULL;
        }
    }
    close(fd);
    if (n < 0)
        return error_set(ACL_ERROR_INVALID_FILE,
                         "%s: %s: not a readable regular file of at most 10 MiB", function, path);
    return 0;
}

static int depth_of(const cJSON *item)
{
    int deepest = 0;

    for (const cJSON *child = item->child; child; child = child->next) {
        int d = depth_of(child);

        if (d > deepest)
            deepest = d;
    }
    return deepest + (cJSON_IsObject(item) || cJSON_IsArray(item));
}

/* "0" or "1", or absent. */
static int read_switch(const cJSON *object, const char *key, bool *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!item)
        return 0;
    if (!cJSON_IsString(item) ||
        (strcmp(item->valuestring, "0") != 0 && strcmp(item->valuestring, "1") != 0))
        return error_set(ACL_ERROR_INVALID_PARAM, "aclInit: %s must be \"0\" or \"1\"", key);
    *value = item->valuestring[0] == '1';
    return 0;
}

/* Decimal digits without leading zeros, as a string. */
static int read_default_device(const cJSON *root, int32_t *device)
{
    const cJSON *outer = cJSON_GetObjectItemCaseSensitive(root, "defaultDevice");
    const cJSON *item = outer ? cJSON_GetObjectItemCaseSensitive(outer, "default_device") : NULL;
    const char *s;

    if (!item)
        return 0;
    s = cJSON_IsString(item) ? item->valuestring : "";
    if (strlen(s) < 1 || strlen(s) > 4 || strspn(s, "0123456789") != strlen(s) ||
        (s[0] == '0' && s[1]))
        return error_set(
            ACL_ERROR_FAILURE,
            "aclInit: defaultDevice.default_device must be a string of digits, such as \"0\"");
    *device = atoi(s);
    return 0;
}

/* What the file says of the limits of kernels. */
static const struct {
    const char *outer, *key; /* outer NULL: the file itself */
    aclrtDeviceLimit limit;
} limit_keys[] = {
    {"StackSize", "aicore_stack_size", ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE},
    {"StackSize", "simt_stack_size", ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE},
    {"StackSize", "simt_divergence_stack_size", ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE},
    {NULL, "simd_printf_fifo_size_per_core", ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE},
    {NULL, "simt_printf_fifo_size", ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE},
};

#define LIMIT_KEYS (sizeof(limit_keys) / sizeof(limit_keys[0]))

/* bytes: by place in limit_keys; what the file does not name stays as it is. */
static int read_limits(const cJSON *root, size_t bytes[LIMIT_KEYS], bool named[LIMIT_KEYS])
{
    for (size_t i = 0; i < LIMIT_KEYS; i++) {
        const char *outer = limit_keys[i].outer, *key = limit_keys[i].key;
        const cJSON *item = outer ? cJSON_GetObjectItemCaseSensitive(root, outer) : root;

        item = item ? cJSON_GetObjectItemCaseSensitive(item, key) : NULL;
        named[i] = item != NULL;
        if (!item)
            continue;
        if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > UINT32_MAX)
            return error_set(ACL_ERROR_FAILURE, "aclInit: %s must be a number of bytes", key);
        bytes[i] = (size_t)item->valuedouble;
        if (!device_limit_valid(limit_keys[i].limit, &bytes[i]))
            return error_set(ACL_ERROR_FAILURE, "aclInit: %s is out of range: %zu bytes", key,
                             bytes[i]);
    }
    return 0;
}

static int apply_config(const cJSON *root)
{
    const cJSON *graph = cJSON_GetObjectItemCaseSensitive(root, "acl_graph");
    bool process_store = false, event_mode = false;
    size_t bytes[LIMIT_KEYS];
    bool named[LIMIT_KEYS];
    int32_t device = -1;

    RETURN_IF_ERROR(read_switch(root, "err_msg_mode", &process_store));
    if (graph)
        RETURN_IF_ERROR(read_switch(graph, "event_mode", &event_mode));
    RETURN_IF_ERROR(read_default_device(root, &device));
    RETURN_IF_ERROR(read_limits(root, bytes, named));
    error_use_process_store(process_store);
    default_device = device;
    for (size_t i = 0; i < LIMIT_KEYS; i++)
        if (named[i])
            device_limit_set(limit_keys[i].limit, bytes[i]);
    return 0;
}

/* 0 with *root, freed by the caller. */
static int parse_text(const char *function, const char *path, const char *text, cJSON **root)
{
    *root = cJSON_ParseWithOpts(text, NULL, true); /* and nothing behind it */
    if (cJSON_IsObject(*root) && depth_of(*root) <= DEPTH_MAX)
        return 0;
    error_set(ACL_ERROR_PARSE_FILE, "%s: %s: %s", function, path,
              *root ? "not an object, or nested deeper than 10" : "not valid JSON");
    cJSON_Delete(*root);
    *root = NULL;
    return ACL_ERROR_PARSE_FILE;
}

static int parse_config(const char *path, const char *text)
{
    cJSON *root;
    int error;

    RETURN_IF_ERROR(parse_text("aclInit", path, text, &root));
    error = apply_config(root);
    cJSON_Delete(root);
    return error;
}

/* The vendor's library takes a file that says nothing for no configuration. */
static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

int acl_config_parse_file(const char *function, const char *path, cJSON **root)
{
    char *text;
    int error = 0;

    *root = NULL;
    RETURN_IF_ERROR(read_file(function, path, &text));
    if (!is_blank(text))
        error = parse_text(function, path, text, root);
    free(text);
    return error;
}

int acl_config_load(const char *path, char **textp)
{
    char *text = NULL;
    int error = 0;
    uint64_t h;

    if (path && path[0])
        RETURN_IF_ERROR(read_file("aclInit", path, &text));
    else if (!(text = calloc(1, 1)))
        return error_no_memory("aclInit");
    h = hash_text(text);
    if (have_fingerprint && h != fingerprint)
        error = error_set(
            ACL_ERROR_INVALID_PARAM,
            "aclInit: the configuration differs from that of the first aclInit in this process");
    else if (!is_blank(text))
        error = parse_config(path, text);
    if (error != 0) {
        free(text);
        return error;
    }
    first_load = !have_fingerprint;
    fingerprint = h;
    have_fingerprint = true;
    *textp = text;
    return 0;
}
