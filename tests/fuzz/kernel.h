/*
 * The descriptors of npud and its clients, as far as a kernel would have them: sockets in pairs,
 * eventfds, epoll sets and files of memory. They are memory of the fuzzer, so that an input costs
 * no system calls, and what is left open or mapped is counted. The linker leads npud's calls here,
 * as it does those of surroundings.h. Descriptors of the machine are passed on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum file_kind { FILE_EVENT, FILE_SOCKET, FILE_EPOLL, FILE_MEMORY, FILE_OTHER };

struct message; /* that was sent and not received */
struct region;  /* of memory: kernel_memory.c */
struct watch;   /* of an epoll set */

struct file {
    enum file_kind kind;
    unsigned refs;    /* descriptors, also those in messages, and mapped pages */
    uint64_t serial;  /* the inode */
    uint64_t changes; /* of what it is ready for: an edge each */
    /* Sockets. */
    struct file *peer;
    struct message *first, *last; /* to be received */
    size_t queued, room;          /* bytes to be received; what the peer may have unread */
    bool no_reading, no_writing, takes_fds;
    int error;      /* told once */
    uint64_t count; /* of an eventfd */
    struct watch *watches;
    unsigned n_watches; /* those behind are unused */
    struct region *region;
    uint64_t size; /* of memory */
    struct file *next;
};

/** As at the beginning of every input. */
void kernel_begin(void);
/** Descriptors, and mapped pages, that are there. */
unsigned kernel_count(void);

bool kernel_has(int fd);
/** The file of a descriptor that kernel_has(). */
struct file *kernel_file(int fd);
/** A new descriptor of a new file; -1 and errno: there are too many. */
int kernel_open(enum file_kind kind);
int kernel_open_events(uint64_t count);
void kernel_unref(struct file *file);
/** POLLIN, POLLOUT: what it is ready for. */
short kernel_ready(const struct file *file);

/* --- memory: kernel_memory.c --- */

/** Have addresses for all that is mapped. */
void kernel_reserve(void);

void *kernel_map(struct file *file, size_t size, uint64_t offset); /* NULL: anonymous memory */
bool kernel_is_mapped(const void *at);
void kernel_unmap(void *at, size_t size);
unsigned kernel_mapped(void);
/** Room for so many bytes, zeros first. False: not so many. */
bool kernel_resize(struct file *file, uint64_t size);
/** Zeros, from here to there. */
void kernel_clear(struct file *file, uint64_t offset, uint64_t size);
void kernel_forget_memory(struct file *file);
/** Where the file has its bytes. */
uint8_t *kernel_bytes(struct file *file);
