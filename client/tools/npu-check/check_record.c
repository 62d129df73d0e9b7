/* The size of each kind of record, and what of it varies. */
#include "client/tools/npu-check/check_record.h"

static const struct {
    uint16_t size;
    bool text;
    bool learns;
} kinds[CHECK_KINDS] = {
    [CHECK_MODULE] = {sizeof(struct check_module), .text = true},
    [CHECK_PLACE] = {sizeof(struct check_place)},
    [CHECK_SOURCE] = {sizeof(struct check_source), .text = true},
    [CHECK_SESSION_BEGIN] = {sizeof(struct check_record)},
    [CHECK_SESSION_END] = {sizeof(struct check_record), .learns = true},
    [CHECK_STREAM] = {sizeof(struct check_stream)},
    [CHECK_STREAM_GONE] = {sizeof(struct check_stream_gone), .learns = true},
    [CHECK_EVENT] = {sizeof(struct check_event)},
    [CHECK_EVENT_GONE] = {sizeof(struct check_object)},
    [CHECK_NOTIFY] = {sizeof(struct check_notify)},
    [CHECK_NOTIFY_GONE] = {sizeof(struct check_notify)},
    [CHECK_MEMORY] = {sizeof(struct check_memory)},
    [CHECK_MEMORY_GONE] = {sizeof(struct check_memory), .learns = true},
    [CHECK_EXPORT] = {sizeof(struct check_memory)},
    [CHECK_MAP] = {sizeof(struct check_map)},
    [CHECK_UNMAP] = {sizeof(struct check_map), .learns = true},
    [CHECK_REGISTER] = {sizeof(struct check_range)},
    [CHECK_UNREGISTER] = {sizeof(struct check_range)},
    [CHECK_OBJECT] = {sizeof(struct check_object)},
    [CHECK_OBJECT_GONE] = {sizeof(struct check_object)},
    [CHECK_TASK] = {sizeof(struct check_task)},
    [CHECK_ACCESS] = {sizeof(struct check_access)},
    [CHECK_RECORD] = {sizeof(struct check_event_use)},
    [CHECK_RESET] = {sizeof(struct check_event_use)},
    [CHECK_WAIT] = {sizeof(struct check_event_use), .learns = true},
    [CHECK_POOL_ALLOC] = {sizeof(struct check_pool)},
    [CHECK_POOL_FREE] = {sizeof(struct check_pool)},
    [CHECK_SYNC_STREAM] = {sizeof(struct check_sync), .learns = true},
    [CHECK_SYNC_EVENT] = {sizeof(struct check_event_use), .learns = true},
    [CHECK_EMPTY_SYNC] = {sizeof(struct check_event_use), .learns = true},
    [CHECK_CALLBACK_BEGIN] = {sizeof(struct check_callback), .learns = true},
    [CHECK_CALLBACK_END] = {sizeof(struct check_callback)},
    [CHECK_NOTIFY_RESET] = {sizeof(struct check_notify)},
    [CHECK_PUT] = {sizeof(struct check_handover)},
    [CHECK_TAKE] = {sizeof(struct check_handover), .learns = true},
    [CHECK_REFUSED] = {sizeof(struct check_refused)},
    [CHECK_FAILED] = {sizeof(struct check_failed), .learns = true},
    [CHECK_RANGE_BEGIN] = {sizeof(struct check_text), .text = true},
    [CHECK_RANGE_END] = {sizeof(struct check_record)},
    [CHECK_MARK] = {sizeof(struct check_text), .text = true},
    [CHECK_THREAD] = {sizeof(struct check_object)},
    [CHECK_IGNORED] = {sizeof(struct check_failed)},
};

/* What an array at its end needs. */
static size_t find_rest(const struct check_record *r)
{
    const struct check_place *place = (const void *)r;
    const struct check_access *access = (const void *)r;

    if (kinds[r->kind].text)
        return r->length;
    if (r->kind == CHECK_PLACE)
        return place->n <= CHECK_FRAMES ? place->n * sizeof(place->frame[0]) : SIZE_MAX / 2;
    if (r->kind == CHECK_ACCESS)
        return access->n <= CHECK_ACCESSES ? access->n * sizeof(access->use[0]) : SIZE_MAX / 2;
    return 0;
}

bool record_is_sound(const struct check_record *r, size_t room)
{
    size_t size = r->words * (size_t)8;

    return r->kind < CHECK_KINDS && kinds[r->kind].size > 0 && size <= room &&
           size >= kinds[r->kind].size && size - kinds[r->kind].size >= find_rest(r);
}

bool record_learns(uint8_t kind)
{
    return kinds[kind].learns;
}
