#include "client/check/checked.h"

#include <stdatomic.h>
#include <string.h>

#include "client/core/npud_clock.h"

/* A record of a type, with its kind. */
#define RECORD(type, kind_, ...) ((struct type){.r = {.kind = (uint8_t)(kind_)}, __VA_ARGS__})

void checked_text(enum check_kind kind, const char *text)
{
    struct {
        struct check_text head;
        char text[CHECK_TEXT];
    } record = {.head.r.kind = (uint8_t)kind};
    size_t length = strnlen(text, CHECK_TEXT);

    memcpy(record.text, text, length);
    record.head.r.length = (uint16_t)length;
    checked_write(&record.head.r, sizeof(record.head) + length);
}

void checked_task(uint64_t stream, const struct task *task, uint64_t position)
{
    checked_graph_task(stream, task, position, 0, false);
}

void checked_graph_task(uint64_t stream, const struct task *task, uint64_t position, uint32_t calls,
                        bool maybe)
{
    struct check_task record =
        RECORD(check_task, CHECK_TASK, .stream = stream, .calls = calls, .maybe = maybe);

    memcpy(&record.task, task, sizeof(*task));
    atomic_init(&record.task.sequence, position + 1);
    checked_write(&record.r, sizeof(record));
}

void checked_event_use(enum check_kind kind, uint64_t stream, uint64_t event, uint64_t number)
{
    struct check_event_use record =
        RECORD(check_event_use, kind, .stream = stream, .event = event, .number = number);

    checked_write(&record.r, sizeof(record));
}

uint64_t checked_since(void)
{
    return checked_runs() ? npud_clock_ns() : 0;
}

void checked_sync(uint64_t stream, uint64_t since_ns)
{
    struct check_sync record =
        RECORD(check_sync, CHECK_SYNC_STREAM, .stream = stream, .since_ns = since_ns);

    checked_write(&record.r, sizeof(record));
}

void checked_callback(enum check_kind kind, uint64_t stream, uint64_t ordinal)
{
    struct check_callback record =
        RECORD(check_callback, kind, .stream = stream, .ordinal = ordinal);

    checked_write(&record.r, sizeof(record));
}

void checked_notify(enum check_kind kind, uint32_t slot, uint32_t generation, uint64_t identity,
                    bool counts, bool imported)
{
    struct check_notify record =
        RECORD(check_notify, kind, .slot = slot, .generation = generation, .identity = identity,
               .counts = counts, .imported = imported);

    checked_write(&record.r, sizeof(record));
}

void checked_object(enum check_kind kind, enum check_object_type type, uint64_t object)
{
    struct check_object record = RECORD(check_object, kind, .object = object, .type = type);

    checked_write(&record.r, sizeof(record));
}

void checked_range(enum check_kind kind, const void *address, uint64_t size)
{
    struct check_range record =
        RECORD(check_range, kind, .address = (uintptr_t)address, .size = size);

    checked_write(&record.r, sizeof(record));
}

void checked_handover(enum check_kind kind, uint64_t queue, uint64_t buffer)
{
    struct check_handover record = RECORD(check_handover, kind, .queue = queue, .buffer = buffer);

    checked_write(&record.r, sizeof(record));
}

void checked_failure(enum check_kind kind, uint64_t stream, int32_t code)
{
    struct check_failed record = RECORD(check_failed, kind, .stream = stream, .code = code);

    checked_write(&record.r, sizeof(record));
}

void checked_refused(enum check_refusal why, const void *address, uint64_t size, uint64_t start,
                     uint64_t whole)
{
    struct check_refused record =
        RECORD(check_refused, CHECK_REFUSED, .address = (uintptr_t)address, .size = size,
               .start = start, .whole = whole, .why = why);

    checked_write(&record.r, sizeof(record));
}

uint64_t checked_identity(const char *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: keys are random already */

    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return hash | UINT64_C(1) << 63; /* exports that npud numbers have low numbers */
}
