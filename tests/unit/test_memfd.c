/* daemon/base/memfd: what another user can do with a descriptor of npud's memory. */
#include "daemon/base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/need.h"
#include "unit.h"

#define SECOND_USER 65534

static mode_t mode_of(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    return st.st_mode & 07777;
}

static int open_again(int fd, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

START_TEST(only_its_user_can_open_it_again)
{
    int fd = memfd_new("test", 4096), report = memfd_new_empty("test");

    ck_assert_int_eq(mode_of(fd), 0600);
    ck_assert_int_eq(mode_of(report), 0600);
    ck_assert_int_ge(open_again(fd, O_RDONLY), 0);
    ck_assert_int_eq(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}
END_TEST

/* What it was given for reading, it can read, and nothing else. */
static int try_to_write(int fd)
{
    if (setgid(SECOND_USER) != 0 || setuid(SECOND_USER) != 0)
        return 1;
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        return 2;
    if (open_again(fd, O_RDWR) >= 0 || errno != EACCES)
        return 3;
    if (open_again(fd, O_RDONLY) >= 0 || fchmod(fd, 0777) == 0)
        return 4;
    return 0;
}

START_TEST(another_user_cannot)
{
    int fd, status;
    pid_t pid;

    if (!need_root(__func__))
        return;
    fd = open_again(memfd_new("test", 4096), O_RDONLY);
    pid = fork();
    if (pid == 0)
        _exit(try_to_write(fd));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memfd");
    TCase *t = suite_case(suite, "mode", 0, NULL, NULL);

    tcase_add_test(t, only_its_user_can_open_it_again);
    tcase_add_test(t, another_user_cannot);
    return run_suite(suite);
}
