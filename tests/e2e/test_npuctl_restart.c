/*
 * npuctl while npud ends under it: the server is a script, which ends the connection at each point
 * of a request. What npuctl prints comes once and whole, and a command has the same token each
 * time.
 *
 * Skipped under chaos: the test itself kills npud.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/harness.h"

#define BROKEN_MAX 32 /* client/tools/npuctl/socket.c */
#define REQUESTS   64

/*
 * What the server does with one connection after the other, a letter each:
 *     a  ends it as soon as it is accepted
 *     r  reads the request, and ends it
 *     o  answers one request, and ends it with the next one
 *     s  serves it
 *     x  serves no more: nothing has the listening socket
 */
static struct shared {
    char script[BROKEN_MAX + 8];
    uint64_t token[REQUESTS]; /* as they came */
    unsigned requests;
    bool older;    /* knows no upgrade: it answers with a report */
    int32_t error; /* that commands are refused with */
} * shared;

static char folder[] = "/tmp/npuctl-restart-XXXXXX";

static int seal_report(uint64_t *size)
{
    static Npud__QueueRow row = NPUD__QUEUE_ROW__INIT;
    Npud__QueueRow *rows[] = {&row};
    Npud__Report report = NPUD__REPORT__INIT;
    uint8_t bytes[256];
    int fd = memfd_create("report", MFD_CLOEXEC);

    row.number = 1;
    row.queue = 77;
    row.name = (char *)"q";
    row.messages += 1000;
    report.queues = rows;
    report.n_queues = 1;
    *size = npud__report__pack(&report, bytes);
    return write(fd, bytes, *size) == (ssize_t)*size ? fd : -1;
}

static int answer(int client, const Npud__AdminRequest *request)
{
    Npud__AdminReply reply = NPUD__ADMIN_REPLY__INIT;
    bool is_command =
        request->end_session || request->inject || (request->upgrade && !shared->older);
    int fd = is_command ? -1 : seal_report(&reply.size), r;

    reply.id = request->id;
    if (!shared->older) {
        reply.version = (char *)"9.9";
        reply.pid = 4711;
    }
    if (request->inject)
        reply.rule = 5;
    if (is_command && shared->error) {
        reply.error = shared->error;
        reply.message = (char *)"not now";
    }
    r = packet_send_message(client, &reply.base, &fd, fd >= 0, 0);
    if (fd >= 0)
        close(fd);
    return r;
}

/* False: the client has gone. */
static bool take_request(int client, bool answers)
{
    static struct packet packet;
    Npud__AdminRequest *request;
    int r = packet_recv(client, &packet, 0);

    if (r <= 0)
        return false;
    request = npud__admin_request__unpack(NULL, packet.size, packet.data);
    shared->token[shared->requests++ % REQUESTS] = request->token;
    if (answers)
        answer(client, request);
    npud__admin_request__free_unpacked(request, NULL);
    return true;
}

static void serve(int client, char how)
{
    switch (how) {
    case 'r':
        take_request(client, false);
        break;
    case 'o':
        take_request(client, true);
        take_request(client, false);
        break;
    case 's':
        while (take_request(client, true))
            ;
        break;
    default:
        break;
    }
    close(client);
}

static int serve_script(void *arg)
{
    int listener = *(int *)arg;

    for (const char *how = shared->script; *how && *how != 'x'; how++)
        serve(accept4(listener, NULL, NULL, SOCK_CLOEXEC), *how);
    return 0;
}

static void begin(void)
{
    shared = child_share(sizeof(*shared));
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void end(void)
{
    rmdir(folder);
}

/* One npuctl against the script: what it has printed, and its status. */
static char *run(const char *script, const char *arguments, int *status)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    pid_t server;
    char *out;

    shared->requests = 0;
    snprintf(shared->script, sizeof(shared->script), "%s", script);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/admin", folder);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    setenv("NPUD_ADMIN_SOCKET", addr.sun_path, 1);
    server = child_start(serve_script, &fd);
    close(fd);
    out = npuctl(arguments, status);
    child_expect_ok(server);
    unlink(addr.sun_path);
    return out;
}

