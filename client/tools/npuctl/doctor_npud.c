/* Whether npud answers, to whom, and what it says of itself. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/core/access.h"
#include "client/tools/npuctl/doctor_check.h"
#include "client/tools/npuctl/helper.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/beside.h"
#include "proto/util/lift_fd.h"
#include "proto/wire/packet.h"

#define FULL(used, limit) ((limit) > 0 && (used) >= (limit) - (limit) / 10) /* nine tenths */

/* --- sockets --- */

/* The socket cannot be connected to: why, and what mends that. */
static enum verdict tell_no_socket(struct finding *f, enum verdict verdict, const char *path,
                                   int error)
{
    char mended[ACCESS_TEXT_MAX];

    access_explain(path, error, mended, sizeof(mended));
    finding_cure(f, "%s", mended);
    return finding_say(f, verdict, "%s: %s", path, strerror(error));
}

static enum verdict judge_hello(struct finding *f, const char *path, const Npud__Reply *reply)
{
    const Npud__HelloReply *hello = reply->hello;

    if (reply->error != 0 || reply->body_case != NPUD__REPLY__BODY_HELLO) {
        finding_cure(f, "what the sentence says");
        return finding_say(f, VERDICT_FAIL, "%s: npud refuses: %s (error %d)", path, reply->message,
                           (int)reply->error);
    }
    return finding_say(f, VERDICT_OK, "%s: %zu devices (%s), protocol %u", path, hello->n_devices,
                       hello->backend, PROTOCOL);
}

/* Connects as a program does, and leaves in order: npud counts no death. */
static enum verdict say_hello(struct finding *f, struct connection *c)
{
    static struct packet packet;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__LeaveSession leave = NPUD__LEAVE_SESSION__INIT;
    enum verdict verdict;
    Npud__Reply *reply;

    hello.protocol = PROTOCOL;
    hello.program = (char *)"npuctl";
    request.id = 1;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    request.hello = &hello;
    reply = connection_ask(c, &request.base, &npud__reply__descriptor, &packet);
    if (!reply)
        return finding_say(f, VERDICT_FAIL, "%s: npud does not answer", c->path);
    verdict = judge_hello(f, c->path, reply);
    npud__reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    request.id = 2;
    request.body_case = NPUD__REQUEST__BODY_LEAVE_SESSION;
    request.leave_session = &leave;
    if (verdict == VERDICT_OK)
        reply = connection_ask(c, &request.base, &npud__reply__descriptor, &packet);
    if (verdict == VERDICT_OK && reply)
        npud__reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return verdict;
}

enum verdict check_programs_socket(const struct host *host, struct finding *f)
{
    struct connection c = {.path = host->programs, .limit = ANSWER_LIMIT_S};
    int r = connection_open(&c);
    enum verdict verdict;

    if (r < 0)
        return tell_no_socket(f, VERDICT_FAIL, host->programs, -r);
    verdict = say_hello(f, &c);
    connection_close(&c);
    return verdict;
}

/* Most users are no administrators, and a container has no such socket: that is as it should be. */
enum verdict check_admin_socket(const struct host *host, struct finding *f)
{
    struct connection c = {.path = host->admin, .limit = ANSWER_LIMIT_S};
    int r = connection_open(&c);

    connection_close(&c);
    if (host->status)
        return finding_say(f, VERDICT_OK, "%s: this user is an administrator", host->admin);
    if (r == 0)
        return finding_say(f, VERDICT_FAIL, "%s: npud does not answer", host->admin);
    if (r == -EACCES)
        return tell_no_socket(f, VERDICT_SKIP, host->admin, -r);
    if (access_in_container() && !host->own)
        return finding_say(f, VERDICT_SKIP, "%s: for administrators, on the host", host->admin);
    return tell_no_socket(f, VERDICT_FAIL, host->admin, -r);
}

/* --- groups --- */

static bool process_has_group(gid_t gid)
{
    gid_t groups[1024];
    int n = getgroups(sizeof(groups) / sizeof(groups[0]), groups);
    bool found = getegid() == gid;

    for (int i = 0; i < n && !found; i++)
        found = groups[i] == gid;
    return found;
}

/* The groups of the next login. */
static bool user_has_group(gid_t gid)
{
    gid_t groups[1024];
    int n = sizeof(groups) / sizeof(groups[0]);
    const struct passwd *user = getpwuid(getuid());
    bool found = false;

    if (!user || getgrouplist(user->pw_name, user->pw_gid, groups, &n) < 0)
        return false;
    for (int i = 0; i < n && !found; i++)
        found = groups[i] == gid;
    return found;
}

