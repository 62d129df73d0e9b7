/* daemon/config: defaults, the file, --set; and what is wrong with them. */
#include "daemon/base/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proto/wire/packet.h"
#include "unit.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)
#define TIB(n) ((uint64_t)(n) << 40)

static struct config config;
static char path[64];

static void create_config_file(void)
{
    int fd;

    strcpy(path, "/tmp/npud-test-config.XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    log_setup(LOG_CRIT); /* what is wrong on purpose is not to be reported */
    config_init(&config);
}

static void remove_config_file(void)
{
    config_deinit(&config);
    unlink(path);
}

static int read_text(const char *text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    return config_read(&config, path);
}

static void expect_defaults(void)
{
    ck_assert_str_eq(config.socket, NPUD_SOCKET_DEFAULT);
    ck_assert_str_eq(config.admin_socket, NPUD_ADMIN_SOCKET_DEFAULT);
    ck_assert_str_eq(config.access_group, "npu");
    ck_assert_str_eq(config.admin_group, "npu-admin");
    ck_assert_str_eq(config.backend, "sim");
    ck_assert_uint_eq(config.devices, 2);
    ck_assert_uint_eq(config.device_memory, GIB(8));
    ck_assert_uint_eq(config.spin_us, 50);
    ck_assert_uint_eq(config.ring_depth, 1024);
    ck_assert(!config.ipc_any_uid);
    ck_assert_uint_eq(config.linger_max, 1024);
    ck_assert_uint_eq(config.submit_ms, 10000);
    ck_assert_uint_eq(config.vendor_uids.first, 0);
    ck_assert_uint_eq(config.vendor_uids.last, 0);
    ck_assert_uint_eq(config.limit[RESOURCE_SESSIONS], 4096);
    ck_assert_uint_eq(config.limit[RESOURCE_STREAMS], 65536);
    ck_assert_uint_eq(config.limit[RESOURCE_EVENTS], MIB(1));
    ck_assert_uint_eq(config.limit[RESOURCE_DEVICE_MEMORY], TIB(1));
    ck_assert_uint_eq(config.limit[RESOURCE_HOST_MEMORY], GIB(64));
}

/* --- good ones --- */

START_TEST(defaults)
{
    expect_defaults();
}
END_TEST

START_TEST(empty_files_change_nothing)
{
    ck_assert_int_eq(config_read(&config, "/dev/null"), 0);
    ck_assert_int_eq(read_text(""), 0);
    ck_assert_int_eq(read_text("# comment\n; another\n\n[npud]\n[limits]\n"), 0);
    expect_defaults();
}
END_TEST

START_TEST(every_key_can_be_set_in_the_file)
{
    ck_assert_int_eq(read_text("[npud]\n"
                               "socket = /run/a.sock\n"
                               "admin_socket=/run/b.sock\n"
                               "access_group = *\n"
                               "admin_group =\n"
                               "backend = other\n"
                               "[sim]\n"
                               "devices = 16\n"
                               "memory = 1G\n"
                               "soc_name = Ascend 910\n"
                               "[engine]\n"
                               "spin_us = 0\n"
                               "[stream]\n"
                               "depth = 64\n"
                               "[ipc]\n"
                               "scope = any\n"
                               "linger_max = 0\n"
                               "submit_ms = 5\n"
                               "[limits]\n"
                               "sessions = 1\n"
                               "streams = 2\n"
                               "events = 3\n"
                               "ipc_events = 4\n"
                               "device_memory = 5\n"
                               "host_memory = 6\n"
                               "fds = 7\n"),
                     0);
    ck_assert_str_eq(config.socket, "/run/a.sock");
    ck_assert_str_eq(config.admin_socket, "/run/b.sock");
    ck_assert_str_eq(config.access_group, "*");
    ck_assert_str_eq(config.admin_group, "");
    ck_assert_str_eq(config.backend, "other");
    ck_assert_uint_eq(config.devices, 16);
    ck_assert_uint_eq(config.device_memory, GIB(1));
    ck_assert_str_eq(config.soc_name, "Ascend 910");
    ck_assert_uint_eq(config.spin_us, 0);
    ck_assert_uint_eq(config.ring_depth, 64);
    ck_assert(config.ipc_any_uid);
    ck_assert_uint_eq(config.linger_max, 0);
    ck_assert_uint_eq(config.submit_ms, 5);
    ck_assert_uint_eq(config.limit[RESOURCE_SESSIONS], 1);
    ck_assert_uint_eq(config.limit[RESOURCE_STREAMS], 2);
    ck_assert_uint_eq(config.limit[RESOURCE_EVENTS], 3);
    ck_assert_uint_eq(config.limit[RESOURCE_IPC_EVENTS], 4);
    ck_assert_uint_eq(config.limit[RESOURCE_DEVICE_MEMORY], 5);
    ck_assert_uint_eq(config.limit[RESOURCE_HOST_MEMORY], 6);
    ck_assert_uint_eq(config.limit[RESOURCE_FDS], 7);
}
END_TEST

START_TEST(later_settings_win)
{
    ck_assert_int_eq(read_text("[sim]\ndevices = 3\n"), 0);
    ck_assert_int_eq(config_set(&config, "sim.devices=4"), 0);
    ck_assert_int_eq(config_set(&config, "sim.devices=5"), 0);
    ck_assert_uint_eq(config.devices, 5);
    ck_assert_int_eq(config_set(&config, "npud.socket=/a"), 0);
    ck_assert_int_eq(config_set(&config, "npud.socket=/b"), 0);
    ck_assert_str_eq(config.socket, "/b");
    ck_assert_uint_eq(config.device_memory, GIB(8));
}
END_TEST

START_TEST(suffixes)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"007", 7},
        {"3K", KIB(3)},
        {"5M", MIB(5)},
        {"7G", GIB(7)},
        {"9T", TIB(9)},
        {"0T", 0},
        {"18446744073709551615", UINT64_MAX},
        {"16777215T", TIB(16777215)},
        {"18014398509481983K", KIB(18014398509481983)},
    };

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char assignment[64];

        snprintf(assignment, sizeof(assignment), "limits.host_memory=%s", good[i].text);
        ck_assert_msg(config_set(&config, assignment) == 0, "%s", assignment);
        ck_assert_msg(config.limit[RESOURCE_HOST_MEMORY] == good[i].value, "%s", assignment);
    }
}
END_TEST

