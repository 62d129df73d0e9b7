/*
 * npud cannot be reached: what the first call of a program says, in one sentence with the command
 * that mends it. Each process looks at a socket of the test's own, without npud, from a root folder
 * or as a user of its own.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"

#define DAEMON 1 /* a group that every Debian has */

static char folder[] = "/tmp/npud-test-unreachable.XXXXXX";
static char path[64];

/* Of sockets that listen, the test keeps the descriptor. */
static int make_socket(int type, mode_t mode, gid_t group, bool listens)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    strcpy(addr.sun_path, path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    ck_assert_int_eq(chown(path, (uid_t)-1, group), 0);
    if (listens)
        ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chmod(folder, 0711), 0);
    snprintf(path, sizeof(path), "%s/npud.sock", folder);
    setenv("NPUD_SOCKET", path, 1);
    unsetenv("container");
    unsetenv("KUBERNETES_SERVICE_HOST");
}

static void remove_folder(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Of a process: its root folder and its user; what the first call says. */
struct look {
    bool in_root;         /* the folder is its root: nothing of this machine is there */
    bool as_second;       /* it is one of the second user, ... */
    gid_t group;          /* ... with this group, if that is not 0 */
    const char *words[4]; /* behind the name of the call */
};

static void look_around(const struct look *look)
{
    if (look->in_root) {
        if (geteuid() != 0)
            ck_assert_int_eq(unshare(CLONE_NEWUSER), 0);
        ck_assert_int_eq(chroot(folder), 0);
        setenv("NPUD_SOCKET", "/npud.sock", 1);
    }
    if (look->as_second)
        ck_assert(setgroups(0, NULL) == 0 && setgid(look->group ? look->group : SECOND_USER) == 0 &&
                  setuid(SECOND_USER) == 0);
}

static int expect_words(void *arg)
{
    const struct look *look = arg;
    aclError error;
    const char *text;

    look_around(look);
    if (aclInit(NULL) != 0)
        return 1;
    error = aclrtSetDevice(0);
    text = aclGetRecentErrMsg();
    ck_assert_msg(error == ACL_ERROR_RT_NO_DEVICE && text, "%d: %s", error, text);
    ck_assert_msg(strstr(text, "aclrtSetDevice: ") && !strchr(text, '\n'), "%s", text);
    for (size_t i = 0; i < sizeof(look->words) / sizeof(look->words[0]) && look->words[i]; i++)
        ck_assert_msg(strstr(text, look->words[i]), "no \"%s\" in: %s", look->words[i], text);
    return 0;
}

static void expect(struct look look)
{
    child_expect_ok(child_start(expect_words, &look));
}

/* A process that is not root needs a user namespace for a root folder of its own. */
static bool need_roots(const char *test)
{
    pid_t pid;

    if (geteuid() == 0)
        return true;
    pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER) < 0);
    return child_reap(pid) == 0 || need_lacks(test, "user namespaces");
}

