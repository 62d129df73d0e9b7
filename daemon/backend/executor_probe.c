/*
 * What devices there are: asked of an executor that does nothing else. And how they are: of one
 * that uses them.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/backend/executors.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/kept/library_record.h"
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
    int r = x ? executor_uid_take(x, true) : -ENOMEM;

    if (r == 0)
        r = executor_start(x);
    if (r == 0)
        r = probe_all(x);
    if (r < 0)
        log_error("%s with %s: %s", all->program, all->library,
                  r == -ETIMEDOUT ? "no answer in time" : strerror(-r));
    if (x)
        executor_leave(x);
    return r;
}

/*
 * --- once ---
 *
 * Not by each npud: to ask is to use each device, which takes long and may fail while all of its
 * memory is used, and programs wait while npud restarts.
 */

/* Of a name that is searched for nothing is known but the name. */
static void print_file(FILE *f, const char *path)
{
    struct stat st = {0};

    if (stat(path, &st) < 0)
        st = (struct stat){0};
    fprintf(f, "%s %llu %llu %lld.%09ld\n", path, (unsigned long long)st.st_dev,
            (unsigned long long)st.st_ino, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* All that an answer may depend on. NULL: no memory. */
static char *identify(const struct executors *all)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    fprintf(f, "%u %s %d\n", EXECUTOR_VERSION, all->kind, all->nesting);
    print_file(f, all->program);
    print_file(f, all->library);
    for (char *const *word = all->environment; *word; word++)
        fprintf(f, "%s\n", *word);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

static size_t record_bytes(const struct executors *all)
{
    return (sizeof(struct library_record) + strlen(all->identity) + 1 + 7) / 8 * 8;
}

static size_t write_library(const struct kept *kept, void *record)
{
    const struct executors *all =
        (const struct executors *)((const char *)kept - offsetof(struct executors, kept));
    struct library_record *r = record;

    memset(r, 0, record_bytes(all));
    r->devices = all->devices;
    r->info_bytes = sizeof(all->info[0]);
    memcpy(r->info, all->info, sizeof(all->info));
    strcpy(r->identity, all->identity);
    return record_bytes(all);
}

/* That of this library, if its devices are there. */
static bool use_record(void *arg, struct kept_cell *cell)
{
    struct executors *all = arg;
    struct library_record *r = calloc(1, record_bytes(all));

    if (!r)
        return false;
    kept_read(cell, r, record_bytes(all));
    if (r->info_bytes == sizeof(all->info[0]) && r->devices <= DEVICES_MAX &&
        strcmp(r->identity, all->identity) == 0) {
        all->devices = r->devices;
        memcpy(all->info, r->info, sizeof(all->info));
    }
    free(r);
    return true;
}

static int look_back(struct executors *all)
{
    int r = kept_outlives() ? kept_scan() : 0;
    bool done = r == 0 && kept_each(KEPT_LIBRARY, use_record, all);

    kept_scan_end();
    return done ? 0 : -ENOMEM;
}

int executors_know(struct executors *all)
{
    int r;

    all->identity = identify(all);
    if (!all->identity)
        return -ENOMEM;
    r = look_back(all);
    if (r == 0 && all->devices == 0)
        r = executors_probe(all);
    if (r < 0)
        return r;
    for (uint32_t d = 0; d < all->devices; d++)
        name_capabilities(all, d);
    return kept_make(&all->kept, KEPT_LIBRARY, record_bytes(all), write_library) ? 0 : -ENOMEM;
}

/* There is a new one, also if it says the same. */
bool library_restore(struct server *server, struct kept_cell *cell)
{
    (void)server;
    kept_discard(cell);
    return true;
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

    if ((all->info[device].capabilities & EXECUTOR_CAN_HEALTH) && !health->asked &&
        (health->asked_ns == 0 || now - health->asked_ns >= ASK_NS))
        ask_for_health(all, device, now);
    *out = (struct backend_health){.told = health->told_ns != 0 && now - health->told_ns < KEEP_NS,
                                   .temperature = health->told.temperature,
                                   .power = health->told.power,
                                   .errors = health->told.errors,
                                   .unwell = executors_unwell(all, device)};
    return out->told || out->unwell != 0;
}
