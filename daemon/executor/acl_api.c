#include "daemon/executor/acl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/executor/vendor.h"

/* A symbol, and where the address of the function is kept. */
struct row {
    const char *name;
    size_t offset;
    bool required;
};

static const struct row rows[] = {
#define X(name, required) {#name, offsetof(struct acl_calls, name), required},
    ACL_API(X)
#undef X
};
#define N_ROWS (sizeof(rows) / sizeof(*rows))

/* No other library has it, and each of npud's has. */
#define OF_NPUD "aclnpudLaunchDelay"

/* Room for all names, as many may be absent. */
static size_t bytes_of_names(void)
{
    size_t bytes = 1;

    for (size_t i = 0; i < N_ROWS; i++)
        bytes += strlen(rows[i].name) + 1;
    return bytes;
}

/* The name of a required function that is not there, or NULL. */
static const char *look_up(struct vendor_library *l, void *handle)
{
    const char *missing = NULL;
    char *end = l->absent;

    for (size_t i = 0; i < N_ROWS; i++) {
        void *symbol = dlsym(handle, rows[i].name);

        memcpy((char *)&l->call + rows[i].offset, &symbol, sizeof(symbol));
        l->found += symbol != NULL;
        if (symbol)
            continue;
        end += sprintf(end, "%s%s", end == l->absent ? "" : " ", rows[i].name);
        if (rows[i].required && !missing)
            missing = rows[i].name;
    }
    l->known = N_ROWS;
    return missing;
}

static int32_t set_up(struct vendor_library *l, const char *path, char *why, size_t why_size)
{
    const aclError code = l->call.aclInit(NULL);

    if (code == ACL_ERROR_REPEAT_INITIALIZE)
        return 0;
    l->initialised = code == ACL_SUCCESS;
    if (acl_said(l, "aclInit", code) != 0)
        snprintf(why, why_size, "%s: aclInit: error %d: %s", path, (int)code, vendor_text());
    return code;
}

/* 0, with all functions in their places, or an error and why. */
static int32_t load(struct vendor_library *l, const char *path, bool nesting, char *why,
                    size_t why_size)
{
    const char *missing;
    void *handle;

    /* The dynamic loader would look for it where the environment says. */
    if (!strchr(path, '/')) {
        snprintf(why, why_size, "%s: give the path of the library, with the folder", path);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, why_size, "%s", dlerror());
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (!nesting && dlsym(handle, OF_NPUD)) {
        snprintf(
            why, why_size,
            "%s is npud's own library: npud would be a client of itself. Name the vendor's, or "
            "allow nesting",
            path);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    missing = look_up(l, handle);
    if (missing) {
        snprintf(why, why_size, "%s has no %s", path, missing);
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    return set_up(l, path, why, why_size);
}

/*
 * Nothing unloads a library, not even one that was refused: it may have started threads, and
 * handlers of it run at the end of the process.
 */
int32_t acl_open(const char *path, bool nesting, struct vendor_library **library, char *why,
                 size_t why_size)
{
    struct vendor_library *l = calloc(1, sizeof(*l));
    char *names = malloc(bytes_of_names());
    int32_t code;

    *library = NULL;
    if (!l || !names) {
        free(l);
        free(names);
        snprintf(why, why_size, "out of memory");
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    names[0] = '\0';
    l->absent = names;
    pthread_mutex_init(&l->lock, NULL);
    code = load(l, path, nesting, why, why_size);
    if (code == 0)
        *library = l;
    else
        acl_close(l);
    return code;
}

void acl_close(struct vendor_library *l)
{
    if (l->initialised && l->call.aclFinalize)
        l->call.aclFinalize();
    pthread_mutex_destroy(&l->lock);
    free(l->absent);
    free(l);
}

unsigned acl_symbols(struct vendor_library *l, unsigned *known, const char **absent)
{
    *known = l->known;
    *absent = l->absent;
    return l->found;
}

int32_t acl_said(struct vendor_library *l, const char *function, aclError code)
{
    const char *text;

    if (code == ACL_SUCCESS)
        return 0;
    text = l->call.aclGetRecentErrMsg ? l->call.aclGetRecentErrMsg() : NULL;
    if (text)
        vendor_set_text("%s", text);
    else
        vendor_set_text("%s: error %d", function, (int)code);
    return code;
}

int32_t acl_lacks(const char *function)
{
    vendor_set_text("the library has no %s", function);
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
