/* Records of a run that never was. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/check_script.h"

#define SIZE 4096u

void script_start(struct script *s, uint32_t n, bool host_seen)
{
    memset(s, 0, sizeof(*s));
    s->writers = 8;
    s->world.processes = calloc(n, sizeof(*s->world.processes));
    s->world.n_processes = n;
    for (uint32_t i = 0; i < n; i++)
        s->world.processes[i].ended = true;
    model_init(&s->model, &s->world, &s->findings, host_seen);
}

void script_finish(struct script *s)
{
    for (uint32_t i = 0; i < s->world.n_processes; i++)
        model_end_process(&s->model, i);
    model_end(&s->model);
}

void script_free(struct script *s)
{
    model_deinit(&s->model);
    findings_deinit(&s->findings);
    world_deinit(&s->world);
}

uint32_t script_say(struct script *s, void *record, uint8_t kind, size_t size)
{
    struct check_record *r = record;
    struct model_input in = {
        .process = s->process,
        .writer = s->process * s->writers + s->writer,
        .thread = 100 * s->process + s->writer,
        .place = ++s->place,
        .range = WORLD_NONE,
        .r = r,
    };

    r->kind = kind;
    r->words = (uint8_t)(size / 8);
    r->ns = ++s->ns;
    model_take(&s->model, &in);
    return s->place;
}

#define SAY(s, kind, type, ...)                                                                    \
    script_say(s, &(struct type){__VA_ARGS__}, kind, sizeof(struct type))

uint32_t say_plain(struct script *s, uint8_t kind)
{
    return SAY(s, kind, check_record, .kind = kind);
}

uint32_t say_stream(struct script *s, uint64_t stream)
{
    return SAY(s, CHECK_STREAM, check_stream, .stream = stream, .id = (int32_t)stream);
}

uint32_t say_stream_gone(struct script *s, uint64_t stream, int32_t code)
{
    return SAY(s, CHECK_STREAM_GONE, check_stream_gone, .stream = stream, .code = code);
}

static uint64_t address_of(uint32_t slot)
{
    return (uint64_t)slot << 20;
}

uint32_t say_memory(struct script *s, uint32_t slot, uint64_t identity, bool imported)
{
    return SAY(s, CHECK_MEMORY, check_memory, .name = {slot, 1}, .address = address_of(slot),
               .size = SIZE, .identity = identity, .imported = imported);
}

uint32_t say_memory_gone(struct script *s, uint32_t slot)
{
    return SAY(s, CHECK_MEMORY_GONE, check_memory, .name = {slot, 1}, .size = SIZE);
}

uint32_t say_export(struct script *s, uint32_t slot, uint64_t identity)
{
    return SAY(s, CHECK_EXPORT, check_memory, .name = {slot, 1}, .identity = identity);
}

uint32_t say_map(struct script *s, uint8_t kind, uint32_t slot, uint64_t offset, uint64_t size)
{
    return SAY(s, kind, check_map, .name = {slot, 1}, .offset = offset,
               .address = address_of(slot) + offset, .size = size);
}

static uint32_t say_task(struct script *s, uint64_t stream, const struct task *t)
{
    return SAY(s, CHECK_TASK, check_task, .stream = stream, .task = *t);
}

uint32_t say_set(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset, uint64_t size)
{
    return say_task(s, stream,
                    &(struct task){.op = TASK_SET,
                                   .object = slot,
                                   .generation = 1,
                                   .set = {.offset = offset, .size = size}});
}

uint32_t say_copy(struct script *s, uint64_t stream, uint32_t to, uint32_t from, uint64_t size)
{
    return say_task(s, stream,
                    &(struct task){.op = TASK_COPY,
                                   .object = to,
                                   .generation = 1,
                                   .copy = {.src = from, .src_generation = 1, .size = size}});
}

uint32_t say_access(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset,
                    uint64_t size, uint32_t how)
{
    uint64_t room[(sizeof(struct check_access) + sizeof(struct check_range_use)) / 8] = {0};
    struct check_access *r = (void *)room;

    r->stream = stream;
    r->n = 1;
    r->op = TASK_COPY;
    r->use[0] =
        (struct check_range_use){.name = {slot, 1}, .offset = offset, .size = size, .how = how};
    return script_say(s, r, CHECK_ACCESS, sizeof(room));
}

uint32_t say_event(struct script *s, uint64_t event, uint32_t kind, uint64_t identity)
{
    return SAY(s, CHECK_EVENT, check_event, .event = event, .identity = identity, .kind = kind);
}

uint32_t say_event_use(struct script *s, uint8_t kind, uint64_t stream, uint64_t event,
                       uint64_t number)
{
    return SAY(s, kind, check_event_use, .stream = stream, .event = event, .number = number);
}

uint32_t say_notify(struct script *s, uint32_t slot, uint64_t identity, bool counts)
{
    return SAY(s, CHECK_NOTIFY, check_notify, .slot = slot, .generation = 1, .identity = identity,
               .counts = counts);
}

uint32_t say_notify_kind(struct script *s, uint8_t kind, uint32_t slot)
{
    return SAY(s, kind, check_notify, .slot = slot, .generation = 1);
}

uint32_t say_notify_use(struct script *s, uint64_t stream, uint32_t slot, uint8_t op)
{
    return say_task(s, stream, &(struct task){.op = op, .object = slot, .generation = 1});
}

uint32_t say_count_use(struct script *s, uint64_t stream, uint32_t slot, uint8_t op, uint32_t value,
                       uint8_t mode, bool clear)
{
    return say_task(s, stream,
                    &(struct task){.op = op,
                                   .object = slot,
                                   .generation = 1,
                                   .notify = {.value = value, .mode = mode, .clear = clear}});
}

uint32_t say_value(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset, uint8_t op,
                   uint64_t value, uint8_t condition)
{
    return say_task(s, stream,
                    &(struct task){.op = op,
                                   .flags = condition,
                                   .object = slot,
                                   .generation = 1,
                                   .value = {.offset = offset, .value = value}});
}

uint32_t say_graph_call(struct script *s, uint64_t stream, uint64_t ordinal, uint32_t calls)
{
    return SAY(s, CHECK_TASK, check_task, .stream = stream, .calls = calls, .maybe = 1,
               .task = {.op = TASK_CALLBACK, .callback = {.ordinal = ordinal, .block = true}});
}

uint32_t say_callback(struct script *s, uint64_t stream, uint64_t ordinal, bool block)
{
    return say_task(
        s, stream,
        &(struct task){.op = TASK_CALLBACK, .callback = {.ordinal = ordinal, .block = block}});
}

uint32_t say_called(struct script *s, uint8_t kind, uint64_t stream, uint64_t ordinal)
{
    return SAY(s, kind, check_callback, .stream = stream, .ordinal = ordinal);
}

uint32_t say_pool(struct script *s, uint8_t kind, uint64_t stream, uint32_t slot, uint64_t size)
{
    return SAY(s, kind, check_pool, .stream = stream, .name = {slot, 1},
               .address = address_of(slot), .size = size);
}

uint32_t say_sync_since(struct script *s, uint64_t stream, uint64_t since_ns)
{
    return SAY(s, CHECK_SYNC_STREAM, check_sync, .stream = stream, .since_ns = since_ns);
}

uint32_t say_sync(struct script *s, uint64_t stream)
{
    return say_sync_since(s, stream, s->ns);
}

uint32_t say_handover(struct script *s, uint8_t kind, uint64_t buffer)
{
    return SAY(s, kind, check_handover, .queue = 1, .buffer = buffer);
}

static bool is_at_place(const struct act *a, uint32_t place)
{
    return place == 0 || (a->what != ACT_NONE && a->place == place);
}

const struct finding *script_find(const struct script *s, enum finding_kind kind, uint32_t first,
                                  uint32_t second)
{
    for (size_t i = 0; i < s->findings.n; i++) {
        const struct finding *f = &s->findings.list[i];

        if (f->kind == kind && is_at_place(&f->first, first) && is_at_place(&f->second, second))
            return f;
    }
    return NULL;
}
