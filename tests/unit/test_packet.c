/*
 * proto/packet over a socketpair: whole packets with descriptors, or an error and no descriptor
 * lost.
 *
 * Skipped under the emulator: it counts descriptors, and would count those of the emulator.
 */
#include "proto/wire/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "unit.h"

static int a, b;
static unsigned fds_before;
static struct packet packet;
static uint8_t payload[PACKET_MAX + 1];

static void open_sockets(void)
{
    int pair[2];

    fds_before = count_fds();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    a = pair[0];
    b = pair[1];
    memset(&packet, 0xa5, sizeof(packet));
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(i * 7 + i / 256);
}

static void close_socket(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_sockets(void)
{
    close_socket(&a);
    close_socket(&b);
    ck_assert_uint_eq(count_fds(), fds_before);
}

/* Descriptors to send: each of another file, so that the receiver can tell them apart. */
static void make_fds(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fds[i] = memfd_create("test", 0);
        ck_assert_int_ge(fds[i], 0);
        ck_assert_int_eq(ftruncate(fds[i], (off_t)(i + 1)), 0);
    }
}

static void close_fds(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

static off_t size_of(int fd)
{
    struct stat st;

    ck_assert_int_eq(fstat(fd, &st), 0);
    return st.st_size;
}

/*
 * sendmsg() without the limits of packet_send(): what a hostile peer can do. n_cmsgs equal parts.
 */
static void send_raw(const void *data, size_t size, const int *fds, size_t n, size_t n_cmsgs)
{
    static char control[8192] __attribute__((aligned(8)));
    struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = n ? control : NULL};
    size_t used = 0, part = n_cmsgs ? n / n_cmsgs : 0;

    for (size_t i = 0; i < n_cmsgs; i++) {
        struct cmsghdr *c = (struct cmsghdr *)(void *)(control + used);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * part);
        memcpy(CMSG_DATA(c), fds + i * part, sizeof(int) * part);
        used += CMSG_SPACE(sizeof(int) * part);
    }
    msg.msg_controllen = used;
    ck_assert_int_eq(sendmsg(a, &msg, 0), size);
}

static void expect_packet(const void *data, size_t size, size_t n_fds)
{
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(packet.size, size);
    ck_assert_mem_eq(packet.data, data, size);
    ck_assert_uint_eq(packet.n_fds, n_fds);
}

/* The bad packet is refused as a whole, and what comes after it is not affected. */
static void expect_bad_packet(void)
{
    unsigned before = count_fds();

    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EBADMSG);
    ck_assert_uint_eq(packet.n_fds, 0);
    ck_assert_uint_eq(packet.size, 0);
    ck_assert_uint_eq(count_fds(), before);
    ck_assert_int_eq(packet_send(a, "next", 4, NULL, 0, 0), 0);
    expect_packet("next", 4, 0);
}

/* --- whole packets --- */

START_TEST(round_trip_of_every_size)
{
    static const size_t sizes[] = {1, 2, 63, 4096, PACKET_MAX - 1, PACKET_MAX};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ck_assert_int_eq(packet_send(a, payload, sizes[i], NULL, 0, 0), 0);
        expect_packet(payload, sizes[i], 0);
    }
}
END_TEST

START_TEST(packets_keep_their_boundaries)
{
    ck_assert_int_eq(packet_send(a, "one", 3, NULL, 0, 0), 0);
    ck_assert_int_eq(packet_send(a, "three", 5, NULL, 0, 0), 0);
    expect_packet("one", 3, 0);
    expect_packet("three", 5, 0);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    ck_assert_uint_eq(packet.n_fds, 0);
}
END_TEST

