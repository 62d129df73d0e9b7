/*
 * A program that has more rights than its caller. Guards that its caller chooses neither its npud
 * (NPUD_SOCKET) nor its devices (ASCEND_RT_VISIBLE_DEVICES). The program is a copy of this one,
 * setuid to root, that a second user runs: this takes root, and a view of /run of its own.
 */
#include <dlfcn.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"

#define SECOND_USER 65534
#define DEVICES     2 /* of the npud of each test */
#define NO_NPUD     100

/* The program: exits with the number of devices that it sees. At once, as a leak checker cannot
 * look into a setuid process. */
static int count_devices(void)
{
    uint32_t n = 0;

    if (aclInit(NULL) != 0 || aclrtGetDeviceCount(&n) != 0)
        n = NO_NPUD;
    _exit((int)n);
}

struct run {
    const char *program, *socket, *visible;
    const char *npud; /* the socket that stands at the place that the library looks at, or NULL */
};

/* What this process mounts from here on no other one sees. A chroot has a / that cannot do that. */
static bool leave_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int run_as_second_user(void *arg)
{
    const struct run *run = arg;

    if (!leave_mounts() || mount("none", "/run", "tmpfs", 0, "mode=755") != 0 ||
        mkdir("/run/npud", 0755) != 0)
        return NO_NPUD + 1;
    if (run->npud && symlink(run->npud, "/run/npud/npud.sock") != 0)
        return NO_NPUD + 2;
    setenv("NPUD_SOCKET", run->socket, 1);
    setenv("LD_LIBRARY_PATH", npud.dir, 1); /* of the plain program: no setuid program reads it */
    setenv("ASCEND_RT_VISIBLE_DEVICES", run->visible, 1);
    if (setgroups(0, NULL) != 0 || setgid(SECOND_USER) != 0 || setuid(SECOND_USER) != 0)
        return NO_NPUD + 3;
    execl(run->program, run->program, "--count-devices", NULL);
    return NO_NPUD + 4;
}

static int devices_seen(struct run run)
{
    int status = child_reap(child_start(run_as_second_user, &run));

    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A copy in npud's directory. */
static char *copy_file(const char *from, const char *name, mode_t mode)
{
    char *path, *command;

    ck_assert_int_gt(asprintf(&path, "%s/%s", npud.dir, name), 0);
    ck_assert_int_gt(asprintf(&command, "cp '%s' %s", from, path), 0);
    ck_assert_int_eq(system(command), 0);
    free(command);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

static void remove_copy(char *path)
{
    unlink(path);
    free(path);
}

/* The library, which the second user cannot reach where the tree is, if that is in /root. */
static char *copy_library(void)
{
    Dl_info library;

    ck_assert_int_ne(dladdr((void *)aclInit, &library), 0);
    return copy_file(library.dli_fname, "libaclclient.so.1", 0755);
}

static bool may_run(const char *test)
{
    struct statvfs fs;
    pid_t pid;

    if (!need_root(test))
        return false;
    if (statvfs("/tmp", &fs) != 0 || (fs.f_flag & (ST_NOSUID | ST_NOEXEC)))
        return need_lacks(test, "a /tmp with setuid programs");
    pid = fork();
    if (pid == 0)
        _exit(!leave_mounts());
    return child_reap(pid) == 0 || need_lacks(test, "mount namespaces, and / as a mount point");
}

START_TEST(caller_chooses_no_npud_and_no_devices)
{
    char *plain, *setuid_copy, *library, *socket, self[32];

    if (!may_run(__func__))
        return;
    npud_setup();
    ck_assert_int_gt(asprintf(&socket, "%s/npud.sock", npud.dir), 0);
    ck_assert_int_eq(chmod(npud.dir, 0755), 0);
    ck_assert_int_eq(chmod(socket, 0666), 0);
    snprintf(self, sizeof(self), "/proc/%d/exe", (int)getpid());
    plain = copy_file(self, "plain", 0755);
    setuid_copy = copy_file(self, "setuid", 04755);
    library = copy_library();

    ck_assert_int_eq(devices_seen((struct run){plain, socket, "1", NULL}), 1);
    ck_assert_int_eq(devices_seen((struct run){setuid_copy, socket, "1", NULL}), NO_NPUD);
    ck_assert_int_eq(devices_seen((struct run){plain, "/nowhere", "1", socket}), NO_NPUD);
    ck_assert_int_eq(devices_seen((struct run){setuid_copy, "/nowhere", "1", socket}), DEVICES);

    remove_copy(plain);
    remove_copy(setuid_copy);
    remove_copy(library);
    free(socket);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("privileged");
    TCase *t;

    if (argc > 1 && strcmp(argv[1], "--count-devices") == 0)
        return count_devices();
    t = suite_case(suite, "environment", 60, NULL, NULL);
    tcase_add_test(t, caller_chooses_no_npud_and_no_devices);
    return run_suite(suite);
}