START_TEST(range_includes_both_ends)
{
    static const char *const good[] = {
        "sim.devices=1",
        "sim.devices=16",
        "sim.memory=1M",
        "sim.memory=64T",
        "engine.spin_us=0",
        "stream.depth=64",
        "stream.depth=65536",
        "engine.spin_us=1000000",
        "ipc.linger_max=0",
        "ipc.scope=uid",
        "ipc.scope=any",
        "ipc.linger_max=1048576",
        "vendor.uids=1-4",
        "vendor.uids=",
        "vendor.uids=100000-165535",
        "vendor.uids=2147482648-2147483647",
    };

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ck_assert_msg(config_set(&config, good[i]) == 0, "%s", good[i]);
}
END_TEST

START_TEST(assignment_splits_at_the_first_dot_and_equals)
{
    ck_assert_int_eq(config_set(&config, "npud.socket=/tmp/x.y=z"), 0);
    ck_assert_str_eq(config.socket, "/tmp/x.y=z");
    ck_assert_int_eq(config_set(&config, "npud.access_group="), 0);
    ck_assert_str_eq(config.access_group, "");
}
END_TEST

/* --- bad ones --- */

static const char *const bad_settings[] = {
    /* no section.key=value */
    "",
    "=",
    ".",
    ".=",
    "npud",
    "npud.socket",
    "socket=/x",
    "npud=socket",
    "npud=/x.socket",
    /* no such key */
    "npud.=x",
    ".socket=x",
    "npud.sockets=x",
    "NPUD.socket=x",
    "npud.Socket=x",
    "sim.socket=x",
    "npud .socket=x",
    "npud.socket =x",
    "limits.everything=1",
    "np.ud.socket=x",
    /* no number */
    "sim.devices=",
    "sim.devices=two",
    "sim.devices=-1",
    "sim.devices=+1",
    "sim.devices= 1",
    "sim.devices=1 ",
    "sim.devices=1.5",
    "sim.devices=0x10",
    "sim.devices=1K",
    "stream.depth=1K",
    "sim.memory=G",
    "sim.memory=1g",
    "sim.memory=1GB",
    "sim.memory=1 G",
    "sim.memory=1KK",
    "sim.memory=1P",
    "limits.fds=-1",
    "limits.fds=1e3",
    /* out of range */
    "sim.devices=0",
    "sim.devices=17",
    "sim.memory=1048575",
    "sim.memory=65T",
    "engine.spin_us=1000001",
    "ipc.linger_max=1048577",
    "ipc.submit_ms=3600001",
    "stream.depth=32",
    "stream.depth=0",
    "stream.depth=131072",
    "stream.depth=4294967360",
    "sim.devices=4294967297",
    /* more than 64 bits */
    "limits.fds=18446744073709551616",
    "limits.fds=16777216T",
    "limits.fds=18014398509481984K",
    "limits.fds=99999999999999999999999T",
    /* no power of two */
    "stream.depth=100",
    "stream.depth=65535",
    "stream.depth=1023",
    /* no scope */
    "ipc.scope=",
    "ipc.scope=all",
    "ipc.scope=Any",
    "ipc.scope=any ",
    "ipc.scope=1",
    /* no uids */
    "vendor.uids=5",
    "vendor.uids=-",
    "vendor.uids=-5",
    "vendor.uids=5-",
    "vendor.uids=0-9",
    "vendor.uids=10-12",
    "vendor.uids=9-6",
    "vendor.uids=1-2-3",
    "vendor.uids=1000-70000",
    "vendor.uids=60000-65534",
    "vendor.uids=65535-65600",
    "vendor.uids=100000-165536",
    "vendor.uids=2147483640-2147483648",
    "vendor.uids=18446744073709551615-9",
    "vendor.uids=0000000000000000001-9",
};

