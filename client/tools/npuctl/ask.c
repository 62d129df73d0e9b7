#include "client/tools/npuctl/ask.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/clock.h"
#include "proto/util/random.h"
#include "proto/wire/own_topic.h"

/* What npud has answered. */
struct answer {
    Npud__Report *report; /* NULL: not asked for one */
    uint64_t rule;
    uint64_t at;      /* when */
    char version[64]; /* of the npud that has taken over */
    int32_t pid;
};

static enum status read_answer(const Npud__AdminReply *reply, const struct packet *packet,
                               const struct task *task, struct answer *answer)
{
    if (reply->error != 0)
        return socket_explain_refusal(reply->message, reply->error);
    *answer = (struct answer){.rule = reply->rule, .at = clock_ns(), .pid = reply->pid};
    snprintf(answer->version, sizeof(answer->version), "%s", reply->version);
    return task->report ? socket_read_report(packet, reply->size, &answer->report) : STATUS_OK;
}

/* The same request again, to the next npud, is carried out once: npud knows it by the token. */
static enum status complete_request(const struct task *task, Npud__AdminRequest *request)
{
    *request = task->request;
    request->id = 1;
    request->protocol = PROTOCOL_ADMIN;
    if (task->report || random_fill(&request->token, sizeof(request->token)))
        return STATUS_OK;
    fputs("npuctl: the kernel gives no random bytes, which commands are told apart by\n", stderr);
    return STATUS_ERROR;
}

/* One question. On STATUS_OK the caller frees answer->report. */
static enum status ask_once(struct connection *c, const struct task *task, struct answer *answer)
{
    static struct packet packet;
    Npud__AdminRequest request;
    enum status status = complete_request(task, &request);
    Npud__AdminReply *reply;

    if (status != STATUS_OK)
        return status;
    status = STATUS_UNREACHABLE;
    reply = connection_ask(c, &request.base, &npud__admin_reply__descriptor, &packet);
    if (reply) {
        status = read_answer(reply, &packet, task, answer);
        npud__admin_reply__free_unpacked(reply, NULL);
    }
    packet_deinit(&packet);
    return status;
}

enum status ask_bytes(struct connection *c, Npud__AdminRequest *request, uint8_t **bytes,
                      uint64_t *size)
{
    static struct packet packet;
    enum status status = STATUS_UNREACHABLE;
    Npud__AdminReply *reply;

    request->id = 1;
    request->protocol = PROTOCOL_ADMIN;
    *bytes = NULL;
    reply = connection_ask(c, &request->base, &npud__admin_reply__descriptor, &packet);
    if (reply && reply->error != 0) {
        status = socket_explain_refusal(reply->message, reply->error);
    } else if (reply) {
        *size = reply->size;
        *bytes = socket_read_bytes(&packet, *size);
        status = *bytes ? STATUS_OK : STATUS_ERROR;
    }
    if (reply)
        npud__admin_reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return status;
}

static enum status ask_report(struct connection *c, const struct question *question)
{
    static const struct command any;
    struct task task = {.request = NPUD__ADMIN_REQUEST__INIT, .report = &any};
    struct answer answer = {0};
    enum status status;

    task.request.topic = question->topic;
    status = ask_once(c, &task, &answer);
    *question->report = answer.report;
    return status;
}

enum status ask_reports(struct connection *c, const struct question *questions, size_t n)
{
    enum status status = STATUS_OK;
    size_t asked = 0;

    while (status == STATUS_OK && asked < n)
        status = ask_report(c, &questions[asked++]);
    while (status != STATUS_OK && asked-- > 0) {
        npud__report__free_unpacked(*questions[asked].report, NULL);
        *questions[asked].report = NULL;
    }
    return status;
}

enum status ask_reports_at(const char *path, const struct question *questions, size_t n)
{
    struct connection c = {.path = path, .limit = ANSWER_LIMIT_S};
    int r = connection_open(&c);
    enum status status;

    if (r < 0)
        return socket_explain_unreachable(path, -r);
    status = ask_reports(&c, questions, n);
    connection_close(&c);
    return status;
}

/* --- how fast --- */

static uint64_t compute_rate(uint64_t before, uint64_t after, uint64_t ns)
{
    return after > before && ns > 0
               ? (uint64_t)((double)(after - before) * (double)NSEC_PER_SEC / (double)ns + 0.5)
               : 0;
}

