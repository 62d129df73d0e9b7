/* Row 10: a request to npud, beside packets between two processes. */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM_UP 8

/* About what create and destroy stream and their replies take. */
#define REQUEST_SIZE 24
#define REPLY_SIZE   24

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

/* --- raw packets --- */

static void send_packet(int socket, size_t size, int fd)
{
    union control control;
    char data[REPLY_SIZE + REQUEST_SIZE] = {0};
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    }
    if (sendmsg(socket, &msg, MSG_NOSIGNAL) != (ssize_t)size)
        die("sendmsg: %m");
}

static void receive_packet(int socket, size_t size, bool with_fd)
{
    union control control;
    char data[1024];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    int fd;

    if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)size)
        die("recvmsg: %m");
    if (!with_fd)
        return;
    if (msg.msg_controllen == 0)
        die("a descriptor was lost");
    memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    close(fd);
}

static void answer_request(int socket, bool with_fd)
{
    receive_packet(socket, REQUEST_SIZE, false);
    send_packet(socket, REPLY_SIZE, with_fd ? socket : -1);
}

static void make_request(int socket, bool with_fd)
{
    send_packet(socket, REQUEST_SIZE, -1);
    receive_packet(socket, REPLY_SIZE, with_fd);
}

void packet_play(int socket, unsigned rounds, bool first, bool with_fd)
{
    for (unsigned i = 0; i < rounds; i++)
        (first ? make_request : answer_request)(socket, with_fd && i % 2);
}

static double packet_side(void *arg, unsigned n)
{
    return pair_play(arg, GAME_PACKET, WARM_UP, n);
}

static double plain_packet_side(void *arg, unsigned n)
{
    return pair_play(arg, GAME_PACKET_PLAIN, WARM_UP, n);
}

/* --- requests --- */

static void create_and_destroy(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        aclrtStream stream;

        CHECK(aclrtCreateStream(&stream));
        CHECK(aclrtDestroyStream(stream));
    }
}

/* n requests, so half as many streams. */
static double request_side(void *arg, unsigned n)
{
    uint64_t start;

    (void)arg;
    create_and_destroy(WARM_UP / 2);
    start = now_ns();
    create_and_destroy(n / 2);
    return (double)(now_ns() - start) / n;
}

/* One of them answers with a descriptor of a new file. */
static double allocation_side(void *arg, unsigned n)
{
    uint64_t start = now_ns();

    (void)arg;
    for (unsigned i = 0; i < n / 2; i++) {
        void *memory;

        CHECK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclrtFree(memory));
    }
    return (double)(now_ns() - start) / n;
}

static void run_contest(struct pair *pair, const struct row *row, side_fn value, side_fn baseline)
{
    struct contest c = {
        .value = value,
        .baseline = baseline,
        .arg = pair,
        .n_value = 100,
        .n_baseline = 100,
        .rounds = count_of(400, 10),
    };
    struct result result = contest_run(row, &c);

    result_emit(&result);
}

/* With a stream that stays, so that its segment does: as in a program that has more than one. */
static void run_rows(const struct row *with_fd, const struct row *plain,
                     const struct row *allocation)
{
    struct pair pair;
    aclrtStream kept;

    pair_start(&pair);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&kept));
    run_contest(&pair, with_fd, request_side, packet_side);
    run_contest(&pair, plain, request_side, plain_packet_side);
    if (allocation)
        run_contest(&pair, allocation, allocation_side, packet_side);
    CHECK(aclrtDestroyStream(kept));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    pair_stop(&pair);
}

void rows_request(void)
{
    static const struct row with_fd = {
        "10", "create + destroy stream, per request; vs packets, every 2nd with an fd",
        BUDGET_NONE};
    static const struct row plain = {"10-nofd", "the same; vs packets without fd", BUDGET_NONE};
    static const struct row allocation = {
        "10-memory", "allocate + free 4 KiB, per request; vs packets, every 2nd with an fd",
        BUDGET_NONE};

    run_rows(&with_fd, &plain, &allocation);
}

void rows_request_one_cpu(void)
{
    static const struct row with_fd = {"10-one", "the same as row 10, all and npud on one CPU",
                                       BUDGET_NONE};
    static const struct row plain = {"10-one-nofd", "the same; vs packets without fd", BUDGET_NONE};

    run_rows(&with_fd, &plain, NULL);
}
