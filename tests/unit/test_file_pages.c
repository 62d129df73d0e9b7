/* daemon/base/file_pages: what of a file is memory, found without a lock of the file. */
#include "daemon/base/file_pages.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "tests/common/need.h"
#include "unit.h"

#define PAGE  ((size_t)4096)
#define PAGES 3000u

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

enum world {
    RESIDENT,    /* as it is */
    SWAPPED_OUT, /* mincore() says that no page is resident */
    OLD_KERNEL,  /* the same, and there is no cachestat() */
    WORLDS,
};

static enum world world;
int mincore(void *addr, size_t length, unsigned char *vec)
{
    if (world == RESIDENT)
        return (int)syscall(SYS_mincore, addr, length, vec);
    memset(vec, 0, (length + PAGE - 1) / PAGE);
    return 0;
}

static void forbid_cachestat(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_cachestat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    /* An emulator has no filters, and no cachestat(). */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        ck_assert(syscall(SYS_cachestat, -1, NULL, NULL, 0) == -1 && errno == ENOSYS);
}

static struct {
    int fd;
    unsigned char *map;
    bool written[PAGES];
} file;

static void make_file(void)
{
    void *map;

    ck_assert_int_eq(memfd_map_new("test", PAGES * PAGE, &file.fd, &map), 0);
    file.map = map;
}

static void write_page(unsigned page)
{
    file.map[page * PAGE + 8] = 1;
    file.written[page] = true;
}

static blkcnt_t count_blocks(void)
{
    struct stat st;

    ck_assert_int_eq(fstat(file.fd, &st), 0);
    return st.st_blocks;
}

/* Exactly the written pages are found, and looking makes no page. */
static void expect_the_written(size_t from, size_t end)
{
    blkcnt_t blocks = count_blocks();
    size_t at = from, to = from;
    unsigned page = (unsigned)(from / PAGE);

    for (; file_pages_next(file.fd, file.map, end, &at, &to); at = to) {
        CHECK(at < to && to <= end);
        for (; page < at / PAGE; page++)
            CHECK(!file.written[page]); /* it was passed over */
        for (; page < to / PAGE; page++)
            CHECK(file.written[page]);
    }
    for (; page < end / PAGE; page++)
        CHECK(!file.written[page]);
    ck_assert_int_eq(count_blocks(), blocks);
}

static void begin_world(int which)
{
    world = (enum world)which;
    if (world == OLD_KERNEL)
        forbid_cachestat();
    make_file();
}

START_TEST(no_page_is_a_file_of_holes)
{
    begin_world(_i);
    expect_the_written(0, PAGES * PAGE);
}
END_TEST

START_TEST(written_pages_are_found)
{
    uint64_t rng = 12345;
    unsigned page = 0;

    begin_world(_i);
    expect_the_written(0, PAGES * PAGE);
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned n = 1 + random_below(&rng, 200); n > 0; n--)
            write_page(page++ % PAGES);
        page += random_below(&rng, 700);
        expect_the_written(0, PAGES * PAGE);
        expect_the_written(random_below(&rng, 1000) * PAGE,
                           (1000 + random_below(&rng, PAGES - 1000)) * PAGE);
    }
}
END_TEST

START_TEST(every_other_page)
{
    begin_world(_i);
    for (unsigned page = 1; page < PAGES; page += 2)
        write_page(page);
    expect_the_written(0, PAGES * PAGE);
}
END_TEST

/* The real thing, where the machine has swap space. */
START_TEST(pages_that_are_swapped_out_are_found)
{
    unsigned char resident[PAGES];
    unsigned out = 0;

    make_file();
    for (unsigned page = 700; page < 900; page++)
        write_page(page);
    madvise(file.map, PAGES * PAGE, MADV_PAGEOUT);
    ck_assert_int_eq(mincore(file.map, PAGES * PAGE, resident), 0);
    for (unsigned page = 700; page < 900; page++)
        out += !(resident[page] & 1);
    if (out == 0 && !need_lacks(__func__, "swap space"))
        return;
    expect_the_written(0, PAGES * PAGE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_pages");
    TCase *t = suite_case(suite, "find", 0, NULL, NULL);

    tcase_add_loop_test(t, no_page_is_a_file_of_holes, 0, WORLDS);
    tcase_add_loop_test(t, written_pages_are_found, 0, WORLDS);
    tcase_add_loop_test(t, every_other_page, 0, WORLDS);
    tcase_add_test(t, pages_that_are_swapped_out_are_found);
    return run_suite(suite);
}
