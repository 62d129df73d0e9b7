#include "client/buffers/queue_bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/runtime/session.h"

/* npud takes the request itself for the first ring. The descriptor, or -1. */
static int request_bell(struct session *session, uint32_t number)
{
    REQUEST(queue_bell, QUEUE_BELL, .number = number);
    struct error_saved ignored;
    Npud__Reply *reply = NULL;
    int error, fd = -1;

    error_save(&ignored);
    error = session_request(session, __func__, &request, &reply, &fd);
    error_save_end(&ignored);
    if (error == 0)
        session_reply_free(reply);
    return fd;
}

void queue_bell_ring(struct session *session, struct queue_bell *bell, uint32_t number)
{
    int have = atomic_load_explicit(&bell->fd_plus_one, memory_order_acquire), fd;

    if (have != 0) {
        eventfd_write(have - 1, 1);
        return;
    }
    fd = request_bell(session, number);
    if (fd >= 0 && !atomic_compare_exchange_strong(&bell->fd_plus_one, &have, fd + 1))
        close(fd);
}

void queue_bell_close(struct queue_bell *bell)
{
    int have = atomic_exchange(&bell->fd_plus_one, 0);

    if (have != 0)
        close(have - 1);
}
