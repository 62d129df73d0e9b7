/*
 * npud's half of an executor, for tests: the process, its two files and its socket; requests, and
 * tasks on its lanes. The library is the fake of tests/vendor.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/memfd.h"
#include "proto/shm/executor_shm.h"
#include "proto/util/fd_message.h"
#include "proto/util/futex.h"
#include "proto/wire/executor_message.h"
#include "unit.h"

#define DEVICES_BEGUN 2u

struct executor_process {
    pid_t pid;
    int socket, ring_fd, page_fd;
    struct executor_ring *ring;
    struct executor_page *page;
    uint64_t sent;      /* requests */
    uint32_t named;     /* handles */
    uint64_t last_size; /* of the memory that it made last */
    uint64_t issued[EXECUTOR_LANES];
    int wake[DEVICES_BEGUN];
};

/** An answer, with what is behind it. */
struct told {
    struct executor_answer answer;
    unsigned char more[4096];
    size_t size; /* of more */
    int fd;      /* -1: none */
};

/* --- the process --- */

/** A path beside this program: BUILD/tests/unit. */
static inline char *beside(const char *path)
{
    static char found[2][PATH_MAX];
    static unsigned turn;
    char *to = found[turn++ % 2];
    ssize_t n = readlink("/proc/self/exe", to, PATH_MAX - 128);

    ck_assert_int_gt(n, 0);
    to[n] = '\0';
    snprintf(strrchr(to, '/'), 128, "/%s", path);
    return to;
}

/**
 * Where copies of program and library are that any uid can reach; empty: they are used where they
 * were built, which may be below a folder of one user.
 */
static char open_dir[64];

static inline char *in_open_dir(const char *name)
{
    static char path[2][PATH_MAX];
    static unsigned turn;
    char *to = path[turn++ % 2];

    snprintf(to, PATH_MAX, "%s/%s", open_dir, name);
    return to;
}

static inline char *executor_program(void)
{
    return open_dir[0] ? in_open_dir("npud-executor") : beside("../../npud-executor");
}

/**
 * Another one by NPUD_TEST_LIBRARY=PATH, of the kind NPUD_TEST_KIND: for the tests that have no
 * script. By hand: npud's own library below npu-run, or that of CUDA.
 */
static inline char *fake_library(void)
{
    char *other = getenv("NPUD_TEST_LIBRARY");

    if (other)
        return other;
    return open_dir[0] ? in_open_dir("libfake_vendor.so") : beside("../vendor/libfake_vendor.so");
}

static inline char *library_kind(void)
{
    char *other = getenv("NPUD_TEST_KIND");

    return other ? other : "acl";
}

/**
 * In a child: becomes the program, with that environment ("NAME=value", NULL at the end). Asserts
 * nothing: libcheck would write to a descriptor that may be the socket by then.
 */
static inline void executor_exec(const char *program, int socket, char *const *argv,
                                 const char *const *environment)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (; environment && *environment; environment++)
        putenv((char *)*environment);
    dup2(null, STDOUT_FILENO);
    if (socket >= 0)
        dup2(socket, EXECUTOR_SOCKET); /* not close-on-exec */
    if (socket == EXECUTOR_SOCKET)
        fcntl(socket, F_SETFD, 0);
    execv(program, argv);
    _exit(127);
}

static inline void make_files(struct executor_process *x)
{
    void *ring, *page;

    ck_assert_int_eq(memfd_read_only_new("ring", sizeof(*x->ring), &x->ring_fd, &ring), 0);
    ck_assert_int_eq(memfd_map_new("page", sizeof(*x->page), &x->page_fd, &page), 0);
    x->ring = ring;
    x->page = page;
}

/** Started, and no more. argv: NULL: with the fake. */
static inline void executor_spawn(struct executor_process *x, char *const *argv,
                                  const char *const *environment)
{
    char *usual[] = {"npud-executor", library_kind(), fake_library(), "--nesting", NULL};
    const char *program = executor_program();
    int pair[2];

    *x = (struct executor_process){.wake = {-1, -1}};
    make_files(x);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    x->socket = pair[0];
    x->pid = fork();
    ck_assert_int_ge(x->pid, 0);
    if (x->pid == 0)
        executor_exec(program, pair[1], argv ? argv : usual, environment);
    close(pair[1]);
}

