/*
 * Versions of the packages of a CANN installation, which may stand beside npud: files that say
 * "Version=8.5.0". And attributes of the installation, which is npud.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "proto/util/lift_fd.h"

#define INSTALL_INFO "/etc/ascend_install.info"

/* --- files of key=value lines --- */

/* The first such line. False: there is no such file, or no such line in it. */
static bool read_value(const char *path, const char *key, char value[ACL_PKG_VERSION_MAX_SIZE])
{
    FILE *f = lift_open(path);
    size_t n = strlen(key);
    bool found = false;
    char line[PATH_MAX];

    if (!f)
        return false;
    while (!found && fgets(line, sizeof(line), f)) {
        found = strncmp(line, key, n) == 0 && line[n] == '=';
        if (!found)
            continue;
        line[strcspn(line, "\r\n")] = '\0';
        snprintf(value, ACL_PKG_VERSION_MAX_SIZE, "%s", line + n + 1);
    }
    fclose(f);
    return found;
}

/* --- packages --- */

/* The driver is not part of the toolkit: where it is, its installer has noted. */
static bool read_driver_version(const char *package, char version[ACL_PKG_VERSION_MAX_SIZE])
{
    char path[PATH_MAX], folder[ACL_PKG_VERSION_MAX_SIZE];
    const char *key = strcmp(package, "driver") == 0 ? "Driver_Install_Path_Param"
                                                     : "Firmware_Install_Path_Param";

    return read_value(INSTALL_INFO, key, folder) &&
           snprintf(path, sizeof(path), "%s/%s/version.info", folder, package) <
               (int)sizeof(path) &&
           read_value(path, "Version", version);
}

static bool read_package_version(const char *home, const char *package,
                                 char version[ACL_PKG_VERSION_MAX_SIZE])
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/share/info/%s/version.info", home, package) <
               (int)sizeof(path) &&
           read_value(path, "Version", version);
}

/* "a_b" for "a-b", and the other way round. */
static void swap_dashes(char *name)
{
    for (; *name; name++)
        *name = *name == '-' ? '_' : *name == '_' ? '-' : *name;
}

static bool find_version(const char *package, char version[ACL_PKG_VERSION_MAX_SIZE])
{
    const char *home = getenv("ASCEND_HOME_PATH");
    char other[NAME_MAX + 1];

    if (strcmp(package, "driver") == 0 || strcmp(package, "firmware") == 0)
        return read_driver_version(package, version);
    if (!home || strlen(package) >= sizeof(other) || strchr(package, '/'))
        return false;
    strcpy(other, package);
    swap_dashes(other);
    return read_package_version(home, package, version) ||
           read_package_version(home, other, version);
}

static int get_version(const char *function, const char *package,
                       char version[ACL_PKG_VERSION_MAX_SIZE])
{
    if (find_version(package, version))
        return 0;
    return error_set(ACL_ERROR_INVALID_FILE,
                     "%s: no version of the package %s: there is no line Version= in "
                     "$ASCEND_HOME_PATH/share/info/<package>/version.info, or, for driver and "
                     "firmware, where " INSTALL_INFO " says",
                     function, package);
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    REQUIRE(pkgName);
    REQUIRE(versionStr);
    return get_version(__func__, pkgName, versionStr);
}

/* --- numbers --- */

/* Digits that make a number below limit. False: there are none, or too many. */
static bool read_number(const char **text, unsigned limit, unsigned *number)
{
    const char *begin = *text;

    for (*number = 0; **text >= '0' && **text <= '9' && *number < limit; (*text)++)
        *number = *number * 10 + (unsigned)(**text - '0');
    return *text != begin && *number < limit;
}

static bool skip_separator(const char **text)
{
    if (**text != '.' && **text != '-')
        return false;
    ++*text;
    return true;
}

/* What comes before a release, and how far its number is below the release's. */
static const struct stage {
    const char *name;
    int32_t shift;
} stages[] = {{"alpha", -300}, {"beta", -200}, {"rc", -100}};

