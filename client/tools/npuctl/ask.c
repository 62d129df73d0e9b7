#include "client/tools/npuctl/ask.h"

#include <errno.h>
#include <unistd.h>

#include "client/tools/npuctl/own_waits.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/rate.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/clock.h"

/* What npud has answered. */
struct answer {
    Npud__Report *report; /* NULL: not asked for one */
    uint64_t rule;
    uint64_t at; /* when */
};

static enum status read_answer(const Npud__AdminReply *reply, const struct packet *packet,
                               const struct task *task, struct answer *answer)
{
    if (reply->error != 0)
        return socket_explain_refusal(reply->message, reply->error);
    *answer = (struct answer){.rule = reply->rule, .at = clock_ns()};
    return task->report ? socket_read_report(packet, reply->size, &answer->report) : STATUS_OK;
}

/* One question. On STATUS_OK the caller frees answer->report. */
static enum status ask_once(int fd, const struct task *task, struct answer *answer)
{
    static struct packet packet;
    Npud__AdminReply *reply = NULL;
    enum status status;
    int error = socket_exchange(fd, &task->request.base, &packet);

    if (error == 0)
        reply = npud__admin_reply__unpack(NULL, packet.size, packet.data);
    status = reply ? read_answer(reply, &packet, task, answer)
                   : socket_explain_silence(task->path, error ? error : -EPROTO);
    if (reply)
        npud__admin_reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return status;
}

/* Do its rows say how fast something goes? */
static bool has_rates(const struct command *report)
{
    const ProtobufCFieldDescriptor *list =
        protobuf_c_message_descriptor_get_field_by_name(&npud__report__descriptor, report->name);

    return protobuf_c_message_descriptor_get_field_by_name(list->descriptor, "rate") != NULL;
}

/* The same question again, a moment after the first answer: what was counted in between. */
static enum status ask_rates(int fd, const struct task *task, struct answer *answer)
{
    struct answer before = *answer;
    enum status status;

    clock_sleep_until(before.at + (uint64_t)(task->interval * (double)NSEC_PER_SEC));
    status = ask_once(fd, task, answer);
    if (status == STATUS_OK)
        rate_fill(answer->report, before.report, answer->at - before.at);
    npud__report__free_unpacked(before.report, NULL);
    return status;
}

enum status ask_npud(const struct task *task)
{
    struct answer answer = {0};
    enum status status;
    int fd = socket_connect(task->path);

    if (fd == -EACCES && !task->named && task->report &&
        task->report->topic == NPUD__ADMIN_REQUEST__TOPIC__WAITS)
        return own_waits_ask(task);
    if (fd < 0)
        return socket_explain_unreachable(task->path, -fd);
    status = ask_once(fd, task, &answer);
    if (status == STATUS_OK && task->report && has_rates(task->report))
        status = ask_rates(fd, task, &answer);
    close(fd);
    if (status != STATUS_OK)
        return status;
    if (!answer.report)
        return answer.rule != 0 ? print_rule(answer.rule, task->json) : STATUS_OK;
    status = print_report(answer.report, task->report, task->json);
    npud__report__free_unpacked(answer.report, NULL);
    return status;
}
