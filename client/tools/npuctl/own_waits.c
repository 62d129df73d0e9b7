#include "client/tools/npuctl/own_waits.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "proto/util/clock.h"

/* On STATUS_OK *report is there, or npud is to be asked again after *again_ms, which is not 0. */
static enum status read_answer(const Npud__Reply *reply, const struct packet *packet,
                               Npud__Report **report, uint32_t *again_ms)
{
    if (reply->body_case != NPUD__REPLY__BODY_OWN_WAITS)
        return socket_explain_refusal(reply->message, reply->error);
    *again_ms = reply->own_waits->again_ms;
    return *again_ms == 0 ? socket_read_report(packet, reply->own_waits->size, report) : STATUS_OK;
}

static enum status ask_once(int fd, const char *path, Npud__Report **report, uint32_t *again_ms)
{
    static struct packet packet;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OwnWaits own_waits = NPUD__OWN_WAITS__INIT;
    Npud__Reply *reply = NULL;
    enum status status;
    int error;

    request.id = 1;
    request.body_case = NPUD__REQUEST__BODY_OWN_WAITS;
    request.own_waits = &own_waits;
    error = socket_exchange(fd, &request.base, &packet);
    if (error == 0)
        reply = npud__reply__unpack(NULL, packet.size, packet.data);
    status = reply ? read_answer(reply, &packet, report, again_ms)
                   : socket_explain_silence(path, error ? error : -EPROTO);
    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    packet_deinit(&packet);
    return status;
}

enum status own_waits_ask(const struct task *task)
{
    static bool told;
    const char *path = socket_find("NPUD_SOCKET", NPUD_SOCKET_DEFAULT);
    Npud__Report *report = NULL;
    uint32_t again_ms = 0;
    enum status status;
    int fd = socket_connect(path);

    if (fd < 0)
        return socket_explain_unreachable(task->path, EACCES);
    do {
        clock_sleep_until(clock_ns() + again_ms * NSEC_PER_MSEC);
        status = ask_once(fd, path, &report, &again_ms);
    } while (status == STATUS_OK && !report);
    close(fd);
    if (status != STATUS_OK)
        return status;
    if (!told)
        fprintf(stderr,
                "npuctl: %s is for administrators: these are the waits of your own processes\n",
                task->path);
    told = true;
    status = print_report(report, task->report, task->json);
    npud__report__free_unpacked(report, NULL);
    return status;
}