START_TEST(descriptors_arrive_in_order_and_close_on_exec)
{
    for (size_t n = 1; n <= PACKET_FDS_MAX; n++) {
        int fds[PACKET_FDS_MAX];
        unsigned before;

        make_fds(fds, n);
        before = count_fds();
        ck_assert_int_eq(packet_send(a, payload, 10, fds, n, 0), 0);
        ck_assert_uint_eq(count_fds(), before); /* borrowed */
        expect_packet(payload, 10, n);
        ck_assert_uint_eq(count_fds(), before + n);
        for (size_t i = 0; i < n; i++) {
            ck_assert_int_eq(size_of(packet.fds[i]), i + 1);
            ck_assert_int_eq(fcntl(packet.fds[i], F_GETFD), FD_CLOEXEC);
        }
        packet_deinit(&packet);
        ck_assert_uint_eq(count_fds(), before);
        close_fds(fds, n);
    }
}
END_TEST

START_TEST(largest_packet_with_most_descriptors)
{
    int fds[PACKET_FDS_MAX];

    make_fds(fds, PACKET_FDS_MAX);
    ck_assert_int_eq(packet_send(a, payload, PACKET_MAX, fds, PACKET_FDS_MAX, 0), 0);
    expect_packet(payload, PACKET_MAX, PACKET_FDS_MAX);
    packet_deinit(&packet);
    close_fds(fds, PACKET_FDS_MAX);
}
END_TEST

START_TEST(taken_descriptors_belong_to_the_taker)
{
    int fds[3], taken;

    make_fds(fds, 3);
    ck_assert_int_eq(packet_send(a, "x", 1, fds, 3, 0), 0);
    close_fds(fds, 3);
    expect_packet("x", 1, 3);
    taken = packet_take_fd(&packet, 1);
    ck_assert_int_eq(size_of(taken), 2);
    ck_assert_int_eq(packet_take_fd(&packet, 1), -1);
    ck_assert_int_eq(packet_take_fd(&packet, 3), -1);
    ck_assert_int_eq(packet_take_fd(&packet, SIZE_MAX), -1);
    packet_deinit(&packet);
    ck_assert_int_eq(size_of(taken), 2);
    ck_assert_int_eq(packet_take_fd(&packet, 0), -1);
    ck_assert_int_eq(close(taken), 0);
    /*
     * A second time, and without a first: fds[0..2] are free numbers now that another thread may
     * have.
     */
    make_fds(fds, 3);
    packet_deinit(&packet);
    ck_assert_int_eq(size_of(fds[0]), 1);
    ck_assert_int_eq(size_of(fds[2]), 3);
    close_fds(fds, 3);
    packet_deinit(&(struct packet){.n_fds = 0});
}
END_TEST

START_TEST(failed_receive_leaves_nothing_to_close)
{
    int fd;

    make_fds(&fd, 1);
    ck_assert_int_eq(packet_send(a, "x", 1, &fd, 1, 0), 0);
    expect_packet("x", 1, 1);
    packet_deinit(&packet);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    ck_assert_uint_eq(packet.n_fds, 0);
    ck_assert_uint_eq(packet.size, 0);
    close_fds(&fd, 1);
}
END_TEST

/* --- what is refused --- */

START_TEST(too_many_descriptors_are_not_sent)
{
    int fds[PACKET_FDS_MAX + 1];

    make_fds(fds, PACKET_FDS_MAX + 1);
    ck_assert_int_eq(packet_send(a, "x", 1, fds, PACKET_FDS_MAX + 1, 0), -EINVAL);
    ck_assert_int_eq(packet_send(a, "x", 1, fds, SIZE_MAX, 0), -EINVAL);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    close_fds(fds, PACKET_FDS_MAX + 1);
}
END_TEST

/*
 * 5: one too many. 6: all that the control buffer holds. 7 and more: truncated by the kernel. 253:
 * the most it lets through.
 */
START_TEST(surplus_descriptors_are_closed)
{
    static const size_t counts[] = {5, 6, 7, 20, 253};
    static int fds[253];

    make_fds(fds, 253);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        send_raw("x", 1, fds, counts[i], 1);
        expect_bad_packet();
    }
    close_fds(fds, 253);
}
END_TEST