static void touch(const char *name)
{
    char file[96];
    int fd;

    snprintf(file, sizeof(file), "%s/%s", folder, name);
    fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

START_TEST(no_socket_on_a_host)
{
    if (need_roots(__func__))
        expect((struct look){.in_root = true,
                             .words = {"cannot reach npud at /npud.sock, where NPUD_SOCKET says",
                                       "npud is not running", "systemctl start npud.socket",
                                       "npu-run"}});
}
END_TEST

static void make_folder_in_root(const char *name)
{
    char path_there[96];

    snprintf(path_there, sizeof(path_there), "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(path_there, 0755), 0);
}

/* By each of the marks that containers have. */
START_TEST(no_socket_in_a_container)
{
    static const char *const marks[] = {"/.dockerenv", "/run/.containerenv",
                                        "/run/systemd/container"};

    if (!need_roots(__func__))
        return;
    make_folder_in_root("run");
    make_folder_in_root("run/systemd");
    if (_i < 3)
        touch(marks[_i]);
    else
        setenv(_i == 3 ? "container" : "KUBERNETES_SERVICE_HOST", "podman", 1);
    expect((struct look){.in_root = true,
                         .words = {"this container has no such socket", "npuctl cdi",
                                   "podman run --device npud/npu=all",
                                   "docker run -v /npud.sock:/npud.sock"}});
    make_socket(SOCK_SEQPACKET, 0666, (gid_t)-1, false);
    expect((struct look){
        .in_root = true,
        .words = {"on the host, systemctl restart npud.socket", "start the container again"}});
}
END_TEST

/* That of systemd-nspawn, for example: npud may run there as on a host. */
START_TEST(no_socket_in_a_container_with_units)
{
    if (!need_roots(__func__))
        return;
    make_folder_in_root("run");
    make_folder_in_root("run/systemd");
    make_folder_in_root("run/systemd/system");
    touch("/run/systemd/container");
    expect((struct look){.in_root = true, .words = {"systemctl start npud.socket"}});
}
END_TEST

START_TEST(nobody_listens)
{
    if (!need_roots(__func__))
        return;
    close(make_socket(SOCK_SEQPACKET, 0666, (gid_t)-1, false));
    expect((struct look){.in_root = true,
                         .words = {"has ended", "systemctl restart npud.socket", "npu-run"}});
}
END_TEST

START_TEST(no_socket_of_npud)
{
    int fd = make_socket(SOCK_STREAM, 0666, (gid_t)-1, true);

    expect((struct look){.words = {"socket there is one of another program"}});
    close(fd);
    unlink(path);
    touch("npud.sock");
    expect((struct look){.words = {"is no socket, and so not npud's"}});
}
END_TEST

START_TEST(user_without_the_group)
{
    int fd;

    if (!need_root(__func__))
        return;
    fd = make_socket(SOCK_SEQPACKET, 0660, DAEMON, true);
    expect((struct look){.as_second = true,
                         .words = {"refuses this user", "members of group \"daemon\"",
                                   "usermod -aG daemon nobody", "log in anew"}});
    close(fd);
}
END_TEST

/* The main group of the second user is one that this process is without. */
START_TEST(user_whose_login_is_older_than_the_group)
{
    int fd;

    if (!need_root(__func__))
        return;
    fd = make_socket(SOCK_SEQPACKET, 0660, SECOND_USER, true);
    expect((struct look){.as_second = true,
                         .group = DAEMON,
                         .words = {"nobody is one", "log in anew", "sg nogroup -c COMMAND"}});
    close(fd);
}
END_TEST

START_TEST(folder_that_is_closed)
{
    char words[128];
    int fd;

    if (!need_root(__func__))
        return;
    fd = make_socket(SOCK_SEQPACKET, 0666, (gid_t)-1, true);
    ck_assert_int_eq(chmod(folder, 0700), 0);
    snprintf(words, sizeof(words), "by the rights of %s: run the program as user root", folder);
    expect((struct look){
        .as_second = true,
        .words = {"only root and the user that runs that npud", words, "npu-run PROGRAM"}});
    close(fd);
}
END_TEST

START_TEST(socket_of_one_user)
{
    char words[128];
    int fd;

    if (!need_root(__func__))
        return;
    fd = make_socket(SOCK_SEQPACKET, 0600, (gid_t)-1, true);
    snprintf(words, sizeof(words), "by the rights of %s: run the program as user root", path);
    expect((struct look){.as_second = true, .words = {"refuses this user", words}});
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unreachable");
    TCase *tc = suite_case(suite, "unreachable", 60, make_folder, remove_folder);

    tcase_add_test(tc, no_socket_on_a_host);
    tcase_add_loop_test(tc, no_socket_in_a_container, 0, 5);
    tcase_add_test(tc, no_socket_in_a_container_with_units);
    tcase_add_test(tc, nobody_listens);
    tcase_add_test(tc, no_socket_of_npud);
    tcase_add_test(tc, user_without_the_group);
    tcase_add_test(tc, user_whose_login_is_older_than_the_group);
    tcase_add_test(tc, folder_that_is_closed);
    tcase_add_test(tc, socket_of_one_user);
    return run_suite(suite);
}
