#include "daemon/base/supervisor_message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/util/fd_message.h"

int supervisor_message_send(int socket, enum supervisor_operation operation, uint32_t value,
                            const char *text, const int *fds, size_t n)
{
    struct supervisor_message m = {.operation = operation, .value = value};

    if (text)
        snprintf(m.text, sizeof(m.text), "%s", text);
    return fd_message_send(socket, &m, sizeof(m), fds, n, MSG_DONTWAIT);
}

int supervisor_message_receive(int socket, struct supervisor_message *message, int *fds,
                               size_t room, size_t *n, int flags)
{
    union {
        struct supervisor_message message;
        char more[4096]; /* of a later version */
    } in = {.more = ""};
    int got[FD_MESSAGE_FDS];
    ssize_t size = fd_message_receive(socket, &in, sizeof(in), got, n, flags);

    while (size == -ECONNRESET) /* comes once, before the end */
        size = fd_message_receive(socket, &in, sizeof(in), got, n, flags);
    while (*n > room)
        close(got[--*n]);
    if (*n > 0)
        memcpy(fds, got, *n * sizeof(*fds));
    *message = in.message;
    message->text[SUPERVISOR_TEXT - 1] = '\0';
    return size > 0 ? 1 : (int)size;
}