/** How it ends, which it does by itself: as of waitpid(). All of it that is here goes. */
static inline int executor_reap(struct executor_process *x)
{
    int status;

    ck_assert_int_eq(waitpid(x->pid, &status, 0), x->pid);
    if (x->socket >= 0)
        close(x->socket);
    close(x->ring_fd);
    close(x->page_fd);
    munmap(x->ring, sizeof(*x->ring));
    munmap(x->page, sizeof(*x->page));
    for (unsigned i = 0; i < DEVICES_BEGUN; i++)
        if (x->wake[i] >= 0)
            close(x->wake[i]);
    return status;
}

/** npud is gone: the process ends, and well. */
static inline void executor_end(struct executor_process *x)
{
    int status;

    close(x->socket);
    x->socket = -1;
    status = executor_reap(x);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}

/** The process ends by itself: npud hears of it by the socket. */
static inline int executor_await_death(struct executor_process *x)
{
    struct pollfd p = {.fd = x->socket, .events = POLLIN};
    char byte;

    ck_assert_int_eq(poll(&p, 1, GUARD_NS / NSEC_PER_MSEC), 1);
    ck_assert_int_le(recv(x->socket, &byte, 1, 0), 0);
    return executor_reap(x);
}

/* --- requests --- */

/** Sends it, with the next number. */
static inline void executor_tell_fds(struct executor_process *x, struct executor_request request,
                                     const int *fds, unsigned n)
{
    request.number = ++x->sent;
    ck_assert_int_eq(fd_message_send(x->socket, &request, sizeof(request), fds, n, 0), 0);
}

static inline void executor_tell(struct executor_process *x, struct executor_request request)
{
    executor_tell_fds(x, request, NULL, 0);
}

static inline struct told executor_hear(struct executor_process *x)
{
    struct pollfd p = {.fd = x->socket, .events = POLLIN};
    struct told told;
    int fds[FD_MESSAGE_FDS];
    size_t n_fds;
    ssize_t n;

    ck_assert_int_eq(poll(&p, 1, GUARD_NS / NSEC_PER_MSEC), 1);
    n = fd_message_receive(x->socket, &told, sizeof(told.answer) + sizeof(told.more), fds, &n_fds,
                           0);
    ck_assert_int_ge(n, (ssize_t)sizeof(told.answer));
    ck_assert_uint_le(n_fds, 1);
    told.size = (size_t)n - sizeof(told.answer);
    told.fd = n_fds == 1 ? fds[0] : -1;
    return told;
}

/** Sends it, and waits for its answer, which is the next one. */
static inline struct told executor_ask_fds(struct executor_process *x,
                                           struct executor_request request, const int *fds,
                                           unsigned n)
{
    struct told told;

    executor_tell_fds(x, request, fds, n);
    told = executor_hear(x);
    ck_assert_uint_eq(told.answer.number, x->sent);
    ck_assert_uint_eq(told.answer.op, request.op);
    return told;
}

/** The code of the answer. A macro, so that the request is written as its members. */
#define ASK(x, ...)                                                                                \
    (executor_ask_fds((x), (struct executor_request){__VA_ARGS__}, NULL, 0).answer.code)
#define TELL(x, ...) executor_tell((x), (struct executor_request){__VA_ARGS__})

