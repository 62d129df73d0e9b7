/* What is installed: configuration, units, library, toolkit tree, and the file for containers. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npuctl/doctor_check.h"
#include "client/tools/npuctl/helper.h"
#include "client/tools/npuctl/json.h"
#include "proto/util/beside.h"

#define LIBRARY "libaclclient.so.1"

/* All lines of a program as one sentence; "npud: error: " before each goes without saying. */
static void join_lines(char *text)
{
    static const char prefix[] = "npud: error: ";
    char *to = text, *next;

    for (char *line = text; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
            line += sizeof(prefix) - 1;
        if (to != text)
            to = stpcpy(to, "; ");
        memmove(to, line, strlen(line) + 1);
        to += strlen(to);
    }
}

/* npud --check-config, of the npud that npu-run starts, too. */
enum verdict check_configuration(const struct host *host, struct finding *f)
{
    const char *named = secure_getenv("NPUD_BINARY");
    char path[BESIDE_PATH], text[FINDING_TEXT / 2];
    char *argv[] = {(char *)(named && named[0] ? named : beside_find("npud", path)),
                    (char *)"--check-config", NULL};
    int r;

    if (host->own)
        return finding_say(f, VERDICT_SKIP, "NPUD_SOCKET names an npud of a user");
    r = helper_read(argv, text, sizeof(text));
    if (r == 0)
        return finding_say(f, VERDICT_OK, "npud --check-config: nothing is wrong");
    if (r == -ENOENT)
        return finding_say(f, VERDICT_SKIP, "npud is not installed here");
    join_lines(text);
    if (r < 0)
        return finding_say(f, VERDICT_FAIL, "npud --check-config: %s", strerror(-r));
    return finding_say(f, VERDICT_FAIL, "npud --check-config: %s", text);
}

/* --- units --- */

static enum verdict judge_unit(struct finding *f, const char *unit)
{
    char text[256];
    char *argv[] = {(char *)"systemctl", (char *)"is-active", (char *)unit, NULL};
    int r = helper_read(argv, text, sizeof(text));

    if (r == 0)
        return VERDICT_OK;
    if (r < 0)
        return finding_say(f, VERDICT_SKIP, "systemctl: %s", strerror(-r));
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(text, "failed") == 0)
        finding_cure(f, "systemctl status %s says why; systemctl restart %s", unit, unit);
    return finding_say(f, VERDICT_FAIL, "%s is %s", unit, text);
}

enum verdict check_units(const struct host *host, struct finding *f)
{
    static const char *const units[] = {"npud.socket", "npud-admin.socket"};
    enum verdict verdict;

    if (access("/run/systemd/system", F_OK) < 0)
        return finding_say(f, VERDICT_SKIP, "systemd does not run here");
    if (host->own)
        return finding_say(f, VERDICT_SKIP, "NPUD_SOCKET names an npud of a user");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        verdict = judge_unit(f, units[i]);
        if (verdict != VERDICT_OK)
            return verdict;
    }
    return finding_say(f, VERDICT_OK, "npud.socket and npud-admin.socket are active");
}

/* --- what programs are linked with --- */

/* As the dynamic linker finds it for programs: by its cache, and by LD_LIBRARY_PATH. */
enum verdict check_library(const struct host *host, struct finding *f)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map = NULL;
    enum verdict verdict;

    (void)host;
    if (!library)
        return finding_say(f, VERDICT_WARN, "%s", dlerror());
    dlinfo(library, RTLD_DI_LINKMAP, &map);
    verdict = finding_say(f, VERDICT_OK, "programs get %s", map ? map->l_name : LIBRARY);
    dlclose(library);
    return verdict;
}

/* Where the name of a library in the tree leads. False: it is not there. */
static bool resolve_library(const char *tree, char *real)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/lib64/libascendcl.so", tree) < (int)sizeof(path) &&
           realpath(path, real);
}

static bool find_own_tree(char *tree)
{
    char path[BESIDE_PATH], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;

    path[n < 0 ? 0 : n] = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return snprintf(real, sizeof(real), "%s/../lib/npud/ascend-toolkit", path) <
               (int)sizeof(real) &&
           realpath(real, tree);
}

enum verdict check_toolkit(const struct host *host, struct finding *f)
{
    const char *home = secure_getenv("ASCEND_HOME_PATH");
    char own[PATH_MAX], real[PATH_MAX];
    bool has_own = find_own_tree(own);

    (void)host;
    if ((!home || !home[0]) && !has_own)
        return finding_say(f, VERDICT_SKIP, "no toolkit tree: for programs written for CANN only");
    if (!home || !home[0])
        return finding_say(f, resolve_library(own, real) ? VERDICT_OK : VERDICT_FAIL,
                           "%.300s: . %.300s/set_env.sh chooses it", own, own);
    if (has_own)
        finding_cure(f, ". %.300s/set_env.sh", own);
    if (!resolve_library(home, real))
        return finding_say(f, VERDICT_FAIL, "ASCEND_HOME_PATH=%.300s: %s", home, strerror(errno));
    if (!strstr(real, "/libaclclient.so"))
        return finding_say(f, VERDICT_WARN,
                           "ASCEND_HOME_PATH=%.300s is of another vendor: programs get that one's "
                           "library, and not npud's",
                           home);
    return finding_say(f, VERDICT_OK, "ASCEND_HOME_PATH=%.300s is npud's", home);
}

/* --- containers --- */

/* What the host has no more stops each container that wants an NPU. */
static enum verdict judge_cdi(struct finding *f, const cJSON *document)
{
    const cJSON *edits = cJSON_GetObjectItem(document, "containerEdits");
    const cJSON *mounts = cJSON_GetObjectItem(edits, "mounts"), *mount;

    if (!cJSON_IsArray(mounts))
        return finding_say(f, VERDICT_FAIL, "%s is not what npuctl cdi writes", CDI_OUTPUT_DEFAULT);
    cJSON_ArrayForEach (mount, mounts) {
        const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(mount, "hostPath"));

        if (!path || access(path, F_OK) < 0)
            return finding_say(f, VERDICT_FAIL, "%s names %.300s: %s", CDI_OUTPUT_DEFAULT,
                               path ? path : "nothing", strerror(path ? errno : EINVAL));
    }
    return finding_say(f, VERDICT_OK, "%s: all that it gives to containers is there",
                       CDI_OUTPUT_DEFAULT);
}

enum verdict check_cdi(const struct host *host, struct finding *f)
{
    cJSON *document = json_read(CDI_OUTPUT_DEFAULT);
    enum verdict verdict;

    (void)host;
    if (!document && errno == ENOENT) {
        finding_cure(f, "npuctl cdi, if containers are to have NPUs");
        return finding_say(f, VERDICT_SKIP, "%s: not there", CDI_OUTPUT_DEFAULT);
    }
    if (!document && errno != EBADMSG)
        return finding_say(f, VERDICT_WARN, "%s: %s", CDI_OUTPUT_DEFAULT, strerror(errno));
    verdict = judge_cdi(f, document);
    cJSON_Delete(document);
    return verdict;
}
