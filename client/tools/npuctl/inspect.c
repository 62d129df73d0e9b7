#include "client/tools/npuctl/inspect.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/print.h"

enum section_name {
    SECTION_SESSION,
    SECTION_STREAMS,
    SECTION_MEMORY,
    SECTION_GRANTS,
    SECTION_SHARED,
    SECTION_DEVICES,
    SECTION_WAITS,
    SECTION_WAITED_FOR,
    SECTION_EVENTS,
    SECTION_NOTIFIES,
    SECTION_POOLS,
    SECTION_QUEUES,
    SECTION_ROUTES,
    SECTION_EXECUTORS,
    SECTION_RULES,
    SECTION_LIMITS,
    SECTIONS,
};

struct inspected {
    uint64_t id;
    const Npud__SessionRow *session;
    Npud__Report *report[SECTIONS]; /* what is left of each is about the session */
};

/* --- which rows are about it --- */

typedef bool keeps_fn(const struct inspected *in, const void *row);

/* Rows that name the session, by the member of that name. */
#define BY_SESSION(name, Row, member)                                                              \
    static bool keeps_##name(const struct inspected *in, const void *row)                          \
    {                                                                                              \
        return ((const Row *)row)->member == in->id;                                               \
    }
BY_SESSION(session, Npud__SessionRow, session)
BY_SESSION(stream, Npud__StreamRow, session)
BY_SESSION(memory, Npud__MemoryRow, session)
BY_SESSION(grant, Npud__GrantRow, session)
BY_SESSION(wait, Npud__WaitRow, session)
BY_SESSION(waited_for, Npud__WaitRow, blocker_session)
BY_SESSION(event, Npud__EventRow, session)
BY_SESSION(notify, Npud__NotifyRow, session)
BY_SESSION(pool, Npud__PoolRow, session)
BY_SESSION(executor, Npud__ExecutorRow, session)
BY_SESSION(rule, Npud__RuleRow, session)

/* Memory of others that has the same pages as some of its own. */
static bool keeps_shared(const struct inspected *in, const void *row)
{
    const Npud__MemoryRow *other = row;
    const Npud__Report *own = in->report[SECTION_MEMORY];

    for (size_t i = 0; other->pages != 0 && other->session != in->id && i < own->n_memory; i++)
        if (own->memory[i]->pages == other->pages)
            return true;
    return false;
}

static bool keeps_device(const struct inspected *in, const void *row)
{
    uint32_t device = ((const Npud__DeviceRow *)row)->device;
    const Npud__Report *streams = in->report[SECTION_STREAMS], *own = in->report[SECTION_MEMORY];

    for (size_t i = 0; i < streams->n_streams; i++)
        if (streams->streams[i]->device == device)
            return true;
    for (size_t i = 0; i < own->n_memory; i++)
        if (own->memory[i]->device == device && strcmp(own->memory[i]->kind, "host") != 0)
            return true;
    return false;
}

static bool keeps_queue(const struct inspected *in, const void *row)
{
    const Npud__Report *grants = in->report[SECTION_GRANTS];

    for (size_t i = 0; i < grants->n_grants; i++)
        if (grants->grants[i]->number == ((const Npud__QueueRow *)row)->number)
            return true;
    return false;
}

static bool keeps_route(const struct inspected *in, const void *row)
{
    return ((const Npud__RouteRow *)row)->pid == in->session->pid;
}

/* Those of its user, or of its job. */
static bool keeps_limit(const struct inspected *in, const void *row)
{
    const Npud__LimitRow *limit = row;

    return limit->job[0] ? strcmp(limit->job, in->session->job) == 0
                         : limit->uid == in->session->uid;
}

/*
 * In the order in which they are asked for: later ones look at those before. The keys of the JSON
 * are the names of the lists, or what stands in their place.
 */