START_TEST(descriptors_in_several_control_messages_count_together)
{
    int fds[6];

    make_fds(fds, 6);
    send_raw("xy", 2, fds, 4, 2);
    expect_packet("xy", 2, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(size_of(packet.fds[i]), i + 1);
    packet_deinit(&packet);
    send_raw("xy", 2, fds, 6, 3);
    expect_bad_packet();
    close_fds(fds, 6);
}
END_TEST

/* As npud does: a packet with descriptors is found before it is received, and stays there. */
START_TEST(none_is_taken)
{
    int fds[2];

    make_fds(fds, 2);
    ck_assert_int_eq(packet_recv_without_fds(b, &packet, true, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(packet_send(a, "one", 3, NULL, 0, 0), 0);
    ck_assert(!packet_next_has_fds(b));
    ck_assert_int_eq(packet_recv_without_fds(b, &packet, true, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(packet.size, 3);
    ck_assert_mem_eq(packet.data, "one", 3);
    ck_assert_int_eq(packet_send(a, payload, PACKET_MAX, NULL, 0, 0), 0);
    ck_assert_int_eq(packet_recv_without_fds(b, &packet, false, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(packet.size, PACKET_MAX);
    send_raw(payload, PACKET_MAX + 1, NULL, 0, 0);
    ck_assert_int_eq(packet_recv_without_fds(b, &packet, true, MSG_DONTWAIT), -EBADMSG);
    ck_assert_int_eq(packet_send(a, "two", 3, fds, 2, 0), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(packet_recv_without_fds(b, &packet, true, MSG_DONTWAIT), -EPERM);
        ck_assert_uint_eq(packet.size, 0);
    }
    ck_assert(packet_next_has_fds(b));
    expect_packet("two", 3, 2);
    packet_deinit(&packet);
    close(a);
    a = -1;
    ck_assert_int_eq(packet_recv_without_fds(b, &packet, true, MSG_DONTWAIT), 0);
    close_fds(fds, 2);
}
END_TEST

START_TEST(oversized_packet_is_refused_with_its_descriptors)
{
    int fds[2];

    make_fds(fds, 2);
    send_raw(payload, PACKET_MAX + 1, NULL, 0, 0);
    expect_bad_packet();
    send_raw(payload, PACKET_MAX + 1, fds, 2, 1);
    expect_bad_packet();
    close_fds(fds, 2);
}
END_TEST

/*
 * The receiver has room for one more descriptor only: the kernel says "truncated" and keeps the
 * rest.
 */
START_TEST(descriptors_that_do_not_fit_into_the_process_are_refused)
{
    const char *preload = getenv("LD_PRELOAD");
    struct rlimit old, few;
    int fds[3];

    if (preload && strstr(preload, "vgpreload"))
        return; /* valgrind keeps the limit to itself: the kernel does not know it */
    make_fds(fds, 3);
    ck_assert_int_eq(packet_send(a, "x", 1, fds, 3, 0), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)fds[2] + 2, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EMFILE);
    ck_assert_uint_eq(packet.n_fds, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    close_fds(fds, 3);
}
END_TEST

/*
 * A receiver cannot tell an empty packet from the end, so an empty packet is taken for the end.
 * With descriptors it is a fault.
 */
START_TEST(empty_packet)
{
    int fds[2];

    make_fds(fds, 2);
    send_raw(NULL, 0, NULL, 0, 0);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), 0);
    ck_assert_uint_eq(packet.n_fds, 0);
    send_raw(NULL, 0, fds, 2, 1);
    expect_bad_packet();
    send_raw(NULL, 0, fds, 1, 1);
    expect_bad_packet();
    close_fds(fds, 2);
}
END_TEST

/* --- the end, and errors --- */

START_TEST(end_of_file)
{
    ck_assert_int_eq(packet_send(a, "last", 4, NULL, 0, 0), 0);
    close_socket(&a);
    expect_packet("last", 4, 0);
    ck_assert_int_eq(packet_recv(b, &packet, 0), 0);
    ck_assert_uint_eq(packet.n_fds, 0);
    ck_assert_uint_eq(packet.size, 0);
    ck_assert_int_eq(packet_recv(b, &packet, 0), 0);
}
END_TEST

START_TEST(sending_to_nobody_gives_epipe_and_no_signal)
{
    int fd;

    make_fds(&fd, 1);
    signal(SIGPIPE, SIG_DFL);
    close_socket(&b);
    ck_assert_int_eq(packet_send(a, "x", 1, NULL, 0, 0), -EPIPE);
    ck_assert_int_eq(packet_send(a, "x", 1, &fd, 1, MSG_DONTWAIT), -EPIPE);
    close_fds(&fd, 1);
}
END_TEST

/* A refused client has sent its request before it could know: it must still hear why. */
START_TEST(last_words_of_a_peer_that_did_not_listen)
{
    int fds[2];

    make_fds(fds, 2);
    ck_assert_int_eq(packet_send(a, "unread", 6, fds, 2, 0), 0);
    ck_assert_int_eq(packet_send(b, "refused", 7, fds, 1, 0), 0);
    close_socket(&b);
    ck_assert_int_eq(packet_recv(a, &packet, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(packet.size, 7);
    ck_assert_mem_eq(packet.data, "refused", 7);
    ck_assert_uint_eq(packet.n_fds, 1);
    packet_deinit(&packet);
    ck_assert_int_eq(packet_recv(a, &packet, MSG_DONTWAIT), 0);
    close_fds(fds, 2);
}
END_TEST

START_TEST(full_socket_gives_eagain)
{
    unsigned sent = 0;
    int fd, r;

    make_fds(&fd, 1);
    while ((r = packet_send(a, payload, 1000, &fd, 1, MSG_DONTWAIT)) == 0)
        ck_assert_uint_lt(++sent, 100000);
    ck_assert_int_eq(r, -EAGAIN);
    ck_assert_uint_gt(sent, 0);
    for (; sent > 0; sent--) {
        expect_packet(payload, 1000, 1);
        packet_deinit(&packet);
    }
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(packet_send(a, "again", 5, NULL, 0, MSG_DONTWAIT), 0);
    expect_packet("again", 5, 0);
    close_fds(&fd, 1);
}
END_TEST

START_TEST(bad_descriptors_give_their_error)
{
    int bad = -1, event = eventfd(0, 0);

    ck_assert_int_eq(packet_send(-1, "x", 1, NULL, 0, 0), -EBADF);
    ck_assert_int_eq(packet_recv(-1, &packet, 0), -EBADF);
    ck_assert_int_eq(packet_recv(event, &packet, 0), -ENOTSOCK);
    ck_assert_uint_eq(packet.n_fds, 0);
    ck_assert_int_eq(packet_send(a, "x", 1, &bad, 1, 0), -EBADF);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    close(event);
}
END_TEST

static _Atomic unsigned signals;
static pthread_t receiver;

static void on_signal(int sig)
{
    (void)sig;
    atomic_fetch_add(&signals, 1);
}

static bool kill_until(unsigned n)
{
    pthread_kill(receiver, SIGUSR1);
    return atomic_load(&signals) >= n;
}

static void *disturb_receiver(void *arg)
{
    AWAIT(kill_until(100));
    ck_assert_int_eq(packet_send(a, "after", 5, arg, 1, 0), 0);
    return NULL;
}

START_TEST(signals_do_not_end_a_receive)
{
    struct sigaction sa = {.sa_handler = on_signal}; /* no SA_RESTART */
    pthread_t thread;
    int fd;

    make_fds(&fd, 1);
    ck_assert_int_eq(sigaction(SIGUSR1, &sa, NULL), 0);
    receiver = pthread_self();
    thread = start_thread(disturb_receiver, &fd);
    ck_assert_int_eq(packet_recv(b, &packet, 0), 1);
    ck_assert_uint_eq(packet.n_fds, 1);
    packet_deinit(&packet);
    thread_join(thread);
    ck_assert_uint_ge(atomic_load(&signals), 100);
    close_fds(&fd, 1);
}
END_TEST

/* --- messages --- */

START_TEST(message_round_trip)
{
    Npud__Request request = NPUD__REQUEST__INIT, *got;
    Npud__Hello hello = NPUD__HELLO__INIT;

    request.id = 77;
    request.hello = &hello;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    hello.protocol = PROTOCOL;
    hello.program = (char *)"unit test";
    ck_assert_int_eq(packet_send_message(a, &request.base, NULL, 0, 0), 0);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), 1);
    got = npud__request__unpack(NULL, packet.size, packet.data);
    ck_assert_ptr_nonnull(got);
    ck_assert_uint_eq(got->id, 77);
    ck_assert_int_eq(got->body_case, NPUD__REQUEST__BODY_HELLO);
    ck_assert_uint_eq(got->hello->protocol, PROTOCOL);
    ck_assert_str_eq(got->hello->program, "unit test");
    npud__request__free_unpacked(got, NULL);
}
END_TEST

START_TEST(message_size_ends_at_packet_max)
{
    static char text[PACKET_MAX + 1];
    Npud__Reply reply = NPUD__REPLY__INIT;
    size_t length = PACKET_MAX;
    int fd;

    make_fds(&fd, 1);
    memset(text, 'x', PACKET_MAX);
    reply.message = text;
    while (text[length] = '\0', npud__reply__get_packed_size(&reply) > PACKET_MAX)
        length--;
    ck_assert_uint_eq(npud__reply__get_packed_size(&reply), PACKET_MAX);
    ck_assert_int_eq(packet_send_message(a, &reply.base, &fd, 1, 0), 0);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), 1);
    ck_assert_uint_eq(packet.size, PACKET_MAX);
    ck_assert_uint_eq(packet.n_fds, 1);
    packet_deinit(&packet);
    text[length] = 'x';
    ck_assert_int_eq(packet_send_message(a, &reply.base, &fd, 1, 0), -EMSGSIZE);
    ck_assert_int_eq(packet_recv(b, &packet, MSG_DONTWAIT), -EAGAIN);
    close_fds(&fd, 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("packet");
    TCase *good = suite_case(s, "whole packets", 0, open_sockets, close_sockets);
    TCase *bad = suite_case(s, "refused", 0, open_sockets, close_sockets);
    TCase *end = suite_case(s, "end and errors", 30, open_sockets, close_sockets);

    tcase_add_test(good, round_trip_of_every_size);
    tcase_add_test(good, packets_keep_their_boundaries);
    tcase_add_test(good, descriptors_arrive_in_order_and_close_on_exec);
    tcase_add_test(good, largest_packet_with_most_descriptors);
    tcase_add_test(good, taken_descriptors_belong_to_the_taker);
    tcase_add_test(good, failed_receive_leaves_nothing_to_close);
    tcase_add_test(good, message_round_trip);
    tcase_add_test(good, message_size_ends_at_packet_max);
    tcase_add_test(bad, too_many_descriptors_are_not_sent);
    tcase_add_test(bad, surplus_descriptors_are_closed);
    tcase_add_test(bad, descriptors_in_several_control_messages_count_together);
    tcase_add_test(bad, none_is_taken);
    tcase_add_test(bad, oversized_packet_is_refused_with_its_descriptors);
    tcase_add_test(bad, descriptors_that_do_not_fit_into_the_process_are_refused);
    tcase_add_test(bad, empty_packet);
    tcase_add_test(end, end_of_file);
    tcase_add_test(end, sending_to_nobody_gives_epipe_and_no_signal);
    tcase_add_test(end, last_words_of_a_peer_that_did_not_listen);
    tcase_add_test(end, full_socket_gives_eagain);
    tcase_add_test(end, bad_descriptors_give_their_error);
    tcase_add_test(end, signals_do_not_end_a_receive);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
