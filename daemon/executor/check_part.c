#include "daemon/executor/check_part.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/pidfd.h"
#include "daemon/executor/check_row.h"
#include "proto/util/fd_message.h"

#define HEAR_MS 60000 /* a device is begun in seconds */
#define KILL_MS 5000

/* --- start --- */

/* In the child. */
static void exec_part(struct check *c, const char *part, uid_t uid, int socket, pid_t parent)
{
    char device[16], user[16], kernel[4200];
    const char *argv[16];
    int n = 0;

    snprintf(device, sizeof(device), "--device=%u", c->device);
    snprintf(user, sizeof(user), "--uid=%u", (unsigned)uid);
    argv[n++] = "npud-executor";
    argv[n++] = "--check";
    argv[n++] = c->spec;
    argv[n++] = device;
    argv[n++] = "--part";
    argv[n++] = part;
    if (c->nesting)
        argv[n++] = "--nesting";
    if (uid != (uid_t)-1)
        argv[n++] = user;
    if (c->kernel_file) {
        snprintf(kernel, sizeof(kernel), "--kernel=%s:%s", c->kernel_file, c->kernel_name);
        argv[n++] = kernel;
    }
    argv[n] = NULL;
    /* What a library prints is not to be in the table. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    dup2(socket, CHECK_SOCKET);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        execv("/proc/self/exe", (char **)argv);
    _exit(127);
}

bool check_child_start(struct check *c, const char *part, uid_t uid, struct check_child *child)
{
    const pid_t parent = getpid();
    int sockets[2];

    *child = (struct check_child){.pid = -1, .pidfd = -1, .socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        check_say(c, CHECK_NOT_KNOWN, "no socket: %s", strerror(errno));
        return false;
    }
    child->pid = fork();
    if (child->pid == 0)
        exec_part(c, part, uid, fcntl(sockets[1], F_DUPFD_CLOEXEC, CHECK_SOCKET + 1), parent);
    close(sockets[1]);
    child->socket = sockets[0];
    child->pidfd = child->pid > 0 ? pidfd_open_process(child->pid) : -1;
    if (child->pidfd >= 0)
        return true;
    check_say(c, CHECK_NOT_KNOWN, "no process: %s", strerror(errno));
    close(child->socket);
    return false;
}

/* --- end --- */

static bool has_ended(struct check_child *child, int timeout_ms)
{
    struct pollfd p = {.fd = child->pidfd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

bool check_child_kill(struct check_child *child)
{
    bool ended;

    if (child->pid <= 0)
        return true;
    kill(child->pid, SIGKILL);
    ended = has_ended(child, KILL_MS);
    if (ended)
        waitpid(child->pid, NULL, 0);
    close(child->pidfd);
    close(child->socket);
    child->pid = -1;
    return ended;
}

void check_child_how(struct check_child *child, char *text, unsigned size)
{
    int status = 0;

    if (!has_ended(child, KILL_MS) || waitpid(child->pid, &status, WNOHANG) != child->pid) {
        snprintf(text, size, "the process does not end");
        return;
    }
    if (WIFSIGNALED(status))
        snprintf(text, size, "the process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "the process has ended with status %d", WEXITSTATUS(status));
    child->pid = -1;
    close(child->pidfd);
    close(child->socket);
}

/* --- messages --- */

bool check_send(int socket, const struct check_message *message)
{
    const int fd = message->token.fd;

    return fd_message_send(socket, message, sizeof(*message), &fd, fd >= 0 ? 1 : 0, MSG_NOSIGNAL) ==
           0;
}

bool check_receive(int socket, struct check_message *message, unsigned timeout_ms)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};
    int fds[FD_MESSAGE_FDS];
    size_t n = 0;
    ssize_t bytes;

    if (poll(&p, 1, (int)timeout_ms) != 1)
        return false;
    bytes = fd_message_receive(socket, message, sizeof(*message), fds, &n, 0);
    message->token.fd = n > 0 ? fds[0] : -1;
    return bytes == (ssize_t)sizeof(*message);
}

bool check_hear(struct check *c, struct check_child *child, struct check_message *message,
                const char *what)
{
    if (!check_receive(child->socket, message, HEAR_MS)) {
        check_say(c, CHECK_NO, "%s: the process says nothing", what);
        return false;
    }
    if (message->code == 0)
        return true;
    check_say(c, message->code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ? CHECK_NO : CHECK_DIFFERS,
              "%s: error %d: %.255s", what, (int)message->code, message->text);
    return false;
}

/* --- the parts --- */

/* To the row: what a call has answered. */
static bool tell(int32_t code)
{
    struct check_message m = {.code = code, .pid = (int32_t)getpid(), .token.fd = -1};

    if (code != 0)
        snprintf(m.text, sizeof(m.text), "%s", vendor_text());
    return check_send(CHECK_SOCKET, &m) && code == 0;
}

/* From the row. */
static bool hear(struct check_message *m)
{
    return check_receive(CHECK_SOCKET, m, HEAR_MS);
}

/* Has the device, and has it until it is killed. */
static void run_start(struct check *c)
{
    struct check_message m;

    if (tell(check_begin(c)))
        hear(&m);
}

static void copy_on(struct check *c, const struct vendor_memory *memory)
{
    struct vendor_memory own;

    if (c->vendor->memory_new(c->library, c->device, memory->size, &own) != 0)
        return;
    while (c->lane &&
           check_copy(c, own.address, memory->address, memory->size, VENDOR_ON_DEVICE) == 0)
        ;
}

static int32_t use_imported(struct check *c, const struct check_message *m,
                            const struct vendor_memory *memory)
{
    const uint64_t word = 1;
    bool matches = true;
    int32_t code;

    if (m->value == CHECK_IMPORT_WORD)
        return check_copy(c, memory->address, (uintptr_t)&word, sizeof(word), VENDOR_TO_DEVICE);
    code = check_matches_device(c, memory->address, m->size, 1, &matches);
    if (code == 0 && !matches) {
        vendor_set_text("other bytes than the exporter's");
        return ACL_ERROR_RT_INTERNAL_ERROR;
    }
    if (code == 0)
        code = check_fill_device(c, memory->address, m->size, 2);
    return code;
}

/* In a file of the device's memory no descriptor stays behind: the import has its own. */
static int32_t import(struct check *c, struct check_message *m, struct vendor_memory *memory)
{
    const int32_t code =
        c->vendor->memory_import(c->library, c->device, m->size, &m->token, memory);

    if (m->token.fd >= 0)
        close(m->token.fd);
    return code;
}

/*
 * Ready; a token: imported and used; a message: given back. If a word is to be written, another
 * message like the first comes before.
 */
static void run_importer(struct check *c)
{
    struct vendor_memory memory;
    struct check_message m;
    int32_t code;

    if (!tell(check_begin(c)) || !hear(&m))
        return;
    code = import(c, &m, &memory);
    if (code == 0 && m.value == CHECK_IMPORT_WORD && (!tell(0) || !hear(&m)))
        return;
    if (code == 0)
        code = use_imported(c, &m, &memory);
    if (!tell(code))
        return;
    if (m.value == CHECK_IMPORT_COPY)
        copy_on(c, &memory);
    if (!hear(&m))
        return;
    c->vendor->memory_free(c->library, &memory);
    tell(0);
}

/* Ready; a pid that may import, and bytes: the token. Then it is killed. */
static void run_exporter(struct check *c)
{
    struct vendor_memory memory;
    struct check_message m, answer = {0};
    int32_t code;

    if (!tell(check_begin(c)) || !hear(&m))
        return;
    code = c->vendor->memory_new(c->library, c->device, m.size, &memory);
    if (code == 0)
        code = check_fill_device(c, memory.address, memory.size, 1);
    if (code == 0)
        code = c->vendor->memory_export(c->library, &memory, &answer.token);
    if (code == 0 && c->vendor->memory_allow)
        code = c->vendor->memory_allow(c->library, &memory, &answer.token, m.pid);
    if (code != 0) {
        tell(code);
        return;
    }
    answer.size = memory.size;
    if (check_send(CHECK_SOCKET, &answer))
        hear(&m);
}

/* Gives the device a lot to do, says so, and is killed in the middle of it. */
static void run_busy(struct check *c)
{
    enum { TASKS = 1000, FIRST = 50 };
    const uint64_t half = UINT64_C(128) << 20;
    struct vendor_memory memory;
    struct check_message m;
    int32_t code = check_begin(c);

    if (code == 0)
        code = c->vendor->memory_new(c->library, c->device, 2 * half, &memory);
    for (int i = 0; i < TASKS && code == 0; i++) {
        code = c->vendor->copy(c->lane, memory.address + half, memory.address, half / 8,
                               VENDOR_ON_DEVICE);
        if (i == FIRST && !tell(code))
            return;
    }
    if (code != 0)
        tell(code);
    else
        hear(&m);
}

/* Fills memory with bytes that another process must not see, and ends. */
static void run_filler(struct check *c)
{
    struct vendor_memory memory;
    struct check_message m;
    int32_t code = check_begin(c);

    if (tell(code) && hear(&m)) {
        code = c->vendor->memory_new(c->library, c->device, m.size, &memory);
        if (code == 0)
            code = check_fill_device(c, memory.address, m.size, 3);
        tell(code);
    }
}

/* As many lanes as there are, up to the number in the message. */
static void run_hoarder(struct check *c)
{
    struct check_message m, answer = {.token.fd = -1};
    struct vendor_lane *lane;

    if (!tell(check_begin(c)) || !hear(&m))
        return;
    while (answer.value < m.value && c->vendor->lane_new(c->library, c->device, &lane) == 0)
        answer.value++;
    snprintf(answer.text, sizeof(answer.text), "%s", vendor_text());
    if (check_send(CHECK_SOCKET, &answer))
        hear(&m);
}

static int32_t use_pages(const struct check_message *m)
{
    void *pages = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->token.fd, 0);
    int32_t code = 0;

    close(m->token.fd);
    if (pages == MAP_FAILED)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (m->value == CHECK_CLIENT_FILL)
        check_fill(pages, m->size, 4);
    else if (!check_matches(pages, m->size, 5))
        code = ACL_ERROR_RT_INTERNAL_ERROR;
    munmap(pages, m->size);
    return code;
}

/* A client: it has pages of the host, and never the device. */
static void run_client(struct check *c)
{
    struct check_message m;
    bool goes_on = tell(0);

    (void)c;
    while (goes_on && hear(&m))
        goes_on = tell(use_pages(&m));
}

void check_part_run(struct check *c)
{
    static const struct {
        const char *name;
        void (*run)(struct check *c);
    } parts[] = {
        {"start", run_start},   {"importer", run_importer}, {"exporter", run_exporter},
        {"busy", run_busy},     {"filler", run_filler},     {"hoarder", run_hoarder},
        {"client", run_client},
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strcmp(parts[i].name, c->part) == 0)
            parts[i].run(c);
}
