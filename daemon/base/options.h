/* The command line of npud, and the configuration that it and the file make together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct config;

struct options {
    int argc;
    char **argv;
    const char *config_file; /* NULL: the file of the host, if there is one */
    const char *runtime_dir;
    int ready_fd;
    int log_level; /* until the configuration is read */
    bool die_with_parent;
    bool check_config;
    bool restartable; /* npud becomes the supervisor: daemon/supervisor */
    bool fd_store;    /* which leaves its server to the next supervisor when it is told to end */
    /* A server, started by the supervisor before all other options. What concerns the whole npud is
     * the supervisor's: ready_fd, die_with_parent. */
    bool server;
    bool can_read;     /* say whether the kept tables can be read, before anything else */
    int supervisor_fd; /* daemon/base/supervisor_message.h */
};

/** Reads what must be known before the configuration file is. Returns an exit status, or -1 to go
 * on. argv must live as long as the options. */
int options_read(struct options *options, int argc, char **argv);

/** Initialises config with defaults, the file, and what the command line overrides, in this order.
 * 0, or a negative errno after a line in the log. The caller calls config_deinit() in any case. One
 * thread at a time. */
int options_load_config(const struct options *options, struct config *config);

/** The same with this text in place of the file: config_read_text() has the rules. */
int options_load_config_text(const struct options *options, struct config *config, char *text,
                             size_t size);