/* The user was made a member after the login that this process is of. */
enum verdict check_groups(const struct host *host, struct finding *f)
{
    const char *paths[] = {host->programs, host->admin};
    const struct group *group;
    struct stat is;

    if (getuid() == 0 || host->own)
        return finding_say(f, VERDICT_SKIP, "%s",
                           host->own ? "an npud of a user has no group" : "root needs no group");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (stat(paths[i], &is) < 0 || process_has_group(is.st_gid) || !user_has_group(is.st_gid))
            continue;
        group = getgrgid(is.st_gid);
        return finding_say(f, VERDICT_FAIL,
                           "this user is a member of group %s, but this login is older than that",
                           group ? group->gr_name : "?");
    }
    return finding_say(f, VERDICT_OK, "this login has the groups of its user");
}

/* --- what npud says --- */

/* "npud 1.2.3" becomes 1.2.3. False: there is no such program, or it says something else. */
static bool ask_installed(char *text, size_t size)
{
    char path[BESIDE_PATH], *version;
    char *argv[] = {(char *)beside_find("npud", path), (char *)"--version", NULL};

    if (helper_read(argv, text, size) != 0 || strncmp(text, "npud ", 5) != 0)
        return false;
    version = text + 5;
    version[strcspn(version, "\n")] = '\0';
    memmove(text, version, strlen(version) + 1);
    return true;
}

enum verdict check_versions(const struct host *host, struct finding *f)
{
    const char *running =
        host->status && host->status->n_status > 0 ? host->status->status[0]->version : NULL;
    char installed[64];
    bool is_there = ask_installed(installed, sizeof(installed));

    if (!running)
        return finding_say(f, VERDICT_SKIP,
                           "npuctl %s, npud installed: %s, running: not known here", NPUD_VERSION,
                           is_there ? installed : "none");
    if (is_there && strcmp(installed, running) != 0)
        return finding_say(f, VERDICT_WARN, "npud %s runs, and %s is installed", running,
                           installed);
    if (strcmp(running, NPUD_VERSION) != 0) {
        finding_cure(f, "install npuctl and npud of one version");
        return finding_say(f, VERDICT_WARN, "npud %s runs, and this npuctl is %s", running,
                           NPUD_VERSION);
    }
    return finding_say(f, VERDICT_OK, "npud and npuctl are %s", running);
}

enum verdict check_devices(const struct host *host, struct finding *f)
{
    size_t n = host->devices ? host->devices->n_devices : 0;

    if (!host->devices)
        return finding_say(f, VERDICT_SKIP, "npud tells administrators only");
    for (size_t i = 0; i < n; i++) {
        const Npud__DeviceRow *device = host->devices->devices[i];

        if (strcmp(device->state, "up") != 0)
            return finding_say(f, VERDICT_FAIL, "device %u is %s", device->device, device->state);
    }
    return finding_say(f, VERDICT_OK, "%zu devices are up", n);
}

enum verdict check_limits(const struct host *host, struct finding *f)
{
    size_t n = host->limits ? host->limits->n_limits : 0;

    if (!host->limits)
        return finding_say(f, VERDICT_SKIP, "npud tells administrators only");
    for (size_t i = 0; i < n; i++) {
        const Npud__LimitRow *row = host->limits->limits[i];

        if (FULL(row->used, row->limit))
            return finding_say(f, VERDICT_WARN,
                               "user %u has %" PRIu64 " of %" PRIu64 " in limits.%s", row->uid,
                               row->used, row->limit, row->resource);
    }
    return finding_say(f, VERDICT_OK, "no user has nine tenths of a limit");
}

/* Of another process, as /proc tells anybody. 0: it does not. */
static unsigned long long descriptors_of(int32_t pid)
{
    unsigned long long max = 0;
    char path[64], line[256];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
    file = lift_open(path);
    while (file && max == 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "Max open files %llu", &max) != 1)
            max = 0;
    if (file)
        fclose(file);
    return max;
}

enum verdict check_npud_descriptors(const struct host *host, struct finding *f)
{
    const Npud__StatusRow *status =
        host->status && host->status->n_status > 0 ? host->status->status[0] : NULL;
    unsigned long long max = status ? descriptors_of(status->pid) : 0;

    if (max == 0)
        return finding_say(f, VERDICT_SKIP, "npud's process is not seen from here");
    return finding_say(f, FULL(status->fds, max) ? VERDICT_WARN : VERDICT_OK,
                       "npud has %u of %llu descriptors", status->fds, max);
}
