#include "daemon/admin/admin.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl_base.h"
#include "daemon/admin/commands.h"
#include "daemon/admin/monitor.h"
#include "daemon/admin/report.h"
#include "daemon/base/client_socket.h"
#include "daemon/base/kill_here.h"
#include "daemon/engine/inject.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/own_program.h"
#include "daemon/base/config.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

/* A connected npuctl. While its report is made, no further request of it is read. */
struct admin {
    struct server *server;
    int socket;
    bool takes_fds; /* base/client_socket.h */
    struct event *on_socket;
    struct user *user;
    struct charge charge;
    struct job_owner owner;
    struct job answer;          /* take a request */
    struct job slice;           /* go on with the report */
    uint64_t request;           /* that asked for the report being made */
    struct admin_report report; /* what is told of it; its memfd is open while it is made */
    uint64_t rule;              /* that the request being answered has set */
    bool awaits_upgrade;        /* `request` is answered if there is none */
    struct monitor monitor;     /* if it was asked for */
    bool awaits_trace;          /* it is answered when all have heard of the trace */
    struct admin *prev, *next;  /* server->admin_list */
};

static void admin_free(struct admin *admin)
{
    DL_DELETE(admin->server->admin_list, admin);
    monitor_end(&admin->monitor);
    job_cancel(&admin->answer);
    job_cancel(&admin->slice);
    if (admin->on_socket)
        event_free(admin->on_socket);
    report_close(&admin->report);
    client_socket_close(admin->socket, admin->takes_fds);
    spare_fds_fill(&admin->server->spare);
    user_uncharge(&admin->charge);
    user_unref(admin->user);
    free(admin);
}