START_TEST(bad_assignments)
{
    for (unsigned i = 0; i < sizeof(bad_settings) / sizeof(bad_settings[0]); i++) {
        ck_assert_msg(config_set(&config, bad_settings[i]) == -EINVAL, "\"%s\" was accepted",
                      bad_settings[i]);
        expect_defaults();
    }
}
END_TEST

START_TEST(bad_lines_in_the_file)
{
    static const char *const bad[] = {
        "[sim]\ndevices = many\n",
        "[sim]\ndevices\n",
        "devices = 2\n",
        "[simulator]\ndevices = 2\n",
        "[sim]\nDevices = 2\n",
        "[sim\ndevices = 2\n",
        "[stream]\ndepth = 1000\n",
        "[ipc]\nscope = world\n",
        "[limits]\nfds = 16777216T\n",
        "[sim]\n = 2\n",
        "[limits]\nsessions =\n",
    };

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(read_text(bad[i]) == -EINVAL, "accepted: %s", bad[i]);
        expect_defaults();
    }
}
END_TEST

START_TEST(a_zero_byte_is_no_end)
{
    static const char text[] = "[sim]\n\0devices = 99\n";
    char *copy = malloc(sizeof(text));

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, sizeof(text));
    ck_assert_int_eq(config_read_text(&config, "text", copy, sizeof(text) - 1), -EINVAL);
}
END_TEST

START_TEST(one_bad_line_is_enough)
{
    ck_assert_int_eq(read_text("[sim]\ndevices = 3\nmemory = much\n[stream]\ndepth = 128\n"),
                     -EINVAL);
}
END_TEST

START_TEST(file_that_is_not_there)
{
    ck_assert_int_eq(config_read(&config, "/tmp/npud-test-config.nonexistent"), -EINVAL);
    expect_defaults();
}
END_TEST

/* --- the reference --- */

/*
 * What --help shows is a file that npud reads; with its assignments switched on, one that says the
 * defaults.
 */
START_TEST(reference_is_a_file_with_the_defaults)
{
    char *text = NULL;
    size_t size, assignments = 0;
    FILE *f = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(f);
    config_print_reference(f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(read_text(text), 0);
    expect_defaults();
    /* Give every default another value first, so that reading has something to do. */
    config_deinit(&config);
    for (char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (line[0] == '#' && line[1] != ' ') {
            line[0] = ' ';
            memmove(line, line + 1, strlen(line));
            assignments++;
        }
        if (*line == '\0')
            break;
    }
    ck_assert_uint_ge(assignments, 19);
    ck_assert_int_eq(read_text(text), 0);
    expect_defaults();
    free(text);
}
END_TEST

START_TEST(deinit_is_safe_to_repeat)
{
    config_deinit(&config);
    config_deinit(&config);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("config");
    TCase *good = suite_case(s, "good", 0, create_config_file, remove_config_file);
    TCase *bad = suite_case(s, "bad", 0, create_config_file, remove_config_file);

    tcase_add_test(good, defaults);
    tcase_add_test(good, empty_files_change_nothing);
    tcase_add_test(good, every_key_can_be_set_in_the_file);
    tcase_add_test(good, later_settings_win);
    tcase_add_test(good, suffixes);
    tcase_add_test(good, range_includes_both_ends);
    tcase_add_test(good, assignment_splits_at_the_first_dot_and_equals);
    tcase_add_test(good, reference_is_a_file_with_the_defaults);
    tcase_add_test(good, deinit_is_safe_to_repeat);
    tcase_add_test(bad, bad_assignments);
    tcase_add_test(bad, bad_lines_in_the_file);
    tcase_add_test(bad, a_zero_byte_is_no_end);
    tcase_add_test(bad, one_bad_line_is_enough);
    tcase_add_test(bad, file_that_is_not_there);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
