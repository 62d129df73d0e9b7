/*
 * Clients that take what npud itself has only so much of, each beside an honest client of another
 * user: the first is refused with a name for it, the other notices nothing.
 */
#include "tests/common/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"
#include "tests/common/raw.h"
#include "tests/common/second_user.h"
#include "tests/hostile/row.h"

#define MANY 512

/* Of npud's heap, that come and go: sanitizers have a heap of many. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_MAPS 4096 /* without charges npud would have 65,000 */
#else
#define HEAP_MAPS 16
#endif

static void start_shared(const char *set)
{
    npud_start_shared((const char *const[]){"--set=limits.ipc_events=1M", set, NULL});
}

static void end_shared(void)
{
    npud_expect_empty();
    npud_teardown();
}

/* What a user has of a resource, and may have, as npuctl shows it. */
static Npud__LimitRow limit_of(uid_t uid, const char *resource)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__LIMITS);
    Npud__LimitRow found = NPUD__LIMIT_ROW__INIT;

    for (size_t i = 0; i < report->n_limits; i++)
        if (report->limits[i]->uid == uid && strcmp(report->limits[i]->resource, resource) == 0) {
            found.used = report->limits[i]->used;
            found.limit = report->limits[i]->limit;
        }
    npud__report__free_unpacked(report, NULL);
    return found;
}

static unsigned worked; /* sessions that have worked honestly */

/* A session as others have it, from the beginning to the end. */
static void work_honestly(unsigned n_events)
{
    aclrtStream stream, other;
    aclrtEvent *event = calloc(n_events, sizeof(*event));
    void *memory;

    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemsetAsync(memory, 1 << 20, 7, 1 << 20, stream));
    for (unsigned i = 0; i < n_events; i++)
        OK(aclrtCreateEventExWithFlag(&event[i], ACL_EVENT_IPC));
    OK(aclrtRecordEvent(event[0], stream));
    OK(aclrtStreamWaitEvent(other, event[0]));
    OK(aclrtSynchronizeStream(other));
    for (unsigned i = 0; i < n_events; i++)
        OK(aclrtDestroyEvent(event[i]));
    OK(aclrtFree(memory));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    free(event);
    worked++;
}

/* Runs the attack as another user until it says that it is refused, and goes on holding it. */
static pid_t start_attack(int (*attack)(void *arg))
{
    pid_t pid;

    turns_init();
    pid = child_start(attack, NULL);
    turn_await(&to_parent);
    return pid;
}

/* False: once more. */
static bool end_attack(pid_t pid, const char *what, unsigned attempt)
{
    struct row row = {.name = what, .attackers = 1, .honest = worked};
    bool good = row_finish(&row, attempt);

    child_kill(pid);
    npud_await_sessions(0);
    return good;
}

static void hold(void)
{
    turn_tell(&to_parent);
    for (;;)
        pause();
}

/* --- mappings --- */

/*
 * Sessions whose tables have been large stay, and so do their tables. 64 streams are in four
 * segments, each of which npud has mapped.
 */
