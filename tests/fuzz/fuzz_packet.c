/*
 * packet_recv() and the parsers behind it: packets of any size with any number of descriptors, and
 * which side owns the descriptors that came.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define FDS_MOST 12 /* more than packet_recv() has room for */

static const ProtobufCMessageDescriptor *const types[] = {
    &npud__request__descriptor,     &npud__reply__descriptor,  &npud__admin_request__descriptor,
    &npud__admin_reply__descriptor, &npud__report__descriptor,
};

static unsigned count_fds(void)
{
    struct pollfd p[128];
    unsigned n = 0;

    for (int i = 0; i < 128; i++)
        p[i] = (struct pollfd){.fd = i};
    MUST(poll(p, 128, 0) >= 0);
    for (int i = 0; i < 128; i++)
        n += !(p[i].revents & POLLNVAL);
    return n;
}

/* As packet_send(), which refuses to send what is not legal. */
static bool send_any(int socket, const uint8_t *data, size_t size, int fd, unsigned n_fds)
{
    union {
        char buf[CMSG_SPACE(sizeof(int) * FDS_MOST)];
        struct cmsghdr align;
    } control = {.buf = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds > 0) {
        struct cmsghdr *c;

        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        for (unsigned i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
    }
    return sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/*
 * Whatever parses can be written out again. (It need not parse then: protobuf-c keeps fields with
 * the number 0.)
 */
static void parse_message(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    ProtobufCMessage *m = protobuf_c_message_unpack(type, NULL, size, data);
    uint8_t *packed;
    size_t n;

    if (!m)
        return;
    n = protobuf_c_message_get_packed_size(m);
    packed = malloc(n + 1);
    MUST(packed && protobuf_c_message_pack(m, packed) == n);
    protobuf_c_message_free_unpacked(m, NULL);
    free(packed);
}

static int expect_result(size_t size, unsigned n_fds)
{
    if (size == 0 && n_fds == 0)
        return 0;
    return size == 0 || size > PACKET_MAX || n_fds > PACKET_FDS_MAX ? -EBADMSG : 1;
}

static void one_packet(struct input *in, const int *pair)
{
    static struct packet packet;
    static uint8_t data[PACKET_MAX + 4096];
    const ProtobufCMessageDescriptor *type = types[take_u8(in) % 5];
    unsigned n_fds = take_u8(in), taken = n_fds >> 4;
    uint64_t size = take_number(in);
    size_t n;
    const uint8_t *p;
    int fd, r;

    n_fds = n_fds % 16 % (FDS_MOST + 1);
    if (size > sizeof(data))
        size = sizeof(data);
    p = take_bytes(in, size, &n);
    memset(data, 0, size);
    if (n > 0)
        memcpy(data, p, n);
    MUST(send_any(pair[0], data, size, pair[0], n_fds));
    r = packet_recv(pair[1], &packet, MSG_DONTWAIT);
    MUST(r == expect_result(size, n_fds));
    if (r != 1) {
        MUST(packet.n_fds == 0);
        return;
    }
    MUST(packet.size == size && packet.n_fds == n_fds && memcmp(packet.data, data, size) == 0);
    fd = packet_take_fd(&packet, taken);
    MUST((fd >= 0) == (taken < n_fds));
    if (fd >= 0) {
        MUST(fcntl(fd, F_GETFD) == FD_CLOEXEC);
        close(fd);
    }
    parse_message(type, packet.data, packet.size);
    packet_deinit(&packet);
    packet_deinit(&packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned fds = count_fds();
    int pair[2];

    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    while (in.size > 0)
        one_packet(&in, pair);
    close(pair[0]);
    close(pair[1]);
    MUST(count_fds() == fds);
    return 0;
}
