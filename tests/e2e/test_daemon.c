/*
 * npud as its administrator meets it: the sockets in the file system, sockets that are passed, the
 * configuration, readers that stall, limits of its own process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/packet.h"
#include "tests/common/harness.h"

static char dir[64], control[96], admin[96], conf[96];

static void set_up_test(void)
{
    strcpy(dir, "/tmp/npud-daemon.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(control, sizeof(control), "%s/npud.sock", dir);
    snprintf(admin, sizeof(admin), "%s/admin.sock", dir);
    snprintf(conf, sizeof(conf), "%s/npud.conf", dir);
    setenv("NPUD_SOCKET", control, 1);
    setenv("NPUD_ADMIN_SOCKET", admin, 1);
}

static void tear_down_test(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* --- one npud --- */

/* How to start one. `before` runs in the new process. */
struct start {
    const char *more[8];
    void (*before)(void);
    bool own_sockets; /* no --socket, no --admin-socket */
};

struct run {
    pid_t pid;
    int log;   /* what it writes to stderr */
    int ready; /* a byte comes when clients can connect; end of file when it has ended */
};

static void exec_it(const struct start *s, int ready)
{
    const char *argv[24] = {
        "npud", "--die-with-parent", "-s", "npud.access_group=", "-s", "npud.admin_group="};
    const char *bin = getenv("NPUD_BINDIR");
    char path[256], fd[32];
    int n = 6;

    if (!s->own_sockets) {
        argv[n++] = "--socket";
        argv[n++] = control;
        argv[n++] = "--admin-socket";
        argv[n++] = admin;
    }
    snprintf(fd, sizeof(fd), "--ready-fd=%d", ready);
    argv[n++] = fd;
    for (int i = 0; i < 8 && s->more[i]; i++)
        argv[n++] = s->more[i];
    snprintf(path, sizeof(path), "%s/npud", bin ? bin : "build");
    if (s->before)
        s->before();
    execv(path, (char **)argv);
    _exit(127);
}

static struct run start_npud(const struct start *s)
{
    int log[2], ready[2];
    struct run run;

    ck_assert_int_eq(pipe2(log, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe(ready), 0);
    run.pid = fork();
    ck_assert_int_ge(run.pid, 0);
    if (run.pid == 0) {
        close(ready[0]);
        dup2(log[1], STDERR_FILENO);
        exec_it(s, ready[1]);
    }
    close(log[1]);
    close(ready[1]);
    run.log = log[0];
    run.ready = ready[0];
    return run;
}

static bool is_ready(struct run *run)
{
    char c;

    return read(run->ready, &c, 1) == 1;
}

static void expect_ready(struct run *run)
{
    char text[4096] = "";

    if (is_ready(run))
        return;
    ck_assert_int_ge(read(run->log, text, sizeof(text) - 1), 0);
    ck_abort_msg("npud did not start: %s", text);
}

static struct run start_ready(const struct start *s)
{
    struct run run = start_npud(s);

