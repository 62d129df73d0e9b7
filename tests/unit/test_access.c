/* client/core/access: what a user who is refused is told. */
#include "client/core/access.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/need.h"
#include "unit.h"

static char path[] = "/tmp/npud-test-access.XXXXXX";
static char text[ACCESS_TEXT_MAX];

/* As a socket for a group: that of this process. */
static void make_file(void)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, 0660), 0);
    close(fd);
}

static void remove_file(void)
{
    ck_assert_int_eq(unlink(path), 0);
}

static void write_file(const char *name, const char *what)
{
    FILE *f = fopen(name, "we");

    ck_assert_ptr_nonnull(f);
    fputs(what, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void expect_words(const char *words)
{
    access_explain(path, EACCES, text, sizeof(text));
    if (!strstr(text, words))
        ck_abort_msg("no \"%s\" in: %s", words, text);
}

START_TEST(a_group_is_named)
{
    const struct group *group = getgrgid(getegid());
    char words[128];

    snprintf(words, sizeof(words), group ? "group \"%s\"" : "group \"%.0s%u\"",
             group ? group->gr_name : "", (unsigned)getegid());
    errno = EACCES;
    expect_words(words);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_eq(chmod(path, 0600), 0);
    expect_words("the user that runs that npud");
}
END_TEST

START_TEST(a_group_of_the_host_is_not_named)
{
    if (unshare(CLONE_NEWUSER) < 0) {
        need_lacks(__func__, "user namespaces");
        return;
    }
    expect_words("--group-add keep-groups");
    ck_assert_ptr_null(strstr(text, "65534"));
    ck_assert_ptr_null(strstr(text, "usermod"));
}
END_TEST

/* As the group that a container has as its root's. */
START_TEST(a_group_that_is_mapped_is_named)
{
    char map[32];

    snprintf(map, sizeof(map), "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) < 0) {
        need_lacks(__func__, "user namespaces");
        return;
    }
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/gid_map", map);
    expect_words("usermod -aG root ");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("access");
    TCase *t = suite_case(s, "explain", 0, make_file, remove_file);

    tcase_add_test(t, a_group_is_named);
    tcase_add_test(t, a_group_of_the_host_is_not_named);
    tcase_add_test(t, a_group_that_is_mapped_is_named);
    return run_suite(s);
}
