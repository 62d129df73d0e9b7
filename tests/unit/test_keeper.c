/*
 * daemon/keeper and daemon/base/keeper_link: what was put is there for whoever comes next, to the
 * last descriptor, and nothing is there after the end of the lease.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/keeper_link.h"
#include "daemon/base/keeper_message.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/base/own_fds.h"
#include "proto/util/clock.h"
#include "tests/common/need.h"
#include "unit.h"

#define MANY     10000
#define LINGER_S 30

/* A keeper in a child process, and this process's end of its lease. */
struct kept_by {
    pid_t pid;
    int lease;
};

static struct kept_by keeper_start(void)
{
    struct kept_by k;
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    k.lease = pair[0];
    k.pid = fork();
    if (k.pid == 0) {
        keeper_link_close();
        close(pair[0]);
        signal(SIGPIPE, SIG_IGN);
        _exit(keeper_serve(pair[1]) == 0 ? 0 : 1);
    }
    close(pair[1]);
    return k;
}

/* It ends by itself, and well. */
static void keeper_expect_end(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static pid_t link_start(void)
{
    struct kept_by k = keeper_start();

    ck_assert_int_eq(keeper_link_open(k.lease), 0);
    return k.pid;
}

static uint64_t inode_of(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    return st.st_ino;
}

static int memory_new(void)
{
    int fd = memfd_new_empty("test");

    ck_assert_int_ge(fd, 0);
    return fd;
}

/* --- what is fetched --- */

struct fetched {
    unsigned n;
    uint64_t keys[MANY];
    uint64_t inodes[MANY];
};
static struct fetched fetched;

static void note_and_close(void *arg, uint64_t key, int fd)
{
    struct fetched *f = arg;

    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_uint_lt(f->n, MANY);
    f->keys[f->n] = key;
    f->inodes[f->n++] = inode_of(fd);
    close(fd);
}

static int fetch_again(void)
{
    fetched.n = 0;
    return keeper_fetch(note_and_close, &fetched);
}

static uint64_t inode_fetched(uint64_t key)
{
    for (unsigned i = 0; i < fetched.n; i++)
        if (fetched.keys[i] == key)
            return fetched.inodes[i];
    return 0;
}

START_TEST(what_was_put_is_fetched)
{
    pid_t pid = link_start();
    int one = memory_new(), two = memory_new();
    uint64_t keys[] = {17, 18};

    keeper_put_all(keys, (int[]){one, two}, 2);
    keeper_put(KEEPER_KEY_TABLES, two);
    ck_assert_int_eq(fetch_again(), 3);
    ck_assert_uint_eq(inode_fetched(17), inode_of(one));
    ck_assert_uint_eq(inode_fetched(18), inode_of(two));
    ck_assert_uint_eq(inode_fetched(KEEPER_KEY_TABLES), inode_of(two));
    ck_assert_int_eq(fetch_again(), 3);
    keeper_drop((uint64_t[]){17, 99}, 2);
    ck_assert_int_eq(fetch_again(), 2);
    ck_assert_uint_eq(inode_fetched(17), 0);
    keeper_put(18, one); /* in place of the other */
    ck_assert_int_eq(fetch_again(), 2);
    ck_assert_uint_eq(inode_fetched(18), inode_of(one));
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

START_TEST(one_key_is_peeked)
{
    pid_t pid = link_start();
    int fd, one = memory_new();

    ck_assert_int_eq(keeper_peek(KEEPER_KEY_TABLES, &fd), -ENOENT);
    ck_assert_int_eq(fd, -1);
    keeper_put(KEEPER_KEY_TABLES, one);
    keeper_put(20, memory_new());
    ck_assert_int_eq(keeper_peek(KEEPER_KEY_TABLES, &fd), 0);
    ck_assert_uint_eq(inode_of(fd), inode_of(one));
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

START_TEST(without_a_lease_nothing_happens)
{
    int fd;

    ck_assert_int_eq(keeper_link_open(-1), 0);
    ck_assert(!keeper_link_is_open());
    ck_assert_int_eq(keeper_link_fd(), -1);
    keeper_put(16, STDIN_FILENO);
    keeper_drop((uint64_t[]){16}, 1);
    ck_assert_int_eq(keeper_fetch(note_and_close, &fetched), 0);
    ck_assert_int_eq(keeper_peek(16, &fd), -ENOENT);
    ck_assert_int_lt(keeper_link_open(memory_new()), 0); /* no socket */
    ck_assert(!keeper_link_is_open());
}
END_TEST

/* Key i has the descriptor number i of its process. */
static void put_many(int *fds)
{
    static uint64_t keys[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        fds[i] = eventfd(i, EFD_CLOEXEC | EFD_NONBLOCK);
        keys[i] = KEEPER_KEY_FIRST + i;
        ck_assert_int_ge(fds[i], 0);
    }
    keeper_put_all(keys, fds, MANY);
}

static unsigned wrong;

static void expect_own_counter(void *arg, uint64_t key, int fd)
{
    uint64_t value = 0;
    bool *seen = arg;

    if (key != KEEPER_KEY_FIRST && read(fd, &value, sizeof(value)) != sizeof(value))
        wrong++;
    wrong += value != key - KEEPER_KEY_FIRST || seen[value];
    seen[value] = true;
    close(fd);
}

START_TEST(ten_thousand_are_all_there)
{
    static int fds[MANY];
    static bool seen[MANY];
    unsigned before;
    uint64_t keys[MANY / 2];
    pid_t pid;

    if (!need_own_fds(__func__, MANY + 64))
        return;
    pid = link_start();
    before = count_fds();
    put_many(fds);
    for (unsigned i = 0; i < MANY; i++)
        close(fds[i]);
    ck_assert_int_eq(keeper_fetch(expect_own_counter, seen), MANY);
    ck_assert_uint_eq(wrong, 0);
    for (unsigned i = 0; i < MANY / 2; i++)
        keys[i] = KEEPER_KEY_FIRST + 2 * i;
    keeper_drop(keys, MANY / 2);
    ck_assert_int_eq(fetch_again(), MANY / 2);
    ck_assert_uint_eq(count_fds(), before);
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

/* Asks for everything, and is gone before it has read more than can be waiting. */
static void ask_and_end(int lease)
{
    struct keeper_message m = {.version = KEEPER_VERSION, .operation = KEEPER_FETCH};
    struct pollfd p = {.events = POLLIN};
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(fd_message_send(lease, &m, KEEPER_HEADER, &pair[1], 1, 0), 0);
    close(pair[1]);
    p.fd = pair[0];
    ck_assert_int_eq(poll(&p, 1, GUARD_NS / NSEC_PER_MSEC), 1);
    close(pair[0]);
}

/* An npud that is killed while it recovers does nothing that an administrator must know. */
START_TEST(an_asker_that_dies_is_no_error)
{
    static int fds[MANY];
    static bool seen[MANY];
    int said = memory_new(), err = dup(STDERR_FILENO);
    struct kept_by k;

    if (!need_own_fds(__func__, MANY + 64))
        return;
    dup2(said, STDERR_FILENO);
    log_setup(LOG_NOTICE);
    k = keeper_start();
    log_setup(LOG_ALERT);
    dup2(err, STDERR_FILENO);
    ck_assert_int_eq(keeper_link_open(k.lease), 0);
    put_many(fds);
    for (unsigned i = 0; i < MANY; i++)
        close(fds[i]);
    for (unsigned i = 0; i < 20; i++)
        ask_and_end(k.lease);
    ck_assert_int_eq(keeper_fetch(expect_own_counter, seen), MANY);
    keeper_link_close();
    keeper_expect_end(k.pid);
    ck_assert_int_eq(lseek(said, 0, SEEK_END), 0);
}
END_TEST

/* A put that has returned is there for the next process, also if this one is killed at once. */
START_TEST(a_put_outlives_its_process)
{
    pid_t pid = link_start(), owner;
    uint64_t key = KEEPER_KEY_FIRST;

    for (int round = 0; round < 100; round++, key += 3) {
        owner = fork();
        if (owner == 0) {
            keeper_put(key, memory_new());
            keeper_put_all((uint64_t[]){key + 1, key + 2}, (int[]){0, 1}, 2);
            kill(getpid(), SIGKILL);
        }
        ck_assert_int_eq(waitpid(owner, NULL, 0), owner);
        ck_assert_int_eq(fetch_again(), 3 * (round + 1));
    }
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

static _Atomic bool enough;

static void *put_and_drop(void *arg)
{
    int lease = *(int *)arg, fd = memory_new();
    struct keeper_message m = {.version = KEEPER_VERSION, .n = 1};

    for (uint64_t key = 1000; !atomic_load(&enough); key++) {
        m.keys[0] = key;
        m.operation = KEEPER_PUT;
        CHECK(fd_message_send(lease, &m, KEEPER_HEADER + 8, &fd, 1, 0) == 0);
        m.operation = KEEPER_DROP;
        CHECK(fd_message_send(lease, &m, KEEPER_HEADER + 8, NULL, 0, 0) == 0);
    }
    return NULL;
}

/* Messages of another holder of the lease on their way: what was put before is always there. */
/* How often it has slept so far. */
static unsigned long sleeps_of(pid_t pid)
{
    char path[64], line[128];
    unsigned long n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f))
        sscanf(line, "voluntary_ctxt_switches: %lu", &n);
    fclose(f);
    return n;
}

#define PACED   400
#define PACE_NS 50000

/* It sleeps for its rest, and then for the next message. */
START_TEST(many_drops_wake_it_a_few_times)
{
    pid_t pid = link_start();
    unsigned long sleeps;
    uint64_t began, rests;

    fetch_again(); /* it has begun */
    sleeps = sleeps_of(pid);
    began = clock_ns();
    for (uint64_t i = 0, last = began; i < PACED; i++) {
        while (clock_ns() < last + PACE_NS)
            ;
        last = clock_ns();
        keeper_drop(&(uint64_t){99}, 1);
    }
    rests = (clock_ns() - began) / KEEPER_REST_NS + 2;
    sleeps = sleeps_of(pid) - sleeps;
    ck_assert_msg(sleeps <= 2 * rests, "%lu sleeps in the time of %llu rests", sleeps,
                  (unsigned long long)rests);
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

START_TEST(fetch_while_puts_are_on_their_way)
{
    struct kept_by k = keeper_start();
    static uint64_t keys[600];
    static int fds[600];
    pthread_t other;

    ck_assert_int_eq(keeper_link_open(k.lease), 0);
    for (unsigned i = 0; i < 600; i++) {
        keys[i] = KEEPER_KEY_FIRST + i;
        fds[i] = STDIN_FILENO;
    }
    keeper_put_all(keys, fds, 600);
    other = start_thread(put_and_drop, &k.lease);
    for (int round = 0; round < 200; round++) {
        int n = fetch_again();

        ck_assert_int_ge(n, 600);
        ck_assert_int_le(n, 601);
        for (unsigned i = 0; i < 600; i++)
            CHECK(inode_fetched(keys[i]) != 0);
    }
    atomic_store(&enough, true);
    thread_join(other);
    keeper_link_close();
    keeper_expect_end(k.pid);
}
END_TEST

/* --- the end --- */

/* A pipe whose one end only the keeper has hangs up when it lets go. */
static void expect_hang_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ck_assert_int_eq(poll(&p, 1, GUARD_NS / NSEC_PER_MSEC), 1);
    ck_assert(p.revents & POLLHUP);
}

static int put_pipe(uint64_t key)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    keeper_put(key, ends[1]);
    close(ends[1]);
    return ends[0];
}

static bool has_hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

START_TEST(the_last_copy_of_the_lease_lets_go)
{
    pid_t pid = link_start();
    int copy = fcntl(keeper_link_fd(), F_DUPFD_CLOEXEC, 3);
    int one = put_pipe(20), two = put_pipe(21);

    ck_assert_int_eq(fetch_again(), 2);
    keeper_link_close();
    ck_assert_int_eq(keeper_link_open(copy), 0);
    ck_assert_int_eq(fetch_again(), 2);
    ck_assert(!has_hung_up(one));
    keeper_drop((uint64_t[]){20}, 1);
    expect_hang_up(one);
    ck_assert(!has_hung_up(two));
    keeper_link_close();
    keeper_expect_end(pid);
    expect_hang_up(two);
}
END_TEST

/* The end of npud ends its connections, even if a third process still has a copy. */
START_TEST(the_end_shuts_connections_down)
{
    pid_t pid = link_start();
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    keeper_put(30, pair[1]);
    ck_assert_int_eq(fetch_again(), 1);
    keeper_link_close();
    keeper_expect_end(pid);
    expect_hang_up(pair[0]);
}
END_TEST

/* Dropping one does not: another copy may still be in use. */
START_TEST(a_drop_shuts_nothing_down)
{
    pid_t pid = link_start();
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    keeper_put(30, pair[1]);
    keeper_drop((uint64_t[]){30}, 1);
    ck_assert_int_eq(fetch_again(), 0);
    ck_assert_int_eq(send(pair[0], "x", 1, 0), 1);
    keeper_link_close();
    keeper_expect_end(pid);
    ck_assert_int_eq(send(pair[0], "x", 1, MSG_NOSIGNAL), 1);
}
END_TEST

/* --- what takes long to close --- */

/* A socket of a client in which a descriptor was left, whose last close lasts for LINGER_S. */
static int put_lingering(uint64_t key, int *other)
{
    static char data[65536];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int sent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pair[2];
    socklen_t size = sizeof(addr);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&addr, &size);
    ck_assert_int_eq(connect(sent, (struct sockaddr *)&addr, size), 0);
    *other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    while (send(sent, data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
    setsockopt(sent, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(fd_message_send(pair[0], "x", 1, &sent, 1, 0), 0);
    close(sent);
    keeper_put(key, pair[1]);
    close(pair[1]);
    return pair[0];
}

START_TEST(a_close_that_lasts_holds_nothing_up)
{
    uint64_t start = clock_ns();
    pid_t pid = link_start();
    int others[4], ends[4], pipe_end;

    if (!need_no_emulator(__func__, "the kernel's own recvmsg(2)"))
        return;
    for (int i = 0; i < 4; i++)
        ends[i] = put_lingering(40 + (uint64_t)i, &others[i]);
    pipe_end = put_pipe(50);
    keeper_drop((uint64_t[]){40}, 1);
    shutdown(ends[1], SHUT_RDWR);
    keeper_drop((uint64_t[]){41}, 1);
    keeper_drop((uint64_t[]){50}, 1);
    expect_hang_up(pipe_end);
    ck_assert_int_eq(fetch_again(), 2);
    ck_assert_uint_lt(clock_ns() - start, LINGER_S * NSEC_PER_SEC / 2);
    for (int i = 0; i < 4; i++) {
        close(ends[i]);
        close(others[i]); /* a reset: the close is over */
    }
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

/* --- garbage, and other versions --- */

static void send_raw(uint16_t operation, uint16_t n, size_t size, const int *fds, size_t n_fds)
{
    static struct {
        struct keeper_message m;
        char more[512];
    } raw;

    raw.m = (struct keeper_message){.operation = operation, .n = n, .version = 7};
    for (size_t i = 0; i < KEEPER_KEYS_MAX; i++)
        raw.m.keys[i] = 500 + i;
    ck_assert_int_eq(fd_message_send(keeper_link_fd(), &raw, size, fds, n_fds, 0), 0);
}

START_TEST(garbage_is_ignored)
{
    pid_t pid = link_start();
    int kept = put_pipe(20), ends[2], fds[4];
    uint64_t random = 5;
    char noise[64];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < 4; i++)
        fds[i] = ends[1];
    send_raw(KEEPER_PUT, 1, KEEPER_HEADER + 8, fds, 4);    /* too many descriptors */
    send_raw(KEEPER_PUT, 4, KEEPER_HEADER + 8, fds, 4);    /* too few keys */
    send_raw(KEEPER_PUT, 4, 3, fds, 4);                    /* no header */
    send_raw(KEEPER_PUT, 0xffff, KEEPER_HEADER, fds, 1);   /* more keys than there can be */
    send_raw(KEEPER_DROP, 0xffff, KEEPER_HEADER, fds, 1);  /* the same */
    send_raw(KEEPER_FETCH, 0, KEEPER_HEADER, NULL, 0);     /* no socket */
    send_raw(KEEPER_FETCH, 0, KEEPER_HEADER, fds, 1);      /* which is none */
    send_raw(KEEPER_FETCH, 0, KEEPER_HEADER, NULL, 0);     /* no socket */
    ck_assert_int_eq(send(keeper_link_fd(), "", 0, 0), 0); /* like an end */
    for (int i = 0; i < 1000; i++) {
        for (size_t b = 0; b < sizeof(noise); b++)
            noise[b] = (char)random_next(&random);
        ck_assert_int_eq(fd_message_send(keeper_link_fd(), noise, 1 + random_below(&random, 64),
                                         fds, random_below(&random, 5), 0),
                         0);
    }
    close(ends[1]);
    expect_hang_up(ends[0]); /* whatever came with it is closed */
    ck_assert_int_eq(fetch_again(), 1);
    ck_assert(!has_hung_up(kept));
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

START_TEST(an_operation_of_a_later_npud_is_ended)
{
    pid_t pid = link_start();
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    send_raw(1000, 2, KEEPER_HEADER + 16, &pair[1], 1);
    close(pair[1]);
    expect_hang_up(pair[0]); /* the asker sees that there is no answer */
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

/* What a later npud writes behind the keys does not matter. */
START_TEST(a_longer_message_is_understood)
{
    pid_t pid = link_start();

    send_raw(KEEPER_PUT, 1, sizeof(struct keeper_message) + 512, (int[]){STDIN_FILENO}, 1);
    ck_assert_int_eq(fetch_again(), 1);
    ck_assert_uint_eq(fetched.keys[0], 500);
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

/* An asker that dies does not stop the keeper. */
START_TEST(an_asker_that_dies_is_forgotten)
{
    pid_t pid = link_start();
    static uint64_t keys[2000];
    static int fds[2000];
    int pair[2];

    if (!need_own_fds(__func__, 4096))
        return;
    for (unsigned i = 0; i < 2000; i++)
        keys[i] = KEEPER_KEY_FIRST + i;
    keeper_put_all(keys, fds, 2000);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        send_raw(KEEPER_FETCH, 0, KEEPER_HEADER, &pair[1], 1);
        close(pair[1]);
        close(pair[0]);
    }
    ck_assert_int_eq(fetch_again(), 2000);
    keeper_link_close();
    keeper_expect_end(pid);
}
END_TEST

/* --- when it dies --- */

static unsigned losses;

static void count_loss(void *arg)
{
    ck_assert_ptr_eq(arg, &losses);
    losses++;
}

static int source_fds[600];

static void enumerate_source(void *arg, keeper_take *take, void *to)
{
    ck_assert_ptr_eq(arg, source_fds);
    for (unsigned i = 0; i < 600; i++)
        take(to, KEEPER_KEY_FIRST + i, source_fds[i]);
}

static void keeper_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(the_next_keeper_gets_everything)
{
    pid_t pid = link_start();
    struct kept_by next;

    keeper_link_add_source(enumerate_source, source_fds);
    keeper_link_on_lost(count_loss, &losses);
    for (unsigned i = 0; i < 600; i++)
        source_fds[i] = STDIN_FILENO;
    source_fds[300] = memory_new();
    for (int round = 1; round <= 3; round++) {
        keeper_kill(pid);
        keeper_put(16, STDIN_FILENO); /* fails, and says so */
        ck_assert_uint_eq(losses, round);
        keeper_put(17, STDIN_FILENO); /* once */
        keeper_link_lost();
        ck_assert_uint_eq(losses, round);
        ck_assert(!keeper_link_is_open());
        next = keeper_start();
        ck_assert_int_eq(keeper_link_replace(next.lease), 0);
        pid = next.pid;
        ck_assert(keeper_link_is_open());
        ck_assert_int_eq(fetch_again(), 600);
        ck_assert_uint_eq(inode_fetched(KEEPER_KEY_FIRST + 300), inode_of(source_fds[300]));
    }
    keeper_kill(pid);
    ck_assert_int_eq(keeper_fetch(note_and_close, &fetched), -EPIPE);
    keeper_link_lost();
    ck_assert_uint_eq(losses, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keeper");
    TCase *t = suite_case(suite, "keeping", 60, NULL, NULL);

    own_fds_raise_limit();
    log_setup(LOG_ALERT); /* garbage is named in the log */
    tcase_add_test(t, what_was_put_is_fetched);
    tcase_add_test(t, one_key_is_peeked);
    tcase_add_test(t, without_a_lease_nothing_happens);
    tcase_add_test(t, ten_thousand_are_all_there);
    tcase_add_test(t, an_asker_that_dies_is_no_error);
    tcase_add_test(t, a_put_outlives_its_process);
    tcase_add_test(t, many_drops_wake_it_a_few_times);
    tcase_add_test(t, fetch_while_puts_are_on_their_way);
    t = suite_case(suite, "end", 60, NULL, NULL);
    tcase_add_test(t, the_last_copy_of_the_lease_lets_go);
    tcase_add_test(t, the_end_shuts_connections_down);
    tcase_add_test(t, a_drop_shuts_nothing_down);
    tcase_add_test(t, a_close_that_lasts_holds_nothing_up);
    t = suite_case(suite, "messages", 60, NULL, NULL);
    tcase_add_test(t, garbage_is_ignored);
    tcase_add_test(t, an_operation_of_a_later_npud_is_ended);
    tcase_add_test(t, a_longer_message_is_understood);
    tcase_add_test(t, an_asker_that_dies_is_forgotten);
    t = suite_case(suite, "death", 60, NULL, NULL);
    tcase_add_test(t, the_next_keeper_gets_everything);
    return run_suite(suite);
}