    expect_ready(&run);
    return run;
}

/* Waits for its end. What it wrote since, freed by the caller. */
static char *end_of(struct run *run, int *status)
{
    size_t size = 0;
    char *text = calloc(1, 1 << 16);
    ssize_t n;

    ck_assert_ptr_nonnull(text);
    while (size < (1 << 16) - 1 && (n = read(run->log, text + size, (1 << 16) - 1 - size)) > 0)
        size += (size_t)n;
    ck_assert_int_eq(waitpid(run->pid, status, 0), run->pid);
    close(run->log);
    close(run->ready);
    return text;
}

static void expect_end(struct run *run)
{
    int status;

    kill(run->pid, SIGTERM);
    free(end_of(run, &status));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
}

/* It must not start, and say these words. */
static void expect_refusal(const struct start *s, const char *words)
{
    struct run run = start_npud(s);
    int status;
    char *text;

    ck_assert_msg(!is_ready(&run), "it starts, where it should say: %s", words);
    text = end_of(&run, &status);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status 0x%x: %s", status, text);
    ck_assert_msg(strstr(text, words), "does not say \"%s\": %s", words, text);
    free(text);
}

/* Reads the log until these words have come, in this call or in an earlier one. */
static void await_log(struct run *run, const char *words)
{
    static char text[8192];
    static size_t size;
    ssize_t n;

    while (!strstr(text, words)) {
        n = read(run->log, text + size, sizeof(text) - 1 - size);
        ck_assert_msg(n > 0, "no \"%s\" in the log: %s", words, text);
        size += (size_t)n;
        text[size] = '\0';
    }
}

static bool path_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* --- names in the file system --- */

START_TEST(a_file_at_the_path_of_the_socket_stays)
{
    char target[96];

    write_text_file(control, "precious");
    expect_refusal(&(struct start){.before = NULL}, "is not a socket");
    ck_assert(path_exists(control));
    unlink(control);
    /* A name that leads elsewhere: what it leads to is no business of npud either. */
    snprintf(target, sizeof(target), "%s/target", dir);
    write_text_file(target, "precious");
    ck_assert_int_eq(symlink(target, admin), 0);
    expect_refusal(&(struct start){.before = NULL}, "is not a socket");
    ck_assert(path_exists(admin) && path_exists(target));
}
END_TEST

static int bind_socket(const char *path, int type)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    strcpy(addr.sun_path, path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

START_TEST(a_socket_that_npud_did_not_make_stays)
{
    int fd = bind_socket(control, SOCK_STREAM);

    ck_assert_int_eq(listen(fd, 1), 0);
    expect_refusal(&(struct start){.before = NULL}, "another npud is running there");
    close(fd);
    for (int i = 0; i < 2; i++) {
        expect_refusal(&(struct start){.before = NULL}, "npud did not make it");
        ck_assert(path_exists(control));
    }
}
END_TEST

START_TEST(what_a_killed_npud_has_left_is_replaced)
{
    struct run run = start_ready(&(struct start){.before = NULL});

    kill(run.pid, SIGKILL);
    waitpid(run.pid, NULL, 0);
    ck_assert(path_exists(control));
    run = start_ready(&(struct start){.before = NULL});
    npuctl_says("status", 0, "devices");
    expect_end(&run);
    ck_assert(!path_exists(control) && !path_exists(admin));
    ck_assert_int_eq(rmdir(dir), 0); /* nothing else is left either */
    ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

START_TEST(an_ending_npud_leaves_the_socket_of_its_successor)
{
    struct run first = start_ready(&(struct start){.before = NULL}), second;
    char lock[128];

    /* An administrator might do this if the first npud seems to be dead. */
    for (int i = 0; i < 2; i++) {
        snprintf(lock, sizeof(lock), "%s.lock", i ? admin : control);
        ck_assert_int_eq(unlink(lock), 0);
        ck_assert_int_eq(unlink(i ? admin : control), 0);
    }
    second = start_ready(&(struct start){.before = NULL});
    expect_end(&first);
    npuctl_says("status", 0, "devices");
    expect_end(&second);
}
END_TEST

START_TEST(of_two_that_start_at_once_one_serves)
{
    for (int i = 0; i < 20; i++) {
        struct run run[2] = {start_npud(&(struct start){.before = NULL}),
                             start_npud(&(struct start){.before = NULL})};
        bool serves[2] = {is_ready(&run[0]), is_ready(&run[1])};
        int status;
        char *text;

        ck_assert_int_eq(serves[0] + serves[1], 1);
        text = end_of(&run[serves[0]], &status);
        ck_assert_msg(strstr(text, "another npud is running there"), "%s", text);
        free(text);
        npuctl_says("status", 0, "devices");
        expect_end(&run[!serves[0]]);
    }
}
END_TEST

static void strict_umask(void)
{
    umask(077);
}

START_TEST(the_umask_does_not_lock_clients_out)
{
    char path[128], other[128];
    struct start s = {.before = strict_umask,
                      .own_sockets = true,
                      .more = {"-S", path, "-A", other, "-s", "npud.access_group=*"}};
    struct run run;
    struct stat st;

    snprintf(path, sizeof(path), "%s/sub/npud.sock", dir);
    snprintf(other, sizeof(other), "%s/sub/admin.sock", dir);
    run = start_ready(&s);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0666);
    *strrchr(path, '/') = '\0';
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0755);
    expect_end(&run);
}
END_TEST

/* --- sockets that are passed --- */

static const char *passed_names;
static int passed_type;
static bool passed_listens;

/* As systemd does it: descriptors from 3 on, named in the environment of that very process. */
static void pass_sockets(void)
{
    char path[128], pid[32];

    for (int i = 0; i < 2; i++) {
        int fd;

        snprintf(path, sizeof(path), "%s/passed.%d", dir, i);
        unlink(path);
        fd = bind_socket(path, passed_type);
        if (passed_listens)
            listen(fd, 1);
        dup2(fd, 3 + i); /* not close-on-exec */
    }
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", passed_names, 1);
}

static void expect_passed(const char *names, int type, bool listens, const char *words)
{
    struct start s = {.before = pass_sockets};

    passed_names = names;
    passed_type = type;
    passed_listens = listens;
    expect_refusal(&s, words);
}

START_TEST(passed_sockets_are_checked)
{
    /* Take the numbers 3 and 4, so that the pipes of start_npud() have others. */
    int low[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC), open("/dev/null", O_RDONLY | O_CLOEXEC)};

