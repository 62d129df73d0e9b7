/* What devices there are: asked of an executor that does nothing else. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/backend/executors.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "proto/util/fd_message.h"

#define PROBE_SECONDS 60

/* Asks and waits: while npud does not serve yet. Descriptors of the answer are of no use here. */
static int ask_and_wait(struct executor *x, struct executor_request request, const int *fds,
                        unsigned n, struct told *told)
{
    struct pollfd ready = {.fd = x->socket, .events = POLLIN};
    int got[FD_MESSAGE_FDS], r;
    size_t n_got = 0;
    ssize_t size;

    r = executor_send(x, &request, fds, n);
    if (r < 0)
        return r;
    if (poll(&ready, 1, PROBE_SECONDS * 1000) != 1)
        return -ETIMEDOUT;
    *told = (struct told){0};
    size = fd_message_receive(x->socket, told, sizeof(*told), got, &n_got, MSG_DONTWAIT);
    while (n_got > 0)
        close(got[--n_got]);
    if (size < (ssize_t)sizeof(told->answer) || told->answer.number != request.number ||
        !executor_is_text(told->answer.text, sizeof(told->answer.text)))
        return -EPROTO;
    if (told->answer.code == 0)
        return 0;
    executor_clean_text(told->answer.text);
    log_error("%s: %s (%d)", x->all->library, told->answer.text, told->answer.code);
    return -ENODEV;
}

static int probe_device(struct executor *x, uint32_t device, int wake)
{
    struct executor_device_info *info = &x->all->info[device];
    struct told told;
    int r =
        ask_and_wait(x, (struct executor_request){.op = EXECUTOR_DEVICE_BEGIN, .device = device},
                     &wake, 1, &told);

    if (r == 0)
        r = ask_and_wait(x, (struct executor_request){.op = EXECUTOR_DEVICE_INFO, .device = device},
                         NULL, 0, &told);
    if (r < 0)
        return r;
    *info = told.info;
    info->name[sizeof(info->name) - 1] = info->version[sizeof(info->version) - 1] = '\0';
    info->bus[sizeof(info->bus) - 1] = '\0';
    executor_clean_text(info->name);
    executor_clean_text(info->version);
    executor_clean_text(info->bus);
    return 0;
}

static int probe_all(struct executor *x)
{
    int fds[2] = {memfd_open_read_only(x->ring_fd), x->page_fd}, wake, r;
    struct told told;

    r = ask_and_wait(x, (struct executor_request){.op = EXECUTOR_HELLO, .value = EXECUTOR_VERSION},
                     fds, 2, &told);
    close(fds[0]);
    if (r < 0)
        return r;
    x->all->devices = told.answer.value < DEVICES_MAX ? (uint32_t)told.answer.value : DEVICES_MAX;
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (uint32_t d = 0; r == 0 && d < x->all->devices; d++)
        r = probe_device(x, d, wake);
    if (wake >= 0)
        close(wake);
    return r;
}

int executors_probe(struct executors *all)
{
    struct executor *x = executor_make(all, geteuid(), 0);
    int r = x ? executor_start(x) : -ENOMEM;

    if (r == 0)
        r = probe_all(x);
    if (r < 0)
        log_error("%s with %s: %s", all->program, all->library,
                  r == -ETIMEDOUT ? "no answer in time" : strerror(-r));
    if (x)
        executor_leave(x);
    return r;
}
