/*
 * The processes of npud --check-backend: the same program, started again with the name of a part,
 * and a socket to the one that has started it. All of a row are in one process group.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/executor/vendor.h"

#define CHECK_SOCKET 3

struct check;
struct check_result;

struct check_child {
    pid_t pid;
    int pidfd, socket;
};

/** What parts of a row say to each other; a descriptor may go along. */
struct check_message {
    int32_t code;
    int32_t pid;
    uint64_t size, value;
    struct vendor_token token; /* of its fd, -1 or not counts; the number is the receiver's */
    char text[256];
};

/* `value` of a message with a token for "importer". */
enum {
    CHECK_IMPORT_ONCE, /* finds bytes of seed 1, and leaves those of seed 2 */
    CHECK_IMPORT_COPY, /* the same, and copies from it until it is killed */
    CHECK_IMPORT_WORD, /* writes 1 to the word there */
};
/* `value` of a message with pages for "client". */
enum {
    CHECK_CLIENT_FILL, /* with bytes of seed 4 */
    CHECK_CLIENT_LOOK, /* whether there are those of seed 5 */
};

/**
 * Start a part: "row:N", or a name of check_part_run(). uid: (uid_t)-1, or whose it is to be.
 * False: the row has been told why.
 */
bool check_child_start(struct check *c, const char *part, uid_t uid, struct check_child *child);
/** Kill it, and wait until it has ended: false after five seconds. Closes all. */
bool check_child_kill(struct check_child *child);
/** How it ended, in words: of a child that ends by itself. */
void check_child_how(struct check_child *child, char *text, unsigned size);

/**
 * Another process imports the memory, has used it (CHECK_IMPORT_*), and lives. False: the row has
 * been told why.
 */
bool check_share_with(struct check *c, struct vendor_memory *memory, uint64_t use, uid_t uid,
                      struct check_child *importer);

/** False: the other side has gone, or nothing came in time. */
bool check_send(int socket, const struct check_message *message);
bool check_receive(int socket, struct check_message *message, unsigned timeout_ms);
/**
 * check_receive() of a child that says that it is ready, or has done what it was asked: false if it
 * did not, and then the row has been told.
 */
bool check_hear(struct check *c, struct check_child *child, struct check_message *message,
                const char *what);

/** This process is the part of that name. */
void check_part_run(struct check *c);
