#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "kernel_calls.h"
#include "proto/wire/packet.h"

#define FD_FIRST  4096 /* the machine's are below */
#define FDS_MAX   4096 /* no input can open more */
#define FILES_MAX 4096
#define ROOM      212992 /* of a socket */
#define ROOM_MIN  4608
#define OVERHEAD  768 /* of a message */
#define WATCHES   64

struct message {
    struct message *next;
    size_t size;
    unsigned n_files;
    struct file *file[PACKET_FDS_MAX + 1];
    uint8_t data[];
};

struct watch {
    struct file *file; /* NULL: none */
    struct epoll_event event;
    uint64_t seen; /* changes of it */
};

static struct file files[FILES_MAX], *free_file;
static struct file *table[FDS_MAX];
static bool read_only[FDS_MAX];
static unsigned n_files, n_fds, lowest;
static uint64_t serial;
static struct watch watch_sets[32][WATCHES];
static bool watch_set_used[32];

/* --- descriptors --- */

void kernel_begin(void)
{
    serial = 0;
    kernel_reserve();
}

unsigned kernel_count(void)
{
    return n_fds + kernel_mapped();
}

bool kernel_has(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + FDS_MAX && table[fd - FD_FIRST];
}

struct file *kernel_file(int fd)
{
    return table[fd - FD_FIRST];
}

bool kernel_read_only(int fd)
{
    return read_only[fd - FD_FIRST];
}

static int open_file(struct file *file, bool reads)
{
    while (lowest < FDS_MAX && table[lowest])
        lowest++;
    MUST(lowest < FDS_MAX);
    table[lowest] = file;
    read_only[lowest] = reads;
    file->refs++;
    n_fds++;
    return FD_FIRST + (int)lowest;
}

static struct file *new_file(enum file_kind kind)
{
    struct file *file = free_file;

    if (file)
        free_file = file->next;
    else if (n_files < FILES_MAX)
        file = &files[n_files++];
    MUST(file);
    *file = (struct file){.kind = kind, .serial = ++serial, .room = ROOM, .takes_fds = true};
    return file;
}

int kernel_open(enum file_kind kind)
{
    struct file *file = new_file(kind);

    for (unsigned i = 0; kind == FILE_EPOLL && !file->watches; i++) {
        MUST(i < sizeof(watch_set_used));
        if (watch_set_used[i])
            continue;
        watch_set_used[i] = true;
        memset(watch_sets[i], 0, sizeof(watch_sets[i]));
        file->watches = watch_sets[i];
    }
    return open_file(file, false);
}

int kernel_open_events(uint64_t count)
{
    int fd = kernel_open(FILE_EVENT);

    kernel_file(fd)->count = count;
    return fd;
}

int kernel_dup(int fd, bool reads)
{
    return open_file(kernel_file(fd), reads || read_only[fd - FD_FIRST]);
}

static void free_message(struct message *m)
{
    for (unsigned i = 0; i < m->n_files; i++)
        kernel_unref(m->file[i]);
    free(m);
}

static struct message *take_message(struct file *s)
{
    struct message *m = s->first;

    s->first = m->next;
    if (!s->first)
        s->last = NULL;
    s->queued -= m->size + OVERHEAD;
    if (s->peer)
        s->peer->changes++;
    return m;
}

static void close_socket(struct file *s)
{
    if (s->peer) {
        if (s->first)
            s->peer->error = ECONNRESET;
        s->peer->changes++;
        s->peer->peer = NULL;
    }
    s->peer = NULL;
    while (s->first)
        free_message(take_message(s));
}

static void forget_watched(const struct file *file)
{
    for (size_t i = 0; i < sizeof(watch_set_used); i++)
        for (size_t n = 0; watch_set_used[i] && n < WATCHES; n++)
            if (watch_sets[i][n].file == file)
                watch_sets[i][n].file = NULL;
}

void kernel_unref(struct file *file)
{
    if (--file->refs > 0)
        return;
    if (file->kind == FILE_SOCKET)
        close_socket(file);
    if (file->kind == FILE_MEMORY)
        kernel_forget_memory(file);
    if (file->kind == FILE_EPOLL)
        watch_set_used[(file->watches - watch_sets[0]) / WATCHES] = false;
    forget_watched(file);
    file->next = free_file;
    free_file = file;
}

int kernel_close(int fd)
{
    struct file *file = kernel_file(fd);

    table[fd - FD_FIRST] = NULL;
    if ((unsigned)(fd - FD_FIRST) < lowest)
        lowest = (unsigned)(fd - FD_FIRST);
    n_fds--;
    kernel_unref(file);
    return 0;
}

short kernel_ready(const struct file *f)
{
    switch (f->kind) {
    case FILE_EVENT:
        return (short)((f->count > 0 ? POLLIN : 0) | (f->count < UINT64_MAX - 1 ? POLLOUT : 0));
    case FILE_SOCKET:
        return (short)((f->first || f->no_reading || !f->peer || f->error ? POLLIN : 0) |
                       (!f->peer || f->peer->queued < f->room ? POLLOUT : 0));
    default:
        return POLLIN | POLLOUT;
    }
}

/* --- sockets --- */

int kernel_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        pair[i] = kernel_open(FILE_SOCKET);
    kernel_file(pair[0])->peer = kernel_file(pair[1]);
    kernel_file(pair[1])->peer = kernel_file(pair[0]);
    return 0;
}