    expect_passed("control:admin", SOCK_SEQPACKET, false, "is not a listening Unix socket");
    expect_passed("control:admin", SOCK_STREAM, true, "is not a listening Unix socket");
    expect_passed("control:admln", SOCK_SEQPACKET, true, "under the name \"admln\"");
    expect_passed("control:control", SOCK_SEQPACKET, true, "two descriptors");
    close(low[0]);
    close(low[1]);
}
END_TEST

static int sent_end; /* of a pipe */

/* A client that is there before npud, and has sent a descriptor; it ends when npud begins. */
static void pass_sockets_with_client(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    pass_sockets();
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/passed.0", dir);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        packet_send(fd, "x", 1, &sent_end, 1, 0) != 0)
        _exit(1);
}

/* The kernel has not refused it: npud had not said so yet. */
START_TEST(sent_before_npud_began)
{
    /* As in passed_sockets_are_checked(). */
    int low[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC), open("/dev/null", O_RDONLY | O_CLOEXEC)};
    struct start s = {.before = pass_sockets_with_client, .own_sockets = true};
    int ends[2];
    struct run run;
    char c;

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    sent_end = ends[1];
    passed_names = "control:admin";
    passed_type = SOCK_SEQPACKET;
    passed_listens = true;
    run = start_ready(&s);
    close(ends[1]);
    await_log(&run, "sent descriptors, and npud takes none");
    ck_assert_int_eq(read(ends[0], &c, 1), 0); /* npud has not kept it either */
    close(ends[0]);
    expect_end(&run);
    close(low[0]);
    close(low[1]);
}
END_TEST

/* --- the configuration --- */

static void expect_config(const char *text, const char *words)
{
    struct start s = {.more = {"-c", conf, "--check-config"}};

    write_text_file(conf, text);
    if (words) {
        expect_refusal(&s, words);
        return;
    }
    struct run run = start_npud(&s);
    int status;

    free(end_of(&run, &status));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: 0x%x", text, status);
}

START_TEST(a_configuration_is_read_whole_and_exactly)
{
    char line[6000];
    struct start memory = {.more = {"-c", "/proc/self/mem", "--check-config"}};
    struct start directory = {.more = {"-c", dir, "--check-config"}};
    struct start fifo = {.more = {"-c", conf, "--check-config"}};

    expect_config("[sim]\ndevices = 3 # three\n; a comment\n[limits] # more\nfds=4K\n", NULL);
    expect_config("[sim\n", "line 1 is no section");
    expect_config("[sim]\n\ndevices\n", "line 3 is no section or key = value");
    expect_config("[sim]\ndevices = 99\n", "must be from 1 to 16");
    expect_config("[sim]\nmemory = many\n", "not a number");
    memset(line, ' ', sizeof(line));
    line[0] = '#';
    strcpy(line + 5000, "of the comment\n[sim]\ndevices = 3\n");
    expect_config(line, NULL);
    expect_refusal(&memory, "cannot be read");
    expect_refusal(&directory, "is not a regular file");
    unlink(conf);
    ck_assert_int_eq(mkfifo(conf, 0600), 0);
    expect_refusal(&fifo, "is not a regular file");
}
END_TEST

