#include "daemon/supervisor/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/base/log.h"

static int take_one(struct passed_fds *passed, int fd, const char *name)
{
    const struct {
        const char *name;
        int *place;
    } known[] = {{"control", &passed->control},
                 {"admin", &passed->admin},
                 {"lease", &passed->lease},
                 {"server", &passed->server},
                 {"life", &passed->life}};

    fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (*known[i].place >= 0) {
            log_error("two descriptors were passed under the name \"%s\"", name);
            return -EINVAL;
        }
        *known[i].place = fd;
        return 0;
    }
    log_error("descriptor %d was passed under the name \"%s\": npud takes \"control\" and "
              "\"admin\" (FileDescriptorName= of the socket units)",
              fd, name);
    return -EINVAL;
}

int fd_store_take(struct passed_fds *passed)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names), r = 0;

    *passed = (struct passed_fds){-1, -1, -1, -1, -1};
    if (n < 0) {
        log_error("the descriptors passed by systemd cannot be taken: %s", strerror(-n));
        return n;
    }
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = take_one(passed, SD_LISTEN_FDS_START + i, names[i]);
        free(names[i]);
    }
    free(names);
    return r;
}

void fd_store_put(const char *name, int fd)
{
    char text[64];

    snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    sd_notify(0, text);
    snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
    sd_pid_notify_with_fds(0, 0, text, &fd, 1);
}