void kernel_set_room(struct file *s, int room)
{
    s->room = room < ROOM_MIN / 2 ? ROOM_MIN : (size_t)room * 2;
}

static int send_error(struct file *s, size_t size, unsigned fds)
{
    int error = s->error;

    s->error = 0;
    if (error != 0)
        return error;
    if (s->no_writing || !s->peer || s->peer->no_reading)
        return EPIPE;
    if (size > s->room - 32)
        return EMSGSIZE;
    if (s->peer->queued >= s->room)
        return EAGAIN;
    return fds > 0 && !s->peer->takes_fds ? EPERM : 0;
}

static struct file *file_to_send(int fd)
{
    struct file *file = kernel_has(fd) ? kernel_file(fd) : new_file(FILE_OTHER);

    file->refs++;
    return file;
}

ssize_t kernel_send(struct file *s, const struct msghdr *msg)
{
    struct cmsghdr *c = msg->msg_controllen > 0 ? CMSG_FIRSTHDR(msg) : NULL;
    size_t size = msg->msg_iov[0].iov_len, n = c ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    struct message *m;

    errno = send_error(s, size, (unsigned)n);
    if (errno != 0)
        return -1;
    MUST(n <= PACKET_FDS_MAX + 1);
    m = __real_malloc(sizeof(*m) + size);
    MUST(m);
    *m = (struct message){.size = size};
    if (size > 0)
        memcpy(m->data, msg->msg_iov[0].iov_base, size);
    for (; m->n_files < n; m->n_files++) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + m->n_files * sizeof(fd), sizeof(fd));
        m->file[m->n_files] = file_to_send(fd);
    }
    if (s->peer->last)
        s->peer->last->next = m;
    else
        s->peer->first = m;
    s->peer->last = m;
    s->peer->queued += size + OVERHEAD;
    s->peer->changes++;
    return (ssize_t)size;
}

/* Into the control buffer, which has room for one more than a packet may have. */
static void receive_fds(struct msghdr *msg, struct message *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    if (m->n_files == 0) {
        msg->msg_controllen = 0;
        return;
    }
    MUST(c && msg->msg_controllen >= CMSG_SPACE(m->n_files * sizeof(int)));
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(m->n_files * sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS};
    for (unsigned i = 0; i < m->n_files; i++) {
        int fd = open_file(m->file[i], false);

        memcpy(CMSG_DATA(c) + i * sizeof(fd), &fd, sizeof(fd));
    }
    msg->msg_controllen = CMSG_SPACE(m->n_files * sizeof(int));
}

ssize_t kernel_receive(struct file *s, struct msghdr *msg, int flags)
{
    size_t room = msg->msg_iov[0].iov_len, size;
    struct message *m;

    msg->msg_flags = 0;
    errno = s->error;
    s->error = 0;
    if (errno != 0)
        return -1;
    if (!s->first) {
        msg->msg_controllen = 0;
        errno = EAGAIN;
        return s->no_reading || !s->peer || s->peer->no_writing ? 0 : -1;
    }
    m = flags & MSG_PEEK ? s->first : take_message(s);
    size = m->size < room ? m->size : room;
    memcpy(msg->msg_iov[0].iov_base, m->data, size);
    if (size < m->size)
        msg->msg_flags |= MSG_TRUNC;
    if (msg->msg_controllen == 0 && m->n_files > 0)
        msg->msg_flags |= MSG_CTRUNC;
    if (flags & MSG_PEEK) {
        msg->msg_controllen = 0;
        return (ssize_t)size;
    }
    if (msg->msg_controllen > 0)
        receive_fds(msg, m);
    free_message(m);
    return (ssize_t)size;
}

ssize_t kernel_peek(struct file *s, void *to)
{
    if (!s->first) {
        errno = EAGAIN;
        return s->no_reading || !s->peer || s->peer->no_writing ? 0 : -1;
    }
    if (s->first->size == 0)
        return 0;
    *(uint8_t *)to = s->first->data[0];
    return 1;
}

int kernel_shutdown(struct file *s)
{
    s->no_reading = s->no_writing = true;
    s->changes++;
    if (s->peer) {
        s->peer->no_reading = s->peer->no_writing = true;
        s->peer->changes++;
    }
    return 0;
}

/* --- epoll --- */

int kernel_watch(struct file *set, int op, struct file *file, const struct epoll_event *event)
{
    for (size_t i = 0; i < WATCHES; i++) {
        struct watch *w = &set->watches[i];

        if (op == EPOLL_CTL_ADD && !w->file) {
            if (set->n_watches <= i)
                set->n_watches = (unsigned)i + 1;
            *w = (struct watch){.file = file, .event = *event, .seen = file->changes - 1};
            return 0;
        }
        if (op == EPOLL_CTL_DEL && w->file == file) {
            w->file = NULL;
            return 0;
        }
    }
    MUST(op == EPOLL_CTL_DEL);
    errno = ENOENT;
    return -1;
}

int kernel_look(struct file *set, struct epoll_event *events, int max)
{
    int n = 0;

    for (size_t i = 0; i < set->n_watches && n < max; i++) {
        struct watch *w = &set->watches[i];
        uint32_t ready = w->file ? (uint32_t)kernel_ready(w->file) & w->event.events : 0;

        if (ready == 0 || ((w->event.events & EPOLLET) && w->seen == w->file->changes))
            continue;
        w->seen = w->file->changes;
        events[n++] = (struct epoll_event){.events = ready, .data = w->event.data};
    }
    return n;
}