static void says(const char *script, const char *arguments, int status, const char *words)
{
    int got;
    char *out = run(script, arguments, &got);

    ck_assert_msg(got == status, "%s, %s: status %d\n%s", script, arguments, got, out);
    ck_assert_msg(words[0] ? strstr(out, words) != NULL : out[0] == '\0',
                  "%s, %s does not say "
                  "\"%s\":\n%s",
                  script, arguments, words, out);
    free(out);
}

/* --- reports --- */

static unsigned count(const char *text, const char *words)
{
    unsigned n = 0;

    while ((text = strstr(text, words))) {
        n++;
        text += strlen(words);
    }
    return n;
}

START_TEST(a_report_is_read_again_and_printed_once)
{
    static const char *const scripts[] = {"s", "as", "rs", "os", "ros", "aaos", "oars", "rararros"};

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        int status;
        char *out = run(scripts[i], "-i 0.01 --json queues", &status);

        ck_assert_msg(status == 0, "%s: %s", scripts[i], out);
        ck_assert_msg(count(out, "\"queue\":77") == 1 && count(out, "\n") == 1, "%s: %s",
                      scripts[i], out);
        free(out);
    }
}
END_TEST

START_TEST(a_server_that_ends_all_connections_is_given_up)
{
    char script[BROKEN_MAX + 3] = "";

    memset(script, 'r', BROKEN_MAX);
    script[BROKEN_MAX] = 's';
    says(script, "--json queues", 0, "\"queue\":77");
    script[BROKEN_MAX] = 'r';
    says(script, "queues", 3, "does not answer: Connection reset by peer");
    ck_assert_uint_eq(shared->requests, BROKEN_MAX + 1);
}
END_TEST

START_TEST(an_npud_that_does_not_come_back_is_not_awaited)
{
    says("rx", "queues", 3, "no npud at");
    says("ox", "-i 0.2 queues", 3, "no npud at");
    says("rx", "kill 3", 3, "no npud at");
}
END_TEST

/* --- commands --- */

static void check_tokens(unsigned n)
{
    ck_assert_uint_eq(shared->requests, n);
    ck_assert_uint_ne(shared->token[0], 0);
    for (unsigned i = 1; i < n; i++)
        ck_assert_uint_eq(shared->token[i], shared->token[0]);
}

START_TEST(a_command_has_its_token_each_time)
{
    uint64_t before;

    says("s", "kill 3", 0, "");
    check_tokens(1);
    before = shared->token[0];
    says("rrars", "kill 3", 0, "");
    check_tokens(4);
    ck_assert_uint_ne(shared->token[0], before);
    says("ras", "inject fail --kind copy", 0, "5\n");
    check_tokens(2);
    shared->error = 107000;
    says("rs", "kill 3", 1, "npuctl: npud refuses: not now (error 107000)");
    check_tokens(2);
}
END_TEST

START_TEST(the_next_npud_answers_an_upgrade)
{
    says("rs", "upgrade", 0, "npud 9.9 serves (pid 4711)\n");
    check_tokens(2);
    says("rs", "--json upgrade", 0, "{\"version\":\"9.9\",\"pid\":4711}\n");
    shared->error = 207005;
    says("s", "upgrade", 1, "npuctl: npud refuses: not now (error 207005)");
    says("rx", "upgrade", 3, "no npud at");
    shared->error = 0;
    shared->older = true;
    says("s", "upgrade", 1, "this npud is older than npuctl");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npuctl and restarts");
    TCase *tcase = suite_case(suite, "reports", 60, begin, end);

    tcase_add_test(tcase, a_report_is_read_again_and_printed_once);
    tcase_add_test(tcase, a_server_that_ends_all_connections_is_given_up);
    tcase_add_test(tcase, an_npud_that_does_not_come_back_is_not_awaited);
    tcase = suite_case(suite, "commands", 60, begin, end);
    tcase_add_test(tcase, a_command_has_its_token_each_time);
    tcase_add_test(tcase, the_next_npud_answers_an_upgrade);
    return run_suite(suite);
}