/* Rows are in the order of their numbers in both. */
#define FILL(rows, Row)                                                                            \
    for (size_t i = 0, k = 0; i < after->n_##rows; i++) {                                          \
        Row *row = after->rows[i];                                                                 \
                                                                                                   \
        while (k < before->n_##rows && before->rows[k]->number < row->number)                      \
            k++;                                                                                   \
        if (k < before->n_##rows && before->rows[k]->number == row->number)                        \
            row->rate = compute_rate(before->rows[k]->messages, row->messages, ns);                \
    }

/*
 * The rates per second of `after`, which was made ns after `before`. What is new in it has none
 * yet.
 */
static void fill_rates(Npud__Report *after, const Npud__Report *before, uint64_t ns)
{
    assert(after && before); /* of a task that asks for a report, answered with STATUS_OK */
    FILL(queues, Npud__QueueRow)
    FILL(routes, Npud__RouteRow)
}

/* Do its rows say how fast something goes? */
static bool has_rates(const struct command *report)
{
    const ProtobufCFieldDescriptor *list =
        protobuf_c_message_descriptor_get_field_by_name(&npud__report__descriptor, report->name);

    return protobuf_c_message_descriptor_get_field_by_name(list->descriptor, "rate") != NULL;
}

/* The same question again, a moment after the first answer: what was counted in between. */
static enum status ask_rates(struct connection *c, const struct task *task, struct answer *answer)
{
    struct answer before = *answer;
    enum status status;

    clock_sleep_until(before.at + task_interval_ns(task, RATES_S));
    status = ask_once(c, task, answer);
    if (status == STATUS_OK)
        fill_rates(answer->report, before.report, answer->at - before.at);
    npud__report__free_unpacked(before.report, NULL);
    return status;
}

/* --- of a user alone --- */

/* On STATUS_OK *report is there, or npud is to be asked again after *again_ms, which is not 0. */
static enum status read_own(const Npud__Reply *reply, const struct packet *packet, int topic,
                            Npud__Report **report, uint32_t *again_ms)
{
    if (reply->body_case != NPUD__REPLY__BODY_OWN_WAITS)
        return socket_explain_refusal(reply->message, reply->error);
    if (topic != NPUD__ADMIN_REQUEST__TOPIC__WAITS && (int)reply->own_waits->topic != topic) {
        fputs("npuctl: this npud is older than npuctl and tells that to administrators only\n",
              stderr);
        return STATUS_UNREACHABLE;
    }
    *again_ms = reply->own_waits->again_ms;
    return *again_ms == 0 ? socket_read_report(packet, reply->own_waits->size, report) : STATUS_OK;
}

static enum status ask_own_once(struct connection *c, int topic, Npud__Report **report,
                                uint32_t *again_ms)
{
    static struct packet packet;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OwnWaits own_waits = NPUD__OWN_WAITS__INIT;
    enum status status = STATUS_UNREACHABLE;
    Npud__Reply *reply;

    request.id = 1;
    request.body_case = NPUD__REQUEST__BODY_OWN_WAITS;
    request.own_waits = &own_waits;
    own_waits.topic = (Npud__AdminRequest__Topic)topic;
    reply = connection_ask(c, &request.base, &npud__reply__descriptor, &packet);
    if (reply) {
        status = read_own(reply, &packet, topic, report, again_ms);
        npud__reply__free_unpacked(reply, NULL);
    }
    packet_deinit(&packet);
    return status;
}

/* Of a user that may use npud and not administer it, from the clients' socket. */
enum status ask_own(const char *path, int topic, Npud__Report **report)
{
    static bool told;
    struct connection c = {.path = socket_find("NPUD_SOCKET", NPUD_SOCKET_DEFAULT),
                           .limit = ANSWER_LIMIT_S};
    uint32_t again_ms = 0;
    enum status status;

    *report = NULL;
    if (connection_open(&c) < 0)
        return socket_explain_unreachable(path, EACCES);
    do {
        clock_sleep_until(clock_ns() + again_ms * NSEC_PER_MSEC);
        status = ask_own_once(&c, topic, report, &again_ms);
    } while (status == STATUS_OK && !*report);
    connection_close(&c);
    if (status == STATUS_OK && !told)
        fprintf(stderr, "npuctl: %s is for administrators: this is of your own processes alone\n",
                path);
    told = true;
    return status;
}

static enum status print_own(const struct task *task)
{
    Npud__Report *report;
    enum status status = ask_own(task->path, (int)task->report->topic, &report);

    if (status != STATUS_OK)
        return status;
    status = print_report(report, task->report, task->json);
    npud__report__free_unpacked(report, NULL);
    return status;
}

/* An npud that does not know the request answers with a report, without its version. */
static enum status print_answer(const struct task *task, const struct answer *answer)
{
    if (answer->report && task->report->print)
        return task->report->print(answer->report, task);
    if (answer->report)
        return print_report(answer->report, task->report, task->json);
    if (task->request.upgrade && answer->version[0] == '\0') {
        fputs(
            "npuctl: this npud is older than npuctl and cannot be upgraded: systemctl restart npud "
            "replaces it, and sessions end\n",
            stderr);
        return STATUS_ERROR;
    }
    if (task->request.upgrade)
        return print_server(answer->version, answer->pid, task->json);
    return answer->rule != 0 ? print_rule(answer->rule, task->json) : STATUS_OK;
}

enum status ask_npud(const struct task *task)
{
    struct connection c = {.path = task->path,
                           .limit = task->request.upgrade ? UPGRADE_LIMIT_S : ANSWER_LIMIT_S};
    struct answer answer = {0};
    enum status status;
    int r = connection_open(&c);

    if (r == -EACCES && !task->named && task->report && topic_is_own(task->report->topic))
        return print_own(task);
    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    status = ask_once(&c, task, &answer);
    if (status == STATUS_OK && task->report && has_rates(task->report))
        status = ask_rates(&c, task, &answer);
    connection_close(&c);
    if (status != STATUS_OK)
        return status;
    status = print_answer(task, &answer);
    if (answer.report)
        npud__report__free_unpacked(answer.report, NULL);
    return status;
}
