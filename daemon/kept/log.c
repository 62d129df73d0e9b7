#include "daemon/kept/log.h"

#include <assert.h>
#include <string.h>

#include "daemon/base/kill_here.h"
#include "daemon/kept/kept.h"

struct log_entry *log_add(struct log *log, enum log_entry_kind kind, uint64_t where, size_t bytes)
{
    struct log_entry *entry = (struct log_entry *)(log->at + log->used);

    assert(bytes % 8 == 0 && log->used + sizeof(*entry) + bytes <= log->room);
    entry->kind = kind;
    entry->bytes = (uint32_t)bytes;
    entry->where = where;
    log->used += sizeof(*entry) + bytes;
    return entry;
}

void log_trim(struct log *log, struct log_entry *last, size_t bytes)
{
    assert(bytes % 8 == 0 && bytes <= last->bytes);
    log->used -= last->bytes - bytes;
    last->bytes = (uint32_t)bytes;
}

const struct log_entry *log_next(const struct log *log, size_t *at)
{
    const struct log_entry *entry = (const struct log_entry *)(log->at + *at);

    if (*at >= log->used)
        return NULL;
    *at += sizeof(*entry) + entry->bytes;
    return entry;
}

static void carry_out(const struct log *log, unsigned char *base)
{
    const struct log_entry *entry;

    for (size_t at = 0; (entry = log_next(log, &at));) {
        if (entry->kind == LOG_WRITE)
            memcpy(base + entry->where, entry->data, entry->bytes);
        else if (entry->kind == LOG_FREE)
            atomic_store_explicit(&((struct kept_cell *)(base + entry->where))->is, 0,
                                  memory_order_relaxed);
        KILL_HERE(KEPT_APPLY);
    }
}

void log_commit(struct log *log, unsigned char *base)
{
    KILL_HERE(KEPT_COMMIT);
    kept_order();
    atomic_store_explicit(&log->head->committed, log->used, memory_order_relaxed);
    kept_order();
    KILL_HERE(KEPT_COMMITTED);
    carry_out(log, base);
    kept_order();
    atomic_store_explicit(&log->head->committed, 0, memory_order_relaxed);
    kept_order();
    KILL_HERE(KEPT_APPLIED);
}

void log_begin(struct log *log)
{
    log->used = 0;
}

static bool is_sound(const struct log *log)
{
    const struct log_entry *entry;
    size_t at = 0;

    while (at + sizeof(*entry) <= log->used && (entry = log_next(log, &at))) {
        if (entry->kind > LOG_KEY || at > log->used)
            return false;
        if (entry->kind != LOG_KEY &&
            (entry->where % 8 != 0 || entry->where > KEPT_BYTES - entry->bytes - CELL_HEAD))
            return false;
    }
    return at == log->used;
}

bool log_recover(struct log *log, unsigned char *base)
{
    log->used = atomic_load_explicit(&log->head->committed, memory_order_relaxed);
    if (log->used > log->room || !is_sound(log))
        return false;
    carry_out(log, base);
    return true;
}
