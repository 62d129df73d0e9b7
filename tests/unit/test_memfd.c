/*
 * daemon/base/memfd: what another user can do with a descriptor of npud's memory.
 *
 * Skipped under the emulator: it answers madvise(MADV_REMOVE) by itself.
 */
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
#define PUNCH       (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

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
    if (open_again(fd, O_RDWR) >= 0 || (errno != EACCES && errno != EPERM))
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

/* Where the kernel lets npud say so: no process makes a hole, and all map the file as before. */
START_TEST(nobody_makes_holes)
{
    int fd = memfd_new("test", 4096), own = memfd_new_own("test", 4096);
    unsigned char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_eq(fallocate(own, PUNCH, 0, 4096), 0);
    if (!need_flags_of_files(__func__))
        return;
    map[0] = 7;
    ck_assert_int_eq(fallocate(fd, PUNCH, 0, 4096), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(madvise(map, 4096, MADV_REMOVE), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_uint_eq(map[0], 7);
}
END_TEST

START_TEST(files_of_all_kinds_have_no_holes)
{
    void *map;
    int fd[2];

    if (!need_flags_of_files(__func__))
        return;
    ck_assert_int_eq(memfd_map_new("test", 4096, &fd[0], &map), 0);
    ck_assert_int_eq(memfd_read_only_new("test", 4096, &fd[1], &map), 0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(fallocate(fd[i], PUNCH, 0, 4096), -1);
        ck_assert_int_eq(errno, EPERM);
    }
    ck_assert_int_eq(mode_of(fd[1]), 0400);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memfd");
    TCase *t = suite_case(suite, "mode", 0, NULL, NULL);

    tcase_add_test(t, only_its_user_can_open_it_again);
    tcase_add_test(t, another_user_cannot);
    tcase_add_test(t, nobody_makes_holes);
    tcase_add_test(t, files_of_all_kinds_have_no_holes);
    return run_suite(suite);
}
