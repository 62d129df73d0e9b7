/*
 * A run as its processes would have written it down, told to the model of npu-check: one call for
 * each record. Every record has a place of its own, which the call returns, and comes later than
 * those before.
 */
#pragma once

#include "client/tools/npu-check/checker.h"
#include "client/tools/npu-check/model.h"

struct script {
    struct world world;
    struct findings findings;
    struct model model;
    uint64_t ns;
    uint32_t place;   /* of the latest record */
    uint32_t process; /* that the next records are of */
    uint32_t writer;  /* likewise */
    uint32_t writers; /* that each process has */
};

/** Processes 0 .. n - 1, which end by exit(3). The next records are of process 0, writer 0. */
void script_start(struct script *s, uint32_t n, bool host_seen);
/** No more records come. */
void script_finish(struct script *s);
void script_free(struct script *s);

/** Any record: its place and time are set here. */
uint32_t script_say(struct script *s, void *record, uint8_t kind, size_t size);

uint32_t say_plain(struct script *s, uint8_t kind);
uint32_t say_stream(struct script *s, uint64_t stream);
uint32_t say_stream_gone(struct script *s, uint64_t stream, int32_t code);
/** Device memory, of 4,096 bytes. */
uint32_t say_memory(struct script *s, uint32_t slot, uint64_t identity, bool imported);
uint32_t say_memory_gone(struct script *s, uint32_t slot);
uint32_t say_export(struct script *s, uint32_t slot, uint64_t identity);
uint32_t say_map(struct script *s, uint8_t kind, uint32_t slot, uint64_t offset, uint64_t size);
uint32_t say_set(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset, uint64_t size);
uint32_t say_copy(struct script *s, uint64_t stream, uint32_t to, uint32_t from, uint64_t size);
/** Stream 0: the thread does it. `how`: enum check_how. */
uint32_t say_access(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset,
                    uint64_t size, uint32_t how);
uint32_t say_event(struct script *s, uint64_t event, uint32_t kind, uint64_t identity);
/** kind: CHECK_RECORD, CHECK_RESET, CHECK_WAIT, CHECK_SYNC_EVENT, CHECK_EMPTY_SYNC. */
uint32_t say_event_use(struct script *s, uint8_t kind, uint64_t stream, uint64_t event,
                       uint64_t number);
uint32_t say_notify(struct script *s, uint32_t slot, uint64_t identity, bool counts);
/** CHECK_NOTIFY_GONE, CHECK_NOTIFY_RESET. */
uint32_t say_notify_kind(struct script *s, uint8_t kind, uint32_t slot);
/** TASK_NOTIFY_RECORD, TASK_NOTIFY_WAIT. */
uint32_t say_notify_use(struct script *s, uint64_t stream, uint32_t slot, uint8_t op);
/** TASK_COUNT_RECORD, TASK_COUNT_WAIT. */
uint32_t say_count_use(struct script *s, uint64_t stream, uint32_t slot, uint8_t op, uint32_t value,
                       uint8_t mode, bool clear);
/** TASK_VALUE_WRITE, TASK_VALUE_WAIT. */
uint32_t say_value(struct script *s, uint64_t stream, uint32_t slot, uint64_t offset, uint8_t op,
                   uint64_t value, uint8_t condition);
uint32_t say_callback(struct script *s, uint64_t stream, uint64_t ordinal, bool block);
/** Of a graph that has so many. */
uint32_t say_graph_call(struct script *s, uint64_t stream, uint64_t ordinal, uint32_t calls);
/** CHECK_CALLBACK_BEGIN, CHECK_CALLBACK_END. */
uint32_t say_called(struct script *s, uint8_t kind, uint64_t stream, uint64_t ordinal);
uint32_t say_pool(struct script *s, uint8_t kind, uint64_t stream, uint32_t slot, uint64_t size);
/** Of all that the stream was given until that time. */
uint32_t say_sync_since(struct script *s, uint64_t stream, uint64_t since_ns);
uint32_t say_sync(struct script *s, uint64_t stream);
uint32_t say_handover(struct script *s, uint8_t kind, uint64_t buffer);

/** NULL: there is none. A place 0: any. */
const struct finding *script_find(const struct script *s, enum finding_kind kind, uint32_t first,
                                  uint32_t second);
