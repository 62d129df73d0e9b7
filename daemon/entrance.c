#include "daemon/entrance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/admin/admin.h"
#include "daemon/base/log.h"
#include "daemon/base/config.h"
#include "daemon/base/deferred_close.h"
#include "daemon/base/keeper_link.h"
#include "daemon/control/arrival.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/listener.h"
#include "daemon/core/server.h"

struct passed {
    int control, admin; /* -1: not passed */
};

static struct passed from_supervisor = {-1, -1};

/* One descriptor of the list that systemd passed. A wrong one is refused: an accept loop over a
 * socket that does not listen would only burn time, and under a wrong name clients would wait for
 * an answer that never comes. */
static int passed_take(struct passed *passed, int fd, const char *name)
{
    int *place = strcmp(name, "control") == 0 ? &passed->control
                 : strcmp(name, "admin") == 0 ? &passed->admin
                                              : NULL;

    if (!place) {
        log_error("descriptor %d was passed under the name \"%s\": npud takes \"control\" and "
                  "\"admin\" (FileDescriptorName= of the socket units)",
                  fd, name);
        return -EINVAL;
    }
    if (*place >= 0) {
        log_error("two descriptors were passed under the name \"%s\"", name);
        return -EINVAL;
    }
    if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) <= 0) {
        log_error("descriptor %d, passed under the name \"%s\", is not a listening Unix socket of "
                  "type SOCK_SEQPACKET",
                  fd, name);
        return -EINVAL;
    }
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        log_error("descriptor %d, passed under the name \"%s\": %m", fd, name);
        return -EINVAL;
    }
    *place = fd;
    return 0;
}

void entrance_pass(int control, int admin)
{
    from_supervisor = (struct passed){control, admin};
}

static int passed_find_by_supervisor(struct passed *passed)
{
    int r = 0;

    if (from_supervisor.control >= 0)
        r = passed_take(passed, from_supervisor.control, "control");
    if (r == 0 && from_supervisor.admin >= 0)
        r = passed_take(passed, from_supervisor.admin, "admin");
    return r;
}

static int passed_find(struct passed *passed)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(0, &names), r = 0;

    *passed = (struct passed){-1, -1};
    if (n == 0)
        return passed_find_by_supervisor(passed);
    if (n < 0) {
        log_error("the sockets passed by systemd cannot be taken: %s", strerror(-n));
        return n;
    }
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = passed_take(passed, SD_LISTEN_FDS_START + i, names[i]);
        free(names[i]);
    }
    free(names);
    return r;
}

/* --- npud's own sockets --- */

/* A socket that the server before this one has made: clients wait in its queue. -1: none. */
static int take_kept(struct socket_file *file, uint64_t key, uint64_t lock_key)
{
    int socket, lock;

    if (keeper_peek(key, &socket) < 0)
        return -1;
    if (keeper_peek(lock_key, &lock) == 0 && socket_file_adopt(file, socket, lock) == 0)
        return socket;
    close(socket);
    return -1;
}

static void keep(const struct socket_file *file, int socket, uint64_t key, uint64_t lock_key)
{
    keeper_put_all((uint64_t[]){key, lock_key}, (int[]){socket, file->lock}, 2);
}

static int open_own(struct socket_file *file, uint64_t key, uint64_t lock_key, const char *path,
                    const char *group, bool everyone)
{
    int fd = take_kept(file, key, lock_key);

    if (fd >= 0)
        return fd;
    fd = socket_file_bind(file, path, group, everyone);
    if (fd >= 0)
        keep(file, fd, key, lock_key);
    return fd;
}

static void enumerate_own(void *arg, keeper_take *take, void *to)
{
    const struct entrance *e = arg;

    if (e->control.lock >= 0) {
        take(to, KEEPER_KEY_CONTROL, e->clients->fd);
        take(to, KEEPER_KEY_CONTROL_LOCK, e->control.lock);
    }
    if (e->admin.lock >= 0) {
        take(to, KEEPER_KEY_ADMIN, e->admins->fd);
        take(to, KEEPER_KEY_ADMIN_LOCK, e->admin.lock);
    }
}

static int listen_at(struct listener *listener, struct server *server, int fd,
                     void (*accept)(struct server *server, int socket))
{
    int r = listener_init(listener, server, fd, accept);

    if (r < 0)
        log_error("npud lacks memory or descriptors to listen: %s", strerror(-r));
    return r;
}

static bool is_for_everyone(const struct config *c)
{
    return strcmp(c->access_group, "*") == 0;
}

int entrance_check(const struct config *c)
{
    struct passed passed;
    int r = passed_find(&passed), each = 0;

    if (r == 0 && passed.control < 0)
        r = socket_file_check(c->socket, c->access_group, is_for_everyone(c));
    if (passed.admin < 0)
        each = socket_file_check(c->admin_socket, c->admin_group, false);
    if (passed.control < 0 && passed.admin < 0 && strcmp(c->socket, c->admin_socket) == 0) {
        log_error("%s: npud.socket and npud.admin_socket are the same", c->socket);
        each = -EINVAL;
    }
    return r < 0 ? r : each;
}

static int open_control(struct entrance *e, struct server *server, int fd)
{
    const struct config *c = server->config;

    e->passed = fd >= 0;
    if (e->passed && !config_is_default(c, "npud", "access_group"))
        log_warning(
            "npud.access_group is without effect: systemd made the socket; set SocketGroup= "
            "and SocketMode= (systemctl edit npud.socket)");
    if (!e->passed)
        fd = open_own(&e->control, KEEPER_KEY_CONTROL, KEEPER_KEY_CONTROL_LOCK, c->socket,
                      c->access_group, is_for_everyone(c));
    if (fd < 0)
        return fd;
    server->clients->takes_many = true;
    return listen_at(server->clients, server, fd, arrival_take);
}

int entrance_open(struct entrance *e, struct server *server)
{
    const struct config *c = server->config;
    struct passed passed;
    int r;

    *e = (struct entrance){.control = SOCKET_FILE_NULL,
                           .admin = SOCKET_FILE_NULL,
                           .clients = server->clients,
                           .admins = server->admins};
    keeper_link_add_source(enumerate_own, e);
    r = passed_find(&passed);
    if (r == 0)
        r = open_control(e, server, passed.control);
    if (r < 0)
        return r;
    if (passed.admin < 0)
        passed.admin = open_own(&e->admin, KEEPER_KEY_ADMIN, KEEPER_KEY_ADMIN_LOCK, c->admin_socket,
                                c->admin_group, false);
    if (passed.admin < 0)
        return passed.admin;
    r = listen_at(server->admins, server, passed.admin, admin_accept);
    server->admins->may_use_spare = true;
    return r;
}

void entrance_close(struct entrance *e, struct server *server)
{
    listener_deinit(server->clients);
    listener_deinit(server->admins);
    socket_file_remove(&e->control);
    socket_file_remove(&e->admin);
}

void entrance_leave(struct entrance *e, struct server *server)
{
    listener_deinit(server->clients);
    listener_deinit(server->admins);
    socket_file_leave(&e->control);
    socket_file_leave(&e->admin);
}

void entrance_refuse(const char *why)
{
    struct passed passed;
    int fd;

    if (passed_find(&passed) < 0 || passed.control < 0)
        return;
    while (listener_has_client(passed.control) &&
           (fd = accept4(passed.control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        dispatch_refuse(NULL, fd, ACL_ERROR_RT_NO_DEVICE, why);
        deferred_close_socket(NULL, fd, true);
    }
    while (passed.admin >= 0 && listener_has_client(passed.admin) &&
           (fd = accept4(passed.admin, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        close(fd);
}
