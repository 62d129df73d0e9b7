/*
 * What devices there are: asked of an executor that does nothing else. And how they are: of one
 * that uses them.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/backend/executors.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "proto/util/clock.h"
#include "proto/util/fd_message.h"

#define PROBE_SECONDS 60
#define ASK_NS        NSEC_PER_SEC        /* many who look cost a device as much as one */
#define KEEP_NS       (60 * NSEC_PER_SEC) /* what is older tells nothing of a device */

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

static void name_capabilities(struct executors *all, uint32_t device)
{
    static const struct {
        uint64_t bit;
        const char *name; /* as in docs/hardware.md */
    } names[] = {
        {EXECUTOR_CAN_SHARE, "share"},       {EXECUTOR_CAN_FD, "fd"},
        {EXECUTOR_CAN_REGISTER, "register"}, {EXECUTOR_CAN_SET, "set"},
        {EXECUTOR_CAN_REDUCE, "reduce"},     {EXECUTOR_CAN_WORD, "word"},
        {EXECUTOR_CAN_ABORT, "abort"},       {EXECUTOR_CAN_KERNEL, "kernel"},
        {EXECUTOR_CAN_PEER, "peer"},         {EXECUTOR_CAN_HEALTH, "health"},
    };
    char *text = all->can[device];

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (all->info[device].capabilities & names[i].bit) {
            strcat(text, text[0] ? "," : "");
            strcat(text, names[i].name);
        }
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
    name_capabilities(x->all, device);
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

/* --- how they are --- */

struct checkup {
    struct asked asked; /* first */
    uint32_t device;
};

/* It says what it likes: of its own device, to an administrator. */
static void checkup_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct executor *x = asked->executor;
    struct health *health = &x->all->health[((struct checkup *)asked)->device];

    free(asked);
    if (fd >= 0)
        close(fd);
    health->asked = false;
    if (!answer || answer->code != 0)
        return;
    health->told = x->heard->health;
    health->told_ns = clock_ns();
}

static struct executor *find_user_of(struct executors *all, uint32_t device)
{
    struct executor *x;

    DL_FOREACH (all->list, x)
        if (x->state == EXECUTOR_READY && x->usable & 1u << device)
            return x;
    return NULL;
}

static void ask_for_health(struct executors *all, uint32_t device, uint64_t now)
{
    struct executor_request request = {.op = EXECUTOR_HEALTH, .device = device};
    struct executor *x = find_user_of(all, device);
    struct checkup *checkup = x ? calloc(1, sizeof(*checkup)) : NULL;

    if (!checkup)
        return;
    checkup->device = device;
    all->health[device].asked_ns = now;
    all->health[device].asked = true;
    if (executor_ask(x, &checkup->asked, checkup_over, &request, NULL, 0) == 0)
        return;
    all->health[device].asked = false;
    free(checkup);
}

/*
 * A report does not wait for a device, and npud asks none that nobody looks at: so who asks is told
 * what the one before has brought.
 */
bool executors_health(void *state, uint32_t device, struct backend_health *out)
{
    struct executors *all = state;
    struct health *health = &all->health[device];
    uint64_t now = clock_ns();

    if (!(all->info[device].capabilities & EXECUTOR_CAN_HEALTH))
        return false;
    if (!health->asked && (health->asked_ns == 0 || now - health->asked_ns >= ASK_NS))
        ask_for_health(all, device, now);
    *out = (struct backend_health){.temperature = health->told.temperature,
                                   .power = health->told.power,
                                   .errors = health->told.errors};
    return health->told_ns != 0 && now - health->told_ns < KEEP_NS;
}
