/*
 * daemon/base/client_socket: closing a client's socket never waits for what the client has sent in
 * it. What was sent here are sockets with SO_LINGER and data that is not read: their last close
 * takes as long as that says.
 */
#include "daemon/base/client_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/packet.h"
#include "tests/common/need.h"
#include "unit.h"

#define LINGER_S 30
#define SOON_NS  (5 * NSEC_PER_SEC)

static int a, b; /* the client's end, npud's end */

static void open_sockets(void)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    a = pair[0];
    b = pair[1];
}

static bool is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0;
}

/* The socket in `a`, which has it alone. The other end, which keeps it from closing. */
static int send_lingering_socket(void)
{
    static char data[65536];
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    socklen_t size = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int sent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other;

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&addr, &size);
    ck_assert_int_eq(connect(sent, (struct sockaddr *)&addr, size), 0);
    other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(other, 0);
    close(listener);
    fcntl(sent, F_SETFL, O_NONBLOCK);
    while (write(sent, data, sizeof(data)) > 0)
        ;
    fcntl(sent, F_SETFL, 0);
    ck_assert_int_eq(setsockopt(sent, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    ck_assert_int_eq(packet_send(a, "x", 1, &sent, 1, 0), 0);
    close(sent);
    return other;
}

START_TEST(the_kernel_refuses_them)
{
    int fd;
    bool takes;

    open_sockets();
    fd = dup(a);
    takes = client_socket_refuse_fds(b);
    ck_assert(takes); /* until now it has taken them */
    if (packet_send(a, "x", 1, &fd, 1, 0) == 0)
        ck_assert(packet_next_has_fds(b)); /* before Linux 6.16 */
    else
        ck_assert(!client_socket_refuse_fds(b));
    close(fd);
    client_socket_close(b, takes);
    close(a);
}
END_TEST

START_TEST(what_holds_nothing_is_closed_at_once)
{
    for (unsigned packets = 0; packets < 6; packets++) {
        open_sockets();
        for (unsigned i = 0; i < packets; i++)
            ck_assert_int_eq(packet_send(a, "x", i % 3, NULL, 0, 0), 0);
        if (packets % 2)
            close(a);
        client_socket_close(b, true);
        ck_assert(is_closed(b));
        if (!(packets % 2))
            close(a);
    }
}
END_TEST

/* Others that hold descriptors wait behind it, and those that hold none do not. */
START_TEST(a_close_that_hangs)
{
    uint64_t start = clock_ns();
    int held;

    /* It makes more room for control data than it is asked for, and so receives descriptors. */
    if (!need_no_emulator(__func__, "the kernel's own recvmsg(2)"))
        return;
    open_sockets();
    /* Behind empty packets, which look like the end. */
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(packet_send(a, "", 0, NULL, 0, 0), 0);
    held = send_lingering_socket();
    client_socket_close(b, true);
    ck_assert_int_lt(packet_send(a, "more", 4, NULL, 0, 0), 0);
    close(a);
    for (int i = 0; i < 20; i++) {
        open_sockets();
        ck_assert_int_eq(packet_send(a, "x", 1, NULL, 0, 0), 0);
        client_socket_close(b, true);
        ck_assert(is_closed(b));
        close(a);
    }
    open_sockets();
    close(send_lingering_socket());
    client_socket_close(b, true);
    close(a);
    ck_assert_uint_lt(clock_ns() - start, SOON_NS);
    ck_assert(!is_closed(b));
    close(held); /* a reset: the close ends */
    AWAIT(is_closed(b));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_socket");
    TCase *t = suite_case(suite, "close", 60, NULL, NULL);

    tcase_add_test(t, the_kernel_refuses_them);
    tcase_add_test(t, what_holds_nothing_is_closed_at_once);
    tcase_add_test(t, a_close_that_hangs);
    return run_suite(suite);
}
