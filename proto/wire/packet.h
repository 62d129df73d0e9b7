/*
 * Packets: one protobuf message plus file descriptors over a SEQPACKET socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is spoken, and what npud also serves: docs/protocol.md, "Versions". */
#define PROTOCOL        10u
#define PROTOCOL_OLDEST 9u
/*
 * What npuctl speaks, of the same numbers: the last one in which its requests and reports have
 * changed. npuctl must reach the npud of before, which it is to replace.
 */
#define PROTOCOL_ADMIN 9u

#define PACKET_MAX     (16 * 1024)
#define PACKET_FDS_MAX 4
#define FENCES_MAX     256 /* per request; 256 of them fit a packet */
#define ROUTES_MAX     512 /* per request and reply */
/* Per request; npud makes system calls for each, and others wait meanwhile. */
#define NOTIFY_PIDS_REQUEST 32u

#define NPUD_SOCKET_DEFAULT       "/run/npud/npud.sock"
#define NPUD_ADMIN_SOCKET_DEFAULT "/run/npud/admin.sock"

struct ProtobufCMessage;

/** Does npud serve libraries and programs that speak this protocol? */
static inline bool protocol_is_served(uint32_t protocol)
{
    return protocol >= PROTOCOL_OLDEST && protocol <= PROTOCOL;
}

/** A received packet. data is the caller's; fds belong to the packet until taken. */
struct packet {
    uint8_t data[PACKET_MAX];
    size_t size;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;
};

/**
 * Send data with n fds (borrowed) as one packet. flags as in sendmsg(2); MSG_NOSIGNAL is always
 * added. Returns 0 or a negative errno (-EAGAIN with MSG_DONTWAIT when the peer does not read).
 */
int packet_send(int socket, const void *data, size_t size, const int *fds, size_t n, int flags);

/** Pack message and send it. -EMSGSIZE when it is larger than PACKET_MAX. */
int packet_send_message(int socket, const struct ProtobufCMessage *message, const int *fds,
                        size_t n, int flags);

/**
 * Receive one packet. Returns 1, 0 at end of file, or a negative errno; -EBADMSG when the
 * payload is too long, the descriptors are too many or come without payload, -EMFILE when this
 * process had no room for them (they are closed in either case). flags as in recvmsg(2).
 */
int packet_recv(int socket, struct packet *packet, int flags);

/**
 * The same for npud, which takes no descriptors: -EPERM when the next packet has some. look: the
 * kernel does not refuse them on this socket. Then the packet is looked at first, and stays where
 * it is: to receive it is to close what is in it, and the last close of a file may never end.
 */
int packet_recv_without_fds(int socket, struct packet *packet, bool look, int flags);

/** Has the packet that would be received next descriptors? */
bool packet_next_has_fds(int socket);

/** Drop the next packet, which was looked at (MSG_PEEK), and has no descriptors. */
void packet_drop(int socket);

/** Take descriptor i out of the packet: the caller closes it. -1 when there is none. */
int packet_take_fd(struct packet *packet, size_t i);

/** Close the descriptors that were not taken. Safe on a zeroed packet. */
void packet_deinit(struct packet *packet);