static const struct stage *read_stage(const char **text)
{
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        size_t n = strlen(stages[i].name);

        if (strncasecmp(*text, stages[i].name, n) != 0)
            continue;
        *text += n;
        return &stages[i];
    }
    return NULL;
}

/* 8.5.0, 8.5.0.alpha001, 8.5.0-beta.2, 8.3.RC1. */
static bool number_of_version(const char *text, int32_t *number)
{
    unsigned major, minor, patch = 0, ahead = 0;
    const struct stage *stage;
    bool has_patch;

    if (!read_number(&text, 200, &major) || !skip_separator(&text) ||
        !read_number(&text, 100, &minor) || !skip_separator(&text))
        return false;
    has_patch = read_number(&text, 100, &patch);
    *number = (int32_t)(major * 10000000 + minor * 100000 + patch * 1000);
    if (has_patch && !*text)
        return true;
    if (has_patch)
        skip_separator(&text);
    stage = read_stage(&text);
    if (!stage)
        return false;
    if (*text) {
        skip_separator(&text);
        if (!read_number(&text, 100, &ahead))
            return false;
    }
    *number += stage->shift + (int32_t)ahead;
    return *text == '\0';
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
    char version[ACL_PKG_VERSION_MAX_SIZE];
    int32_t number;

    REQUIRE(pkgName);
    REQUIRE(versionNum);
    RETURN_IF_ERROR(get_version(__func__, pkgName, version));
    if (!number_of_version(version, &number))
        return error_set(ACL_ERROR_INTERNAL_ERROR,
                         "aclsysGetVersionNum: %s has the version \"%s\", which is not like 8.5.0 "
                         "or 8.5.0.alpha001",
                         pkgName, version);
    *versionNum = number;
    return 0;
}

/* --- parts of a version --- */

static void fill_parts(aclCANNPackageVersion *version)
{
    char text[ACL_PKG_VERSION_MAX_SIZE], *rest = text;
    char *parts[] = {version->majorVersion, version->minorVersion, version->releaseVersion,
                     version->patchVersion};

    strcpy(text, version->version);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && rest; i++)
        snprintf(parts[i], ACL_PKG_VERSION_PARTS_MAX_SIZE, "%s", strsep(&rest, "."));
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
    static const char *const packages[] = {
        [ACL_PKG_NAME_CANN] = "cann",
        [ACL_PKG_NAME_RUNTIME] = "runtime",
        [ACL_PKG_NAME_COMPILER] = "compiler",
        [ACL_PKG_NAME_HCCL] = "hccl",
        [ACL_PKG_NAME_TOOLKIT] = "toolkit",
        [ACL_PKG_NAME_OPP] = "opp",
        [ACL_PKG_NAME_OPP_KERNEL] = "opp_kernel",
        [ACL_PKG_NAME_DRIVER] = "driver",
    };
    aclCANNPackageVersion found = {.version = ""};

    REQUIRE(version);
    if ((unsigned)name >= sizeof(packages) / sizeof(packages[0]))
        return error_set(ACL_ERROR_INVALID_PARAM, "aclsysGetCANNVersion: there is no package %d",
                         (int)name);
    RETURN_IF_ERROR(get_version(__func__, packages[name], found.version));
    fill_parts(&found);
    *version = found;
    return 0;
}

/* --- attributes --- */

/* Reductions know Inf, NaN and BF16; there are no kernels that could be compiled. */
static const aclCannAttr attributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
static const int32_t available[] = {
    [ACL_CANN_ATTR_INF_NAN] = 1,
    [ACL_CANN_ATTR_BF16] = 1,
    [ACL_CANN_ATTR_JIT_COMPILE] = 0,
};

aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num)
{
    REQUIRE(cannAttrList);
    REQUIRE(num);
    *cannAttrList = attributes;
    *num = sizeof(attributes) / sizeof(attributes[0]);
    return 0;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value)
{
    REQUIRE(value);
    if ((unsigned)cannAttr >= sizeof(available) / sizeof(available[0]))
        return error_set(ACL_ERROR_INVALID_PARAM, "aclGetCannAttribute: there is no attribute %d",
                         (int)cannAttr);
    *value = available[cannAttr];
    return 0;
}