static const struct section {
    const char *list, *key, *heading;
    size_t n, rows; /* where the list is in a report */
    Npud__AdminRequest__Topic topic;
    keeps_fn *keeps;
} sections[SECTIONS] = {
#define SECTION(list, key, heading, TOPIC, keeps)                                                  \
    {                                                                                              \
#list, key, heading, offsetof(Npud__Report, n_##list), offsetof(Npud__Report, list),       \
            NPUD__ADMIN_REQUEST__TOPIC__##TOPIC, keeps                                             \
    }
    [SECTION_SESSION] = SECTION(sessions, "session", "session", SESSIONS, keeps_session),
    [SECTION_STREAMS] = SECTION(streams, "streams", "streams", STREAMS, keeps_stream),
    [SECTION_MEMORY] = SECTION(memory, "memory", "memory", MEMORY, keeps_memory),
    [SECTION_GRANTS] = SECTION(grants, "grants", "rights to queues", GRANTS, keeps_grant),
    [SECTION_SHARED] =
        SECTION(memory, "shared_with", "who shares its memory", MEMORY, keeps_shared),
    [SECTION_DEVICES] = SECTION(devices, "devices", "devices", DEVICES, keeps_device),
    [SECTION_WAITS] = SECTION(waits, "waits", "waits", WAITS, keeps_wait),
    [SECTION_WAITED_FOR] =
        SECTION(waits, "waited_for", "what waits for it", WAITS, keeps_waited_for),
    [SECTION_EVENTS] = SECTION(events, "events", "events", EVENTS, keeps_event),
    [SECTION_NOTIFIES] = SECTION(notifies, "notifies", "notifies", NOTIFIES, keeps_notify),
    [SECTION_POOLS] = SECTION(pools, "pools", "pools of buffers", POOLS, keeps_pool),
    [SECTION_QUEUES] = SECTION(queues, "queues", "queues", QUEUES, keeps_queue),
    [SECTION_ROUTES] = SECTION(routes, "routes", "routes that it has bound", ROUTES, keeps_route),
    [SECTION_EXECUTORS] =
        SECTION(executors, "executors", "executors of its own", EXECUTORS, keeps_executor),
    [SECTION_RULES] = SECTION(rules, "rules", "rules of fault injection", RULES, keeps_rule),
    [SECTION_LIMITS] = SECTION(limits, "limits", "limits of its user", LIMITS, keeps_limit),
#undef SECTION
};

/* Frees the other rows. */
static void filter(struct inspected *in, const struct section *section, Npud__Report *report)
{
    size_t *n = (size_t *)((char *)report + section->n), kept = 0;
    ProtobufCMessage **row = *(ProtobufCMessage ***)((char *)report + section->rows);

    for (size_t i = 0; i < *n; i++) {
        if (section->keeps(in, row[i]))
            row[kept++] = row[i];
        else
            protobuf_c_message_free_unpacked(row[i], NULL);
    }
    *n = kept;
}

/* --- printing --- */

static bool print_sections(const struct inspected *in)
{
    bool ok = true;

    for (size_t i = 0; ok && i < SECTIONS; i++) {
        const struct section *section = &sections[i];

        if (*(const size_t *)((const char *)in->report[i] + section->n) == 0)
            continue;
        if (i > 0)
            puts("");
        ok = print_section(in->report[i], section->list, section->heading, i == SECTION_SESSION);
    }
    return ok;
}

static bool print_json(const struct inspected *in)
{
    cJSON *document = cJSON_CreateObject();
    cJSON *all = cJSON_AddObjectToObject(document, "inspect");
    bool ok = all != NULL;

    for (size_t i = 0; ok && i < SECTIONS; i++)
        ok = print_add_section(all, sections[i].key, in->report[i], sections[i].list,
                               i == SECTION_SESSION);
    if (ok)
        return print_document(document);
    cJSON_Delete(document);
    return false;
}

/* --- all of it --- */

static enum status ask_section(struct inspected *in, struct connection *c, size_t i)
{
    const struct question question = {sections[i].topic, &in->report[i]};
    enum status status = ask_reports(c, &question, 1);

    if (status != STATUS_OK)
        return status;
    filter(in, &sections[i], in->report[i]);
    if (i != SECTION_SESSION)
        return STATUS_OK;
    if (in->report[i]->n_sessions == 0) {
        fprintf(stderr, "npuctl: there is no session %" PRIu64 ": npuctl sessions lists them\n",
                in->id);
        return STATUS_ERROR;
    }
    in->session = in->report[i]->sessions[0];
    return STATUS_OK;
}

enum status inspect_run(const struct task *task)
{
    struct inspected in = {.id = task->session};
    struct connection c = {.path = task->path, .limit = ANSWER_LIMIT_S};
    int r = connection_open(&c);
    enum status status = STATUS_OK;

    if (r < 0)
        return socket_explain_unreachable(task->path, -r);
    for (size_t i = 0; status == STATUS_OK && i < SECTIONS; i++)
        status = ask_section(&in, &c, i);
    connection_close(&c);
    setlocale(LC_CTYPE, task->json ? "C.UTF-8" : "");
    if (status == STATUS_OK)
        status = print_end(task->json ? print_json(&in) : print_sections(&in));
    for (size_t i = 0; i < SECTIONS; i++)
        npud__report__free_unpacked(in.report[i], NULL);
    return status;
}
