/*
 * A listening socket with a name in the file system. Beside it lies a lock file, NAME.lock, which
 * npud holds as long as it listens: two npuds that start at once are decided by it.
 *
 * npud removes only a socket that an npud has bound. At its end that is the one it bound itself, if
 * the name still leads there. At its start it is a socket on which no process listens and beside
 * which a lock file lies that no process holds: an npud that ends in order removes both.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/**
 * How many clients may stand in the queue of a listening socket. Few: what stands there is of no
 * user, a process can fill it by connecting and closing, and npud takes them in the order in which
 * they came. Beyond that connect() waits, and there each process waits for its own.
 */
#define SOCKET_BACKLOG 64

struct socket_file {
    char *path; /* NULL: none */
    int lock;   /* holds an exclusive flock(); -1: none */
    bool found; /* the lock file was there before: an npud has died here */
    dev_t device;
    ino_t inode; /* of the socket that was bound */
};

#define SOCKET_FILE_NULL                                                                           \
    (struct socket_file)                                                                           \
    {                                                                                              \
        .lock = -1                                                                                 \
    }

/** Is the path short enough, and is there the group? 0, or -errno after a line in the log. As
 * socket_file_bind() looks first. */
int socket_file_check(const char *path, const char *group, bool everyone);

/** Makes a listening SEQPACKET socket at path, for a group (empty: npud's own user only) or for
 * every user, whatever the umask. Start only: waits for the file system and for the group database.
 * Returns the socket, or -errno after a line in the log; the file is SOCKET_FILE_NULL then. */
int socket_file_bind(struct socket_file *file, const char *path, const char *group, bool everyone);

/** Takes over what socket_file_bind() has made in a process that has ended: its socket, which stays
 * the caller's, and its lock, which is the file's now. 0; or -errno, and the lock is closed.
 * -ENOENT: the name is gone, and the lock's too: socket_file_bind() can make both again. */
int socket_file_adopt(struct socket_file *file, int socket, int lock);

/** Removes the name and the lock, if they are still those of socket_file_bind(). Safe to repeat. */
void socket_file_remove(struct socket_file *file);

/** Leaves both to the next server, which has copies. */
void socket_file_leave(struct socket_file *file);
