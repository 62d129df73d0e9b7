#include "client/tools/npuctl/cdi.h"

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/core/access.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"

#define CDI_VERSION "0.5.0" /* the first one whose names of devices may be numbers */
#define CDI_KIND    "npud/npu"

/* The toolkit tree, from the folder of npuctl. */
#define TREE "../lib/npud/ascend-toolkit"

/* Where all is, without symbolic links: a container has it at the same paths. */
struct tree {
    char toolkit[PATH_MAX];
    char library[PATH_MAX], headers[PATH_MAX];
    char needed[PATH_MAX]; /* folder, in the container only, for libraries of the host */
    char socket[PATH_MAX];
};

static enum status explain_missing(const char *path, const char *advice)
{
    fprintf(stderr, "npuctl: %s: %s; %s\n", path, strerror(errno), advice);
    return STATUS_ERROR;
}

static bool join_path(char *to, const char *folder, const char *name)
{
    return snprintf(to, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* The real path of folder/name. */
static bool resolve_path(char *to, const char *folder, const char *name)
{
    char path[PATH_MAX];

    errno = ENAMETOOLONG;
    return join_path(path, folder, name) && realpath(path, to);
}

static enum status find_tree(struct tree *tree)
{
    const char *socket = socket_find("NPUD_SOCKET", NPUD_SOCKET_DEFAULT);
    char self[PATH_MAX];

    if (!realpath("/proc/self/exe", self))
        return explain_missing("/proc/self/exe", "npuctl finds its installation by it");
    dirname(self);
    if (!resolve_path(tree->toolkit, self, TREE) ||
        !resolve_path(tree->library, tree->toolkit, "lib64/libaclclient.so.1") ||
        !resolve_path(tree->headers, tree->toolkit, "include/acl") ||
        !join_path(tree->needed, tree->toolkit, "../needed")) {
        fprintf(stderr,
                "npuctl: %s/" TREE ": %s; there is no toolkit tree of npud beside this npuctl: use "
                "the one that is installed, with the package npud-ascend-toolkit on Debian\n",
                self, strerror(errno));
        return STATUS_ERROR;
    }
    if (!realpath(socket, tree->socket))
        return explain_missing(socket, "npud's socket for programs is not there: start npud, or "
                                       "set NPUD_SOCKET");
    return STATUS_OK;
}

/* --- the document --- */

static cJSON *add_strings(cJSON *to, const char *name, const char *const *strings, int n)
{
    return cJSON_AddItemToObject(to, name, cJSON_CreateStringArray(strings, n)) ? to : NULL;
}

static bool add_mount(cJSON *mounts, const char *host, const char *container)
{
    static const char *const options[] = {"ro", "bind", "nosuid", "nodev"};
    cJSON *mount = cJSON_CreateObject();

    return cJSON_AddItemToArray(mounts, mount) &&
           cJSON_AddStringToObject(mount, "hostPath", host) &&
           cJSON_AddStringToObject(mount, "containerPath", container) &&
           add_strings(mount, "options", options, 4);
}

/* The host's library that has the function, under the name by which programs are linked with it. */
static bool add_library_of(cJSON *mounts, const struct tree *tree, const void *function)
{
    char host[PATH_MAX], container[PATH_MAX];
    Dl_info info;

    return dladdr(function, &info) && realpath(info.dli_fname, host) &&
           join_path(container, tree->needed, basename((char *)info.dli_fname)) &&
           add_mount(mounts, host, container);
}

/*
 * A read-only mount of a socket can be connected to; a mount of its folder would let containers at
 * the socket for administrators.
 */
static bool add_mounts(cJSON *edits, const struct tree *tree)
{
    cJSON *mounts = cJSON_AddArrayToObject(edits, "mounts");

    return add_mount(mounts, tree->socket, tree->socket) &&
           add_mount(mounts, tree->toolkit, tree->toolkit) &&
           add_mount(mounts, tree->library, tree->library) &&
           add_mount(mounts, tree->headers, tree->headers) &&
           /* What libaclclient is linked with, as this program is. */
           add_library_of(mounts, tree, (const void *)protobuf_c_message_unpack) &&
           add_library_of(mounts, tree, (const void *)cJSON_Parse);
}

static bool add_variable(cJSON *env, const char *name, const char *value)
{
    char *text;
    bool added;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        return false;
    added = cJSON_AddItemToArray(env, cJSON_CreateString(text));
    free(text);
    return added;
}

static bool add_environment(cJSON *edits, const struct tree *tree)
{
    cJSON *env = cJSON_AddArrayToObject(edits, "env");
    char libraries[2 * PATH_MAX + 8];

    snprintf(libraries, sizeof(libraries), "%s/lib64:%s", tree->toolkit, tree->needed);
    return add_variable(env, "ASCEND_HOME_PATH", tree->toolkit) &&
           add_variable(env, "ASCEND_TOOLKIT_HOME", tree->toolkit) &&
           add_variable(env, "ASCEND_INSTALL_PATH", tree->toolkit) &&
           add_variable(env, "LD_LIBRARY_PATH", libraries);
}

/*
 * visible NULL: the container sees all, or those that its own environment names. The socket is
 * named here because a device that changes nothing would make the file invalid.
 */
static bool add_device(cJSON *devices, const struct tree *tree, const char *name,
                       const char *visible)
{
    cJSON *device = cJSON_CreateObject(), *edits, *env;

    if (!cJSON_AddItemToArray(devices, device) || !cJSON_AddStringToObject(device, "name", name))
        return false;
    edits = cJSON_AddObjectToObject(device, "containerEdits");
    env = cJSON_AddArrayToObject(edits, "env");
    return add_variable(env, "NPUD_SOCKET", tree->socket) &&
           (!visible || add_variable(env, "ASCEND_RT_VISIBLE_DEVICES", visible));
}

static bool add_devices(cJSON *document, const struct tree *tree, const Npud__Report *report)
{
    cJSON *devices = cJSON_AddArrayToObject(document, "devices");
    char number[16];

    for (size_t i = 0; i < report->n_devices; i++) {
        snprintf(number, sizeof(number), "%u", report->devices[i]->device);
        if (!add_device(devices, tree, number, number))
            return false;
    }
    return add_device(devices, tree, "all", NULL);
}

/* NULL: no memory. The caller frees it. */
static char *document_print(const Npud__Report *report, const struct tree *tree)
{
    cJSON *document = cJSON_CreateObject(), *edits;
    char *text = NULL;

    if (cJSON_AddStringToObject(document, "cdiVersion", CDI_VERSION) &&
        cJSON_AddStringToObject(document, "kind", CDI_KIND) &&
        add_devices(document, tree, report) &&
        (edits = cJSON_AddObjectToObject(document, "containerEdits")) &&
        add_environment(edits, tree) && add_mounts(edits, tree))
        text = cJSON_Print(document);
    cJSON_Delete(document);
    return text;
}

/* --- the file --- */

/* Under its name the file is always whole, because runtimes read all files of the folder. */
static bool file_replace(const char *path, const char *text)
{
    char *folder = strdup(path), *temporary = NULL;
    bool written = false;
    FILE *f = NULL;
    int fd = -1;

    if (folder && asprintf(&temporary, "%s.XXXXXX", path) >= 0) {
        mkdir(dirname(folder), 0755); /* the usual folder may not be there; the others are */
        fd = mkostemp(temporary, O_CLOEXEC);
        f = fd >= 0 ? fdopen(fd, "w") : NULL;
    }
    if (f) {
        written = fprintf(f, "%s\n", text) > 0 && fchmod(fd, 0644) == 0;
        written = fclose(f) == 0 && written && rename(temporary, path) == 0;
        if (!written)
            unlink(temporary);
    }
    free(temporary);
    free(folder);
    return written;
}

enum status cdi_print(const Npud__Report *report, const struct task *task)
{
    const char *output = task->output ? task->output : CDI_OUTPUT_DEFAULT;
    struct tree tree;
    enum status status = find_tree(&tree);
    char *text;

    if (status != STATUS_OK)
        return status;
    text = document_print(report, &tree);
    if (!text) {
        fputs("npuctl: no memory\n", stderr);
        return STATUS_ERROR;
    }
    if (strcmp(output, "-") == 0) {
        puts(text);
        status = print_end(true);
    } else if (!file_replace(output, text)) {
        status = explain_missing(output, "a folder that may be written to can be named by "
                                         "--output=FILE");
    } else {
        printf("npuctl: wrote %s\n", output);
        status = print_end(true);
    }
    free(text);
    return status;
}