static int32_t end_session(struct admin *admin, uint64_t id, char *message, size_t size)
{
    struct session *session = report_rows_session_from(admin->server, id);
    struct ucred asker = {.uid = (uid_t)-1};
    socklen_t len = sizeof(asker);

    if (!session || session->id != id) {
        snprintf(message, size, "there is no session %llu: npuctl sessions lists them",
                 (unsigned long long)id);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    /*
     * The process that connected, not the one that has the socket now: the kernel keeps it with the
     * socket.
     */
    getsockopt(admin->socket, SOL_SOCKET, SO_PEERCRED, &asker, &len);
    log_event(MESSAGE_SESSION_ENDED, LOG_NOTICE, &session->log,
              "ended on an administrator's request: of uid %u, pid %d", (unsigned)asker.uid,
              (int)asker.pid);
    admin_end_session(session);
    return 0;
}

static int32_t refuse_rule(const Npud__Inject *in, enum cause cause, char *message, size_t size)
{
    char what[64] = "the rule is not set";
    int32_t error;

    if (cause == CAUSE_RULE_KIND)
        snprintf(what, sizeof(what), "tasks of the kind \"%.20s\"", in->kind);
    else if (cause == CAUSE_DEVICE_NONE || cause == CAUSE_RULE_LOST)
        snprintf(what, sizeof(what), "device %d", in->device);
    else if (cause == CAUSE_RULE_CODE)
        snprintf(what, sizeof(what), "code %d", in->code);
    error = refuse_text(message, size, cause, NULL, what);
    if (cause == CAUSE_RULE_KIND)
        inject_append_kinds(message, size);
    return error;
}

/* The command has the number before anything is certain. */
static int32_t set_rule(struct admin *admin, const Npud__Inject *in, struct command *command,
                        char *message, size_t size)
{
    enum cause cause = inject_set(admin->server, in, command ? &command->rule : &admin->rule);

    if (command)
        admin->rule = command->rule;
    return cause == CAUSE_NONE ? 0 : refuse_rule(in, cause, message, size);
}

/* id 0: all rules. */
static int32_t clear_rules(struct admin *admin, uint64_t id, char *message, size_t size)
{
    enum cause cause = inject_clear(admin->server, id);
    char what[32];

    snprintf(what, sizeof(what), "rule %llu", (unsigned long long)id);
    return cause == CAUSE_NONE ? 0 : refuse_text(message, size, cause, NULL, what);
}

static int32_t change_trace(struct admin *admin, const Npud__AdminRequest *request, char *message,
                            size_t size)
{
    enum cause cause = request->start_trace
                           ? trace_start(admin->server, request->trace_size, request->trace_calls)
                           : trace_stop(admin->server);

    admin->awaits_trace = cause == CAUSE_NONE;
    return cause == CAUSE_NONE ? 0 : refuse_text(message, size, cause, NULL, "trace");
}

#define CHECK_DIRECTORY_MAX 1000u /* bytes: the library appends a name, and paths have 4,096 */

/*
 * What is checked is told to sessions when they begin: one that began before has made objects that
 * its file would not tell of. An npud that comes back checks none. directory NULL: none.
 */
static int32_t change_check(struct admin *admin, const char *directory, char *message, size_t size)
{
    char *copy = NULL;

    if (directory && (directory[0] != '/' || strlen(directory) > CHECK_DIRECTORY_MAX)) {
        snprintf(message, size, "check: name a directory by an absolute path of up to %u bytes",
                 CHECK_DIRECTORY_MAX);
        return ACL_ERROR_RT_PARAM_INVALID;
    }
    if (directory && !(copy = strdup(directory)))
        return refuse_text(message, size, CAUSE_MEMORY, NULL, "check");
    free(admin->server->check_directory);
    admin->server->check_directory = copy;
    return 0;
}

static int send_reply(struct admin *admin, uint64_t id, int32_t error, const char *message)
{
    Npud__AdminReply out = NPUD__ADMIN_REPLY__INIT;

    out.id = id;
    out.error = error;
    out.message = (char *)message;
    out.size = admin->report.size;
    out.rule = admin->rule;
    out.version = (char *)NPUD_VERSION;
    out.pid = getpid();
    return packet_send_message(admin->socket, &out.base, &admin->report.fd, admin->report.fd >= 0,
                               MSG_DONTWAIT);
}

/* error: negative errno. */
static int refuse_report(struct admin *admin, int error)
{
    char message[256];
    int32_t code = refuse_text(message, sizeof(message), cause_of_file(error), NULL, "no report");

    return send_reply(admin, admin->request, code, message);
}

static bool run_slice(struct job *job)
{
    struct admin *admin = (struct admin *)((char *)job - offsetof(struct admin, slice));
    int r = report_append_slice(admin->server, &admin->report);

    admin->server->schedule.detail = admin->report.topic;
    if (r > 0)
        return true;
    if (r == 0)
        r = report_seal(&admin->report);
    if (r < 0) {
        report_close(&admin->report);
        admin->report.size = 0;
    }
    r = r < 0 ? refuse_report(admin, r) : send_reply(admin, admin->request, 0, "");
    report_close(&admin->report);
    if (r < 0 || event_add(admin->on_socket, NULL) < 0)
        admin_free(admin);
    return false;
}

/* What was told before is not told again. */
static int follow_trace(struct admin *admin, const Npud__AdminRequest *request)
{
    struct trace_progress *p = &admin->report.progress.trace;

    p->follows = request->follow_trace;
    p->after = calloc(request->n_trace_after + 1, sizeof(*p->after));
    if (!p->after)
        return -ENOMEM;
    p->n_after = request->n_trace_after;
    for (size_t i = 0; i < p->n_after; i++)
        p->after[i] = (struct trace_cursor){.session = request->trace_after[i]->session,
                                            .device = request->trace_after[i]->device,
                                            .next = request->trace_after[i]->next};
    trace_forget_read(admin->server->trace, p->after, p->n_after);
    return 0;
}

static int report_begin(struct admin *admin, const Npud__AdminRequest *request)
{
    unsigned topic = (unsigned)request->topic;
    int r;

    admin->request = request->id;
    r = report_open(admin->server, &admin->report, topic);
    if (r == -EMFILE && spare_fds_give_up(&admin->server->spare))
        r = report_open(admin->server, &admin->report, topic);
    if (r == 0 && request->follow_trace)
        r = follow_trace(admin, request);
    if (r < 0) {
        report_close(&admin->report);
        return refuse_report(admin, r);
    }
    event_del(admin->on_socket);
    job_list(&admin->slice);
    return 0;
}

/* --- commands --- */

/* Until then no further request is read. */
static int await_answer(struct admin *admin, uint64_t request)
{
    admin->request = request;
    event_del(admin->on_socket);
    return 0;
}

static void answer_awaited(struct admin *admin, int32_t error, const char *message)
{
    if (send_reply(admin, admin->request, error, message) < 0 ||
        event_add(admin->on_socket, NULL) < 0)
        admin_free(admin);
}

void admin_trace_told(struct server *server)
{
    struct admin *admin, *next;

    DL_FOREACH_SAFE (server->admin_list, admin, next) {
        if (!admin->awaits_trace)
            continue;
        admin->awaits_trace = false;
        answer_awaited(admin, 0, "");
    }
}

static bool is_command(const Npud__AdminRequest *request)
{
    return request->end_session != 0 || request->inject || request->clear_rule != 0 ||
           request->clear_rules || request->start_trace || request->stop_trace ||
           request->check_directory[0] != '\0' || request->stop_check;
}

static int32_t carry_out(struct admin *admin, const Npud__AdminRequest *request,
                         struct command *command, char *message, size_t size)
{
    if (request->end_session != 0)
        return end_session(admin, request->end_session, message, size);
    if (request->start_trace || request->stop_trace)
        return change_trace(admin, request, message, size);
    if (request->stop_check || request->check_directory[0] != '\0')
        return change_check(admin, request->stop_check ? NULL : request->check_directory, message,
                            size);
    if (request->inject)
        return set_rule(admin, request->inject, command, message, size);
    return clear_rules(admin, request->clear_rules ? 0 : request->clear_rule, message, size);
}

/*
 * Once, however often it is sent: what remembers the command is certain together with the first
 * change that it makes, also if that is certain before the command is over.
 */
static int answer_command(struct admin *admin, const Npud__AdminRequest *request)
{
    struct server *server = admin->server;
    struct command *command = commands_find(server, admin->user->uid, request->token);
    char message[512] = ""; /* has room for the kinds of tasks, and for some more */
    int32_t error;
    int r;

    if (command) {
        admin->rule = command->rule;
        return send_reply(admin, request->id, 0, "");
    }
    command = commands_note(server, admin->user->uid, request->token);
    error = carry_out(admin, request, command, message, sizeof(message));
    if (error != 0)
        commands_take_back(server, command);
    KILL_HERE(COMMAND_BEGUN);
    kept_commit();
    KILL_HERE(COMMAND_CERTAIN);
    if (admin->awaits_trace)
        return await_answer(admin, request->id);
    r = send_reply(admin, request->id, error, message);
    KILL_HERE(COMMAND_ANSWERED);
    return r;
}

/* --- upgrade --- */

void (*admin_end_session)(struct session *session);
bool (*admin_request_upgrade)(void);

/* The supervisor is asked again if npud is killed while the installed program is made ready. */
#define UPGRADE_ASKS_MAX 3

static bool is_installed_program(void)
{
    char path[PATH_MAX];
    bool replaced;

    return own_program_path(path, &replaced) == 0 && !replaced;
}

static void note_upgrade(struct admin *admin, struct command *command, uint64_t token)
{
    if (!command)
        command = commands_note(admin->server, admin->user->uid, token);
    if (!command)
        return;
    command->asks++;
    commands_touch(admin->server);
    kept_commit();
    KILL_HERE(UPGRADE_NOTED);
}

static int answer_upgrade(struct admin *admin, const Npud__AdminRequest *request)
{
    bool *asked = &admin->server->commands->upgrade_asked;
    struct command *before = commands_find(admin->server, admin->user->uid, request->token);

    if (before && !*asked && is_installed_program())
        return send_reply(admin, request->id, 0, "");
    if (before && !*asked && before->asks >= UPGRADE_ASKS_MAX)
        return send_reply(
            admin, request->id, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "the installed program was started, and the one from before serves again: "
            "the log of npud says why (journalctl -u npud)");
    note_upgrade(admin, before, request->token);
    if (!*asked)
        *asked = admin_request_upgrade && admin_request_upgrade();
    KILL_HERE(UPGRADE_ASKED);
    admin->awaits_upgrade = *asked;
    if (*asked)
        return await_answer(admin, request->id);
    return send_reply(
        admin, request->id, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "npud was not started by npud-supervisor: systemctl restart npud replaces it, "
        "and sessions end");
}

void admin_refuse_upgrade(struct server *server, const char *why)
{
    struct admin *admin, *next;
    char text[512];

    snprintf(text, sizeof(text), "npud is not upgraded, and goes on as it is: %s", why);
    server->commands->upgrade_asked = false;
    commands_forget_upgrades(server);
    kept_commit();
    DL_FOREACH_SAFE (server->admin_list, admin, next) {
        if (!admin->awaits_upgrade)
            continue;
        admin->awaits_upgrade = false;
        answer_awaited(admin, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, text);
    }
}

/* --- requests --- */

static int answer_monitor(struct admin *admin, const Npud__AdminRequest *request)
{
    int r = monitor_begin(&admin->monitor, admin->server, admin->socket);

    if (r == -EUSERS)
        return send_reply(admin, request->id, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                          "there are as many monitors as npud serves: end another npuctl monitor");
    return r < 0 ? r : send_reply(admin, request->id, 0, "");
}

static int answer_request(struct admin *admin, const Npud__AdminRequest *request)
{
    char message[256] = "";

    admin->report.size = admin->rule = 0;
    if (monitor_is_on(&admin->monitor))
        return -EBADMSG;
    if (!protocol_is_served(request->protocol)) {
        snprintf(message, sizeof(message),
                 "this npud speaks protocols %u to %u, npuctl speaks %u: restart npud with the "
                 "version that is installed, or use the npuctl of its version",
                 PROTOCOL_OLDEST, PROTOCOL, request->protocol);
        return send_reply(admin, request->id, ACL_ERROR_API_NOT_SUPPORT, message);
    }
    if (!report_has_topic((unsigned)request->topic))
        return send_reply(admin, request->id, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "this npud is older than npuctl and has no such report: restart npud "
                          "(systemctl restart npud)");
    if (is_command(request))
        return answer_command(admin, request);
    if (request->upgrade)
        return answer_upgrade(admin, request);
    if (request->monitor)
        return answer_monitor(admin, request);
    return report_begin(admin, request);
}

static void refuse_admin(int socket, int32_t error, const char *message)
{
    Npud__AdminReply reply = NPUD__ADMIN_REPLY__INIT;

    reply.id = 1;
    reply.error = error;
    reply.message = (char *)message;
    packet_send_message(socket, &reply.base, NULL, 0, MSG_DONTWAIT);
}

/* A library whose NPUD_SOCKET names this socket. Its answer has the same first fields. */
static void refuse_library(int socket, const struct packet *packet)
{
    Npud__Request *request = npud__request__unpack(NULL, packet->size, packet->data);

    if (request && request->body_case == NPUD__REQUEST__BODY_HELLO)
        refuse_admin(
            socket, ACL_ERROR_RT_NO_DEVICE,
            "this is npud's admin socket, which npuctl asks; programs connect to its other "
            "one: set NPUD_SOCKET to that, or leave it unset for the npud of this host");
    if (request)
        npud__request__free_unpacked(request, NULL);
}

static bool run_answer(struct job *job)
{
    struct packet packet;
    struct admin *admin = (struct admin *)((char *)job - offsetof(struct admin, answer));
    Npud__AdminRequest *request = NULL;
    int r = packet_recv_without_fds(admin->socket, &packet, admin->takes_fds, MSG_DONTWAIT);

    if (r == -EAGAIN)
        return false;
    if (r > 0) {
        request = npud__admin_request__unpack(NULL, packet.size, packet.data);
        if (!request)
            refuse_library(admin->socket, &packet);
    }
    r = request ? answer_request(admin, request) : -EBADMSG;
    if (request)
        npud__admin_request__free_unpacked(request, NULL);
    if (r < 0)
        admin_free(admin);
    return false;
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct admin *admin = arg;

    (void)fd;
    (void)what;
    job_list(&admin->answer);
}

static bool in_group(int socket, gid_t gid)
{
    gid_t *groups = NULL;
    socklen_t size = 0;
    bool found = false;

    /* The first call fails and tells how much room the groups need. */
    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &size);
    if (size > 0)
        groups = malloc(size);
    if (groups && getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0)
        for (size_t n = size / sizeof(gid_t); n > 0 && !found; n--)
            found = groups[n - 1] == gid;
    free(groups);
    return found;
}