/* What keeps npud from starting is what --check-config finds, in the same words. */
static const struct {
    const char *set[2], *words;
} unfit[] = {
    {{"--set=npud.backend=nonesuch"}, "there is no backend \"nonesuch\""},
    {{"--set=npud.access_group=nonesuch"}, "there is no group \"nonesuch\""},
    {{"--set=npud.admin_group=nonesuch"}, "there is no group \"nonesuch\""},
    {{"--socket=/tmp/npud-one.sock", "--admin-socket=/tmp/npud-one.sock"}, "are the same"},
    {{"--socket=/tmp/0123456789012345678901234567890123456789012345678901234567890123456789"
      "0123456789012345678901234567890123456789"},
     "must have from 1 to 107 bytes"},
};
#define UNFIT (int)(sizeof(unfit) / sizeof(unfit[0]))

START_TEST(a_check_finds_what_a_start_would)
{
    struct start check = {.more = {"--check-config", unfit[_i].set[0], unfit[_i].set[1]}};
    struct start start = {.more = {unfit[_i].set[0], unfit[_i].set[1]}};

    expect_refusal(&check, unfit[_i].words);
    expect_refusal(&start, unfit[_i].words);
}
END_TEST

/* All of it in one go. */
START_TEST(a_check_finds_all)
{
    struct start s = {.more = {"--check-config", "--set=npud.backend=nonesuch",
                               "--set=npud.access_group=nobodys"}};

    expect_refusal(&s, "there is no backend");
    expect_refusal(&s, "there is no group");
}
END_TEST

START_TEST(a_signal_makes_npud_read_its_configuration_again)
{
    struct run run;

    write_text_file(conf, "[limits]\nstreams = 11\n");
    run = start_ready(&(struct start){.more = {"-c", conf}});
    OK(aclInit(NULL)); /* limits are shown of users with a session */
    OK(aclrtSetDevice(0));
    npuctl_says("limits", 0, " 11  -\n");
    write_text_file(conf,
                    "[limits]\nstreams = 12345\n[sim]\ndevices = 7\n[npud]\nlog_level = debug\n");
    kill(run.pid, SIGHUP);
    await_log(&run, "sim.devices has changed: takes effect at the next start");
    await_log(&run, "read again; some changes wait for the next start");
    npuctl_says("limits", 0, "12345");
    npuctl_says("devices", 0, "1");
    write_text_file(conf, "[limits]\nstreams = 54321\nevents = few\n");
    kill(run.pid, SIGHUP);
    await_log(&run, "the one before stays in force");
    npuctl_says("limits", 0, "12345");
    OK(aclFinalize());
    expect_end(&run);
}
END_TEST

/* --- readers that stall --- */

static int stalled[2];

static void fill_pipe(int fd)
{
    char page[4096] = {0};

    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, page, sizeof(page)) > 0 || write(fd, page, 1) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

static void stall_stderr(void)
{
    dup2(stalled[1], STDERR_FILENO);
}

/* Every session is worth two lines: more than a pipe and the backlog hold. */
static void many_sessions(void)
{
    for (int i = 0; i < 50; i++) {
        OK(aclInit(NULL));
        OK(aclrtSetDevice(0));
        OK(aclFinalize());
    }
}

START_TEST(a_log_reader_that_stalls_stalls_nobody)
{
    struct run run;

    ck_assert_int_eq(pipe2(stalled, O_CLOEXEC), 0);
    fill_pipe(stalled[1]);
    run = start_ready(&(struct start){.more = {"--verbose"}, .before = stall_stderr});
    many_sessions();
    npuctl_says("status", 0, "devices");
    expect_end(&run);
    ck_assert(!path_exists(control));
}
END_TEST

START_TEST(a_service_manager_that_stalls_stalls_nobody)
{
    char path[96];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct run run;
    int fd, full = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(path, sizeof(path), "%s/notify", dir);
    fd = bind_socket(path, SOCK_DGRAM);
    strcpy(addr.sun_path, path);
    while (sendto(full, "", 1, 0, (struct sockaddr *)&addr, sizeof(addr)) == 1)
        ;
    ck_assert_int_eq(errno, EAGAIN);
    setenv("NOTIFY_SOCKET", path, 1);
    run = start_ready(&(struct start){.before = NULL});
    unsetenv("NOTIFY_SOCKET");
    many_sessions();
    npuctl_says("status", 0, "devices");
    expect_end(&run);
    close(full);
    close(fd);
}
END_TEST

