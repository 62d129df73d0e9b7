#include "daemon/supervisor/again.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/service_manager.h"
#include "daemon/base/supervisor_message.h"

#define VARIABLE "NPUD_SUPERVISOR_STATE"
/* A later version appends numbers, and an earlier one reads those that it knows. */
#define FORMAT  "lease %d keeper %d %d server %d %d %d %d program %d control %d admin %d number %u"
#define NUMBERS 11

static void keep_fds(const struct supervisor *s, int flags)
{
    const int fds[] = {s->lease,         s->keeper.pidfd, s->server.pidfd,
                       s->server.socket, s->server.life,  executable_fd(s->server.program),
                       s->control,       s->admin,        s->ready_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            fcntl(fds[i], F_SETFD, flags);
}

void supervisor_execute_again(struct supervisor *s)
{
    char text[256];

    /* The next one would not know of the signal, and it finds a server that it can watch. */
    if (s->end_signal || s->server.state != CHILD_SERVING || s->server.killed ||
        s->server.pidfd < 0)
        return;
    s->again = false;
    child_discard(&s->standby);
    child_discard(&s->candidate);
    snprintf(text, sizeof(text), FORMAT, s->lease, (int)s->keeper.pid, s->keeper.pidfd,
             (int)s->server.pid, s->server.pidfd, s->server.socket, s->server.life,
             executable_fd(s->server.program), s->control, s->admin, s->server.lease);
    setenv(VARIABLE, text, 1);
    keep_fds(s, 0);
    service_manager_stop();
    log_stop();
    execv(s->self, s->argv);
    log_error("%s cannot be executed: %s; the supervisor stays that of the version before", s->self,
              strerror(errno));
    log_start();
    service_manager_start();
    keep_fds(s, FD_CLOEXEC);
    unsetenv(VARIABLE);
    supervisor_advance(s); /* another standby */
}

bool supervisor_is_again(struct supervisor *s)
{
    const char *text = getenv(VARIABLE);
    int keeper, server, program, n;

    if (!text)
        return false;
    n = sscanf(text, FORMAT, &s->lease, &keeper, &s->keeper.pidfd, &server, &s->server.pidfd,
               &s->server.socket, &s->server.life, &program, &s->control, &s->admin,
               &s->server.lease);
    unsetenv(VARIABLE);
    if (n != NUMBERS) {
        log_error("the supervisor before this one has left nothing that can be read: \"%s\"", text);
        return false;
    }
    if (program >= 0 && executable_take(&s->server.program, program) < 0) {
        log_error("no memory for what the supervisor before this one has left");
        return false;
    }
    s->keeper.pid = keeper;
    s->server.pid = server;
    s->server.state = CHILD_SERVING;
    s->server.can_read = true;
    s->server.kept = s->server.lease;
    if (s->server.pidfd < 0)
        s->server = CHILD_NULL; /* it had died, which npud 0.9.0 did not look at */
    s->served = true;
    s->cause = SUPERVISOR_KILLED;
    s->told_ready = true;
    keep_fds(s, FD_CLOEXEC);
    return true;
}