/** Nothing that was sent before is still to be handled. */
static inline void executor_settle(struct executor_process *x)
{
    ck_assert_int_eq(ASK(x, .op = 9999), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static inline struct told executor_hello(struct executor_process *x, uint64_t version)
{
    int fds[2] = {memfd_open_read_only(x->ring_fd), x->page_fd};
    struct told told;

    ck_assert_int_ge(fds[0], 0);
    told = executor_ask_fds(x, (struct executor_request){.op = EXECUTOR_HELLO, .value = version},
                            fds, 2);
    close(fds[0]);
    return told;
}

static inline int32_t executor_begin_device(struct executor_process *x, uint32_t device)
{
    if (x->wake[device] < 0)
        x->wake[device] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return executor_ask_fds(
               x, (struct executor_request){.op = EXECUTOR_DEVICE_BEGIN, .device = device},
               &x->wake[device], 1)
        .answer.code;
}

/** Started, and ready for work on two devices. */
static inline void executor_start(struct executor_process *x, const char *const *environment)
{
    struct told told;

    executor_spawn(x, NULL, environment);
    told = executor_hello(x, EXECUTOR_VERSION);
    ck_assert_msg(told.answer.code == 0, "%s", told.answer.text);
    ck_assert_uint_eq(told.answer.value, DEVICES_BEGUN);
    for (uint32_t d = 0; d < DEVICES_BEGUN; d++)
        ck_assert_int_eq(executor_begin_device(x, d), 0);
}

#define START(x, ...) executor_start((x), (const char *[]){__VA_ARGS__, NULL})

/* --- memory --- */

/** A handle that was never used. Its slot is used again and again. */
static inline uint64_t new_handle(struct executor_process *x)
{
    x->named++;
    return (uint64_t)x->named << 32 | x->named % 1000;
}

static inline uint64_t new_memory(struct executor_process *x, uint32_t device, uint64_t size)
{
    struct executor_request request = {
        .op = EXECUTOR_MEMORY_NEW, .device = device, .handle = new_handle(x), .size = size};
    struct told told = executor_ask_fds(x, request, NULL, 0);

    ck_assert_msg(told.answer.code == 0, "%s", told.answer.text);
    ck_assert_uint_ge(told.answer.size, size);
    ck_assert_uint_ne(told.answer.address, 0);
    ck_assert_uint_eq(told.answer.handle, request.handle);
    x->last_size = told.answer.size;
    return request.handle;
}

/** Pages that both have: *map here. */
static inline uint64_t new_pages(struct executor_process *x, uint64_t size, unsigned char **map)
{
    struct executor_request request = {
        .op = EXECUTOR_HOST_ATTACH, .handle = new_handle(x), .size = size};
    void *at;
    int fd;

    ck_assert_int_eq(memfd_map_new("pages", size, &fd, &at), 0);
    *map = at;
    executor_tell_fds(x, request, &fd, 1);
    close(fd);
    return request.handle;
}

/* --- tasks --- */

/** The lane's next task. Its number. */
static inline uint64_t give(struct executor_process *x, unsigned lane, struct executor_task task)
{
    struct executor_bell *bell = &x->ring->bell[lane];
    uint64_t number = ++x->issued[lane];

    if (number == 1)
        TELL(x, .op = EXECUTOR_LANE_BEGIN, .value = lane);
    if (task.after == 0)
        task.after = x->sent;
    AWAIT(atomic_load(&x->page->lane[lane].done) + EXECUTOR_DEPTH >= number);
    task.number = number;
    x->ring->entry[lane][number % EXECUTOR_DEPTH] = task;
    atomic_store(&bell->issued, number);
    atomic_store(&bell->news, (uint32_t)number);
    if (atomic_load(&x->page->lane[lane].asleep) != 0)
        futex_wake_all(&bell->news);
    return number;
}

static inline bool is_over(const struct executor_process *x, unsigned lane, uint64_t number)
{
    return atomic_load(&x->page->lane[lane].done) >= number;
}

/** Wait for the last one. Its code. */
static inline int32_t await_task(const struct executor_process *x, unsigned lane)
{
    AWAIT(is_over(x, lane, x->issued[lane]));
    ck_assert_uint_eq(atomic_load(&x->page->lane[lane].done), x->issued[lane]);
    return atomic_load(&x->page->lane[lane].code);
}

#define GIVE(x, lane, ...) give((x), (lane), (struct executor_task){__VA_ARGS__})
/** The code of a task of lane 0, which is over then. */
#define DO(x, ...) (GIVE(x, 0, __VA_ARGS__), await_task((x), 0))

/** The lane is at a call of the library. */
static inline void await_busy(const struct executor_process *x, unsigned lane)
{
    AWAIT(atomic_load(&x->page->lane[lane].busy_since) != 0);
}