/* --- the process itself --- */

static void limit_file_size(void)
{
    struct rlimit limit = {16 << 20, 16 << 20};

    setrlimit(RLIMIT_FSIZE, &limit);
}

START_TEST(a_limit_on_file_sizes_is_a_named_error)
{
    struct run run = start_ready(&(struct start){.before = limit_file_size});
    void *memory;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION,
          aclrtMalloc(&memory, 64 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&memory, 1 << 16, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtFree(memory));
    OK(aclFinalize());
    expect_end(&run);
}
END_TEST

static void limit_descriptors(void)
{
    struct rlimit limit = {256, 256};

    setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Events that are closed and can still be opened have a descriptor each: they leave enough for
 * those that are used.
 */
START_TEST(few_descriptors_are_not_kept_for_closed_events)
{
    struct run run = start_ready(&(struct start){.before = limit_descriptors});
    aclrtIpcEventHandle handle;
    aclrtEvent event;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 300; i++) {
        OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(event, &handle));
        OK(aclrtDestroyEvent(event));
    }
    OK(aclFinalize());
    expect_end(&run);
}
END_TEST

/* Descriptors that the kernel's table has room for. */
static unsigned long fd_table_size(pid_t pid)
{
    unsigned long size = 0;
    char path[64], line[256];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "FDSize: %lu", &size) == 1)
            break;
    fclose(f);
    return size;
}

/* To grow it later would stop npud for as long as the kernel's RCU takes. */
START_TEST(the_table_of_descriptors_does_not_grow_later)
{
    struct run run = start_ready(&(struct start){0});
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_ge(fd_table_size(run.pid), limit.rlim_max < 131072 ? limit.rlim_max : 131072);
    expect_end(&run);
}
END_TEST

static void close_standard_fds(void)
{
    dup2(STDERR_FILENO, 9);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
}

START_TEST(lines_of_the_log_never_reach_a_client)
{
    struct run run =
        start_ready(&(struct start){.more = {"--verbose"}, .before = close_standard_fds});

    many_sessions();
    npuctl_says("status", 0, "devices");
    expect_end(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("daemon");
    TCase *names = suite_case(suite, "names", 60, set_up_test, tear_down_test);
    TCase *config = suite_case(suite, "configuration", 60, set_up_test, tear_down_test);
    TCase *readers = suite_case(suite, "readers and limits", 60, set_up_test, tear_down_test);

    tcase_add_test(names, a_file_at_the_path_of_the_socket_stays);
    tcase_add_test(names, a_socket_that_npud_did_not_make_stays);
    tcase_add_test(names, what_a_killed_npud_has_left_is_replaced);
    tcase_add_test(names, an_ending_npud_leaves_the_socket_of_its_successor);
    tcase_add_test(names, of_two_that_start_at_once_one_serves);
    tcase_add_test(names, the_umask_does_not_lock_clients_out);
    tcase_add_test(names, passed_sockets_are_checked);
    tcase_add_test(names, sent_before_npud_began);
    tcase_add_test(config, a_configuration_is_read_whole_and_exactly);
    tcase_add_loop_test(config, a_check_finds_what_a_start_would, 0, UNFIT);
    tcase_add_test(config, a_check_finds_all);
    tcase_add_test(config, a_signal_makes_npud_read_its_configuration_again);
    tcase_add_test(readers, a_log_reader_that_stalls_stalls_nobody);
    tcase_add_test(readers, a_service_manager_that_stalls_stalls_nobody);
    tcase_add_test(readers, a_limit_on_file_sizes_is_a_named_error);
    tcase_add_test(readers, few_descriptors_are_not_kept_for_closed_events);
    tcase_add_test(readers, the_table_of_descriptors_does_not_grow_later);
    tcase_add_test(readers, lines_of_the_log_never_reach_a_client);
    return run_suite(suite);
}