/*
 * The socket's mode decides which users can connect; this decides it for sockets that were passed
 * to us, too.
 */
static bool may_administer(struct server *server, const struct ucred *cred, int socket)
{
    if (cred->uid == 0 || cred->uid == geteuid())
        return true;
    return server->admin_gid != (gid_t)-1 &&
           (cred->gid == server->admin_gid || in_group(socket, server->admin_gid));
}

/* The other end is closed, and nothing that came before is left to read. */
static bool has_hung_up(const struct admin *admin)
{
    char c;

    return recv(admin->socket, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * Before a user is refused: npud hears of a connection that is closed before it hears of the next
 * one, but the close waits for its turn.
 */
static void free_hung_up(struct server *server, const struct user *user)
{
    struct admin *admin, *next;

    DL_FOREACH_SAFE (server->admin_list, admin, next)
        if (admin->user == user && admin->on_socket && has_hung_up(admin))
            admin_free(admin);
}

static bool charge_admin(struct admin *admin)
{
    if (user_charge(&admin->charge, admin->user, RESOURCE_ADMINS, 1) == 0)
        return true;
    free_hung_up(admin->server, admin->user);
    return user_charge(&admin->charge, admin->user, RESOURCE_ADMINS, 1) == 0;
}

/*
 * A connection has one request under way: its socket, a report that is made, and one that was not
 * read. So their number bounds the rest, which is not charged: at a limit, a user may ask which one
 * it is.
 */
static bool admin_watch(struct admin *admin, uid_t uid)
{
    struct server *server = admin->server;
    char text[256];

    admin->user = user_ref(&server->users, uid);
    if (!admin->user)
        return false;
    if (!charge_admin(admin)) {
        int32_t error =
            refuse_text(text, sizeof(text), CAUSE_USER_ADMINS, admin->user, "no connection");

        refuse_admin(admin->socket, error, text);
        return false;
    }
    admin->owner.user = &admin->user->payer->schedule;
    admin->answer = (struct job){run_answer, "request of npuctl", &admin->owner};
    admin->slice = (struct job){run_slice, "report", &admin->owner};
    admin->on_socket =
        event_new(server->base, admin->socket, EV_READ | EV_PERSIST, on_socket, admin);
    return admin->on_socket && event_add(admin->on_socket, NULL) == 0;
}

static void accept_admin(struct server *server, int socket, const struct ucred *cred)
{
    bool takes_fds = client_socket_refuse_fds(socket);
    struct admin *admin;

    if (!may_administer(server, cred, socket)) {
        refuse_admin(socket, ACL_ERROR_RT_NO_PERMISSION,
                     "this is npud's admin socket, which only root and members of its admin group "
                     "may ask ([npud] admin_group in npud.conf); programs connect to the other one "
                     "(NPUD_SOCKET)");
        client_socket_close(socket, takes_fds);
        return;
    }
    admin = calloc(1, sizeof(*admin));
    if (!admin) {
        client_socket_close(socket, takes_fds);
        return;
    }
    admin->server = server;
    admin->socket = socket;
    admin->takes_fds = takes_fds;
    admin->report.fd = -1;
    DL_APPEND(server->admin_list, admin);
    if (!admin_watch(admin, cred->uid))
        admin_free(admin);
}

void admin_accept(struct server *server, int socket)
{
    struct ucred cred = {.uid = geteuid()};
    socklen_t len = sizeof(cred);

    schedule_begin(&server->schedule);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0)
        accept_admin(server, socket, &cred);
    else
        client_socket_close(socket, client_socket_refuse_fds(socket));
    schedule_end(&server->schedule, "connect of npuctl", cred.uid);
}