static int keep_tables(void *arg)
{
    static struct raw raw[MANY];
    int32_t error = 0;

    (void)arg;
    second_user_become();
    for (unsigned i = 0; i < MANY && error == 0; i++) {
        raw[i].socket = -1;
        if (!raw_open(&raw[i]) || !raw_open_device(&raw[i], 0))
            error = raw[i].error;
        while (error == 0 && raw[i].n_streams < 64)
            if (!raw_create_stream(&raw[i], 0))
                error = raw[i].error;
        while (raw[i].n_streams > 0)
            ck_assert(raw_destroy_stream(&raw[i], 0));
    }
    ck_assert_int_eq(error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    hold();
    return 0;
}

static bool tables_that_were_large(unsigned attempt)
{
    Npud__LimitRow row;
    unsigned maps;
    bool good;
    pid_t pid;

    if (!need_root(__func__))
        return true;
    start_shared("--set=limits.mappings=230"); /* with less than half of 1024 descriptors */
    maps = proc_usage(npud.pid).maps;
    pid = start_attack(keep_tables);
    row = limit_of(SECOND_USER, "mappings");
    ck_assert_uint_le(row.used, 230);
    ck_assert_uint_ge(row.used, 220);
    ck_assert_uint_eq(limit_of(SECOND_USER, "streams").used, 0);
    /* What is charged is what npud has. */
    ck_assert_uint_le(proc_usage(npud.pid).maps, maps + row.used + HEAP_MAPS);
    work_honestly(200);
    good = end_attack(pid, "sessions whose tables were large", attempt);
    end_shared();
    return good;
}

/* --- descriptors --- */

static int take_descriptors(void *arg)
{
    static struct raw raw = {.socket = -1};
    struct raw_object event;

    (void)arg;
    second_user_become();
    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    while (raw_create_ipc(&raw, &event))
        while (raw.n_maps > RAW_MAPS - 8) { /* ours alone: npud has its own */
            struct raw_map *m = &raw.map[--raw.n_maps];

            munmap(m->at, m->size);
        }
    ck_assert_int_eq(raw.error, ACL_ERROR_RT_NO_EVENT_RESOURCE);
    hold();
    return 0;
}

/*
 * One user that takes all that it can get has half, and the next one half of the rest. The table of
 * descriptors does not grow meanwhile: npud would stand still for as long as the kernel takes.
 */
static bool all_descriptors_that_there_are(unsigned attempt)
{
    Npud__LimitRow row;
    unsigned table;
    bool good;
    pid_t pid;

    if (!need_root(__func__) || !need_fds(__func__, 2000))
        return true;
    start_shared("--set=limits.fds=1M");
    table = proc_usage(npud.pid).fd_table;
    pid = start_attack(take_descriptors);
    row = limit_of(SECOND_USER, "fds");
    ck_assert_uint_eq(row.used, row.limit);
    ck_assert_uint_lt(row.limit, 1 << 20);
    work_honestly(400);
    work_honestly(row.limit / 4 < 1000 ? (unsigned)row.limit / 4 : 1000);
    ck_assert_uint_eq(proc_usage(npud.pid).fd_table, table);
    good = end_attack(pid, "all descriptors that there are", attempt);
    end_shared();
    return good;
}

/* --- connections --- */

static int32_t read_refusal(int fd)
{
    static struct packet packet;
    int32_t error = 0;
    Npud__Reply *reply;

    if (packet_recv(fd, &packet, MSG_DONTWAIT) <= 0)
        return 0;
    reply = npud__reply__unpack(NULL, packet.size, packet.data);
    packet_deinit(&packet);
    if (reply)
        error = reply->error;
    npud__reply__free_unpacked(reply, NULL);
    return error;
}

/* Connections that say nothing. */
static int connect_silently(void *arg)
{
    struct ucred cred;
    socklen_t len;

    (void)arg;
    second_user_become();
    for (unsigned i = 0; i < 100; i++) {
        int fd = raw_connect();

        len = sizeof(cred);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
    }
    /* npud has seen all of them when it answers the next, which it refuses. */
    for (int32_t error = 0; error != ACL_ERROR_RT_OVER_LIMIT;) {
        char c;
        int fd = raw_connect();

        recv(fd, &c, 1, MSG_PEEK);
        error = read_refusal(fd);
        ck_assert_int_ne(error, 0);
        close(fd);
    }
    hold();
    return 0;
}

static bool connections_that_say_nothing(unsigned attempt)
{
    bool good;
    pid_t pid;

    if (!need_root(__func__))
        return true;
    start_shared("--set=limits.sessions=100");
    pid = start_attack(connect_silently);
    ck_assert_uint_eq(limit_of(SECOND_USER, "sessions").used, 100);
    ck_assert_uint_eq(limit_of(SECOND_USER, "fds").used, 200);
    work_honestly(10);
    good = end_attack(pid, "connections that say nothing", attempt);
    end_shared();
    return good;
}

static int connect_admin(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_ADMIN_SOCKET"));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

/* The user of npud's, who may ask, and has many connections that ask nothing. */
START_TEST(connections_of_npuctl)
{
    struct ledger before;
    int fd[8];

    start_shared("--set=limits.admins=8");
    before = npud_ledger();
    for (int i = 0; i < 8; i++)
        fd[i] = connect_admin();
    npuctl_says("status", 1, "8 of at most 8 connections of npuctl ([limits] admins)");
    work_honestly(10);
    /* One ends and the next one comes: npud hears of both at once, and refuses nobody. */
    ck_assert_int_eq(kill(npud.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(npud.pid, NULL, WUNTRACED), npud.pid);
    close(fd[0]);
    fd[0] = connect_admin();
    ck_assert_int_eq(kill(npud.pid, SIGCONT), 0);
    npuctl_says("status", 1, "8 of at most 8 connections of npuctl ([limits] admins)");
    close(fd[0]);
    npuctl_says("status", 0, "sessions:");
    for (int i = 1; i < 8; i++)
        close(fd[i]);
    npud_await_fds(before.fds);
    end_shared();
}
END_TEST

/* --- memory --- */

#define GROUP_MAX  (UINT64_C(96) << 20) /* of npud's control group */
#define FILL       (UINT64_C(256) << 20)
#define FILLED_MAX (UINT64_C(32) << 20)

static char group[640]; /* a directory; empty: none */

static bool write_file(const char *name, uint64_t value)
{
    char path[700];
    FILE *f;
    int n;

    snprintf(path, sizeof(path), "%s/%s", group, name);
    f = fopen(path, "we");
    if (!f)
        return false;
    n = fprintf(f, "%llu", (unsigned long long)value);
    return fclose(f) == 0 && n > 0;
}

/* Where the control group of this process is, if memory can be limited there: version 1, or 2. */
static bool find_group(char *dir, size_t size)
{
    char line[512], *path;
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");

    while (f && !found && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if ((path = strstr(line, ":memory:")))
            snprintf(dir, size, "/sys/fs/cgroup/memory%s", path + strlen(":memory:"));
        else if (strncmp(line, "0::", 3) == 0)
            snprintf(dir, size, "/sys/fs/cgroup%s", line + 3);
        else
            continue;
        found = access(dir, W_OK) == 0;
    }
    if (f)
        fclose(f);
    return found;
}

/*
 * npud in a group of its own that may have so little; its pages do not go to swap space in place of
 * that, where the kernel can be told so.
 */
static bool limit_npud(const char *test)
{
    char dir[600];

    if (find_group(dir, sizeof(dir))) {
        snprintf(group, sizeof(group), "%s/npud-charge-%d", dir, (int)getpid());
        if (mkdir(group, 0755) == 0) {
            if ((write_file("memory.max", GROUP_MAX) ||
                 write_file("memory.limit_in_bytes", GROUP_MAX)) &&
                write_file("cgroup.procs", (uint64_t)npud.pid)) {
                if (!write_file("memory.swap.max", 0))
                    write_file("memory.memsw.limit_in_bytes", GROUP_MAX);
                return true;
            }
            rmdir(group);
        }
    }
    return need_lacks(test, "a control group for memory that this process may divide");
}

/* All pages of strict devices are npud's, up to the limit of device memory. */
static bool need_mapped_memory(const char *test)
{
    return !npud_is_strict() || need_lacks(test, "devices that are not strict");
}

/* All of it by engines, which are npud's threads. */
static void fill_honestly(void)
{
    aclrtStream stream, other;
    unsigned char *memory;

    streams_open(&stream, &other);
    OK(aclrtMalloc((void **)&memory, FILL, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemsetAsync(memory, FILL / 2, 7, FILL / 2, stream));
    OK(aclrtMemcpyAsync(memory + FILL / 2, FILL / 2, memory, FILL / 2, ACL_MEMCPY_DEVICE_TO_DEVICE,
                        stream));
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(memory[FILL - 1], 7);
    worked++;
    OK(aclrtFree(memory));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static struct raw filler = {.socket = -1};

/* The task that has npud fill memory of which this process has touched no page. */
static struct task begin_to_fill(void)
{
    struct task set = {.op = TASK_SET, .set.size = FILL};
    struct raw_object memory;

    second_user_become();
    ck_assert(raw_open(&filler) && raw_open_device(&filler, 0) && raw_create_stream(&filler, 0));
    ck_assert(raw_malloc(&filler, false, FILL, &memory));
    set.object = memory.slot;
    set.generation = memory.generation;
    return set;
}

static void put_fill(const struct task *set, unsigned stream)
{
    raw_put(&filler, &filler.stream[stream], set);
    raw_ring(&filler, &filler.stream[stream]);
}

static void expect_fill_refused(unsigned stream)
{
    raw_wait(&filler.stream[stream]);
    ck_assert_int_eq(stream_error_code(atomic_exchange(&filler.stream[stream].ctrl->error, 0)),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
}

/*
 * Without touching a page, and then without leaving one in its place. Two streams, so that copiers
 * fill, too, where there are any.
 */
static int have_npud_fill(void *arg)
{
    struct task set = begin_to_fill();

    (void)arg;
    ck_assert(raw_create_stream(&filler, 0));
    for (int i = 0; i < 8; i++) {
        put_fill(&set, 0);
        put_fill(&set, 1);
        expect_fill_refused(0);
        expect_fill_refused(1);
    }
    hold();
    return 0;
}

static bool memory_that_npud_is_to_fill(unsigned attempt)
{
    Npud__LimitRow row;
    bool good;
    pid_t pid;

#ifdef __SANITIZE_THREAD__ /* its shadow of what npud has mapped is more than the group may have */
    need_lacks(__func__, "an npud without TSan");
    return true;
#endif
    if (!need_root(__func__) || !need_mapped_memory(__func__))
        return true;
    start_shared("--set=limits.filled_memory=32M");
    if (!limit_npud(__func__)) {
        end_shared();
        return true;
    }
    fill_honestly();
    pid = start_attack(have_npud_fill);
    row = limit_of(SECOND_USER, "filled_memory");
    ck_assert_uint_ge(row.used, FILLED_MAX);
    ck_assert_uint_le(row.used, FILLED_MAX + (1 << 20));
    fill_honestly();
    ck_assert_uint_eq(limit_of(0, "filled_memory").used, 0);
    good = end_attack(pid, "memory that npud is to fill", attempt);
    end_shared();
    rmdir(group);
    return good;
}

static int have_npud_fill_all(void *arg)
{
    struct task set = begin_to_fill();

    (void)arg;
    put_fill(&set, 0);
    hold();
    return 0;
}

/*
 * What the limit is there for, and that the control group of the test above is one: an npud that
 * may fill as much as clients like is killed in it by the kernel.
 */
START_TEST(without_a_limit_npud_is_killed)
{
    int status = 0;
    pid_t pid;

#ifdef __SANITIZE_THREAD__ /* as above */
    need_lacks(__func__, "an npud without TSan");
    return;
#endif
    if (!need_root(__func__) || !need_mapped_memory(__func__))
        return;
    start_shared("--set=limits.filled_memory=1G");
    if (!limit_npud(__func__)) {
        end_shared();
        return;
    }
    pid = start_attack(have_npud_fill_all);
    EVENTUALLY(waitpid(npud.pid, &status, WNOHANG) == npud.pid, "npud lives with %llu bytes",
               (unsigned long long)FILL);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    child_kill(pid);
    rmdir(group);
    npud_was_killed();
}
END_TEST

/* --- memory of a device --- */

/* As much as it gets, down to pages, and no page is touched. */
static int take_device(void *arg)
{
    static struct raw raw = {.socket = -1};
    struct raw_object memory;

    (void)arg;
    second_user_become();
    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    for (uint64_t size = UINT64_C(8) << 30; size >= 4096; size /= 2)
        while (raw_malloc(&raw, false, size, &memory) && raw.n_maps < RAW_MAPS)
            ;
    ck_assert_int_eq(raw.error, ACL_ERROR_RT_MEMORY_ALLOCATION);
    hold();
    return 0;
}

/* Another user finds a tenth, and what it is told to be free can be had. */
static bool a_device_is_never_taken_whole(unsigned attempt)
{
    size_t left, total, now_left, now_total;
    void *memory;
    bool good;
    pid_t pid;

    if (!need_root(__func__))
        return true;
    start_shared("--set=sim.memory=8G");
    pid = start_attack(take_device);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    ck_assert_uint_eq(total, (size_t)8 << 30);
    ck_assert_uint_ge(left, total / 12);
    ck_assert_uint_le(left, total / 10);
    OK(aclrtMalloc(&memory, left, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &now_left, &now_total));
    ck_assert_uint_lt(now_left, 4096);
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "device_share",
                 aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtFree(memory));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    work_honestly(2);
    good = end_attack(pid, "all memory of a device, untouched", attempt);
    end_shared();
    return good;
}

static bool (*const attacks[])(unsigned attempt) = {
    a_device_is_never_taken_whole, tables_that_were_large,      all_descriptors_that_there_are,
    connections_that_say_nothing,  memory_that_npud_is_to_fill,
};

START_TEST(beside_an_attack)
{
    for (unsigned attempt = 0; !attacks[_i](attempt);)
        attempt++;
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("charge hostile");
    TCase *t = suite_case(s, "beside", 60, NULL, NULL);

    tcase_add_loop_test(t, beside_an_attack, 0, sizeof(attacks) / sizeof(attacks[0]));
    tcase_add_test(t, connections_of_npuctl);
    tcase_add_test(t, without_a_limit_npud_is_killed);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
