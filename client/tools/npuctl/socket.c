#include "client/tools/npuctl/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/core/access.h"
#include "client/tools/npuctl/text.h"
#include "client/tools/npuctl/trace_rows.h"

/*
 * So often npud may end under one npuctl. Each time connect() waits in the queue of the listening
 * socket, which outlives npud, for the next one: so each costs the life of an npud. The bound is
 * for a server that ends all connections.
 */
#define BROKEN_MAX 32

enum status socket_explain_unreachable(const char *path, int error)
{
    char why[ACCESS_TEXT_MAX];

    access_explain(path, error, why, sizeof(why));
    if (error == EACCES)
        fprintf(stderr, "npuctl: npud at %s refuses this user: %s\n", path, why);
    else
        fprintf(stderr,
                "npuctl: no npud at %s: %s\n"
                "$NPUD_ADMIN_SOCKET or --socket say where to look.\n",
                path, why);
    return STATUS_UNREACHABLE;
}

const char *socket_find(const char *variable, const char *otherwise)
{
    const char *path = secure_getenv(variable);

    return path && path[0] ? path : otherwise;
}

static int connect_socket(const char *path, unsigned limit)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval time = {.tv_sec = limit};
    int fd, r = 0;

    if (strlen(path) >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    strcpy(addr.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        r = -errno;
        close(fd);
    }
    return r < 0 ? r : fd;
}

int connection_open(struct connection *c)
{
    c->fd = connect_socket(c->path, c->limit);
    return c->fd < 0 ? c->fd : 0;
}

void connection_close(struct connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* One packet there, one back. 0 on success. */
static int exchange_packets(int fd, ProtobufCMessage *request, struct packet *packet)
{
    int sent = packet_send_message(fd, request, NULL, 0, 0);
    int r = packet_recv(fd, packet, 0);

    /*
     * npud may refuse us and hang up before it reads the request. The kernel tells that first, and
     * then gives the answer.
     */
    if (r == -ECONNRESET)
        r = packet_recv(fd, packet, 0);
    if (r <= 0)
        return r < 0 ? r : sent < 0 ? sent : -ECONNRESET;
    return 0;
}

static bool has_ended(int error)
{
    return error == -ECONNRESET || error == -EPIPE;
}

void *connection_ask(struct connection *c, ProtobufCMessage *request,
                     const ProtobufCMessageDescriptor *type, struct packet *packet)
{
    int error = exchange_packets(c->fd, request, packet), r;
    void *reply;

    while (has_ended(error) && c->broken++ < BROKEN_MAX) {
        connection_close(c);
        r = connection_open(c);
        if (r < 0) {
            socket_explain_unreachable(c->path, -r);
            return NULL;
        }
        error = exchange_packets(c->fd, request, packet);
    }
    reply = error == 0 ? protobuf_c_message_unpack(type, NULL, packet->size, packet->data) : NULL;
    if (!reply)
        fprintf(stderr, "npuctl: npud at %s does not answer: %s\n", c->path,
                strerror(error ? -error : EPROTO));
    return reply;
}

enum status socket_explain_refusal(const char *sentence, int32_t code)
{
    int width;
    char *message = text_escape(sentence, false, &width);

    fprintf(stderr, "npuctl: npud refuses: %s (error %d)\n", message ? message : "", (int)code);
    free(message);
    return STATUS_ERROR;
}

/* Read, not mapped: a file shorter than promised is an error and no SIGBUS. */
uint8_t *socket_read_bytes(const struct packet *packet, uint64_t size)
{
    int fd = packet->n_fds > 0 ? packet->fds[0] : -1;
    struct stat st;
    uint8_t *data;
    uint64_t got = 0;

    if (size > 0 && (fd < 0 || fstat(fd, &st) < 0 || size > (uint64_t)st.st_size))
        return NULL;
    data = malloc(size + 1);
    while (data && got < size) {
        ssize_t n = pread(fd, data + got, size - got, (off_t)got);

        if (n <= 0)
            break;
        got += (uint64_t)n;
    }
    if (got == size)
        return data;
    free(data);
    return NULL;
}

enum status socket_read_report(const struct packet *packet, uint64_t size, Npud__Report **report)
{
    uint8_t *data = socket_read_bytes(packet, size);

    *report = data ? npud__report__unpack(NULL, size, data) : NULL;
    free(data);
    if (*report && trace_rows_expand(*report))
        return STATUS_OK;
    fputs("npuctl: npud's report cannot be read\n", stderr);
    if (*report)
        npud__report__free_unpacked(*report, NULL);
    *report = NULL;
    return STATUS_ERROR;
}
