/* What kernel.c does for the calls that kernel_calls.c leads there. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct epoll_event;
struct file;

void *__real_malloc(size_t size);

bool kernel_read_only(int fd);
int kernel_dup(int fd, bool read_only);
int kernel_close(int fd);
int kernel_pair(int pair[2]);
void kernel_set_room(struct file *socket, int room);
ssize_t kernel_send(struct file *socket, const struct msghdr *msg);
ssize_t kernel_receive(struct file *socket, struct msghdr *msg, int flags);
/** The first byte of the next message. */
ssize_t kernel_peek(struct file *socket, void *to);
/** Both ends, both ways. */
int kernel_shutdown(struct file *socket);
int kernel_watch(struct file *set, int op, struct file *file, const struct epoll_event *event);
int kernel_look(struct file *set, struct epoll_event *events, int max);
