/* Devices: one NPU each, with its memory account, its stream ids and its engine. Control thread,
 * unless said otherwise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/backend.h"
#include "daemon/kept/device_record.h"
#include "daemon/kept/kept.h"
#include "proto/shm/doorbell.h"
#include "proto/util/slots.h"

#define DEVICE_STREAMS_MAX  (1u << 18)
#define DEVICE_NOTIFIES_MAX (1u << 16)

struct engine;
struct inject;
struct trace_ring;
struct config;
struct server;

struct device {
    uint32_t index;
    const struct backend *backend;
    void *backend_state;
    struct backend_device_info info;
    /* of this device of this host, whichever npud runs it, and after every reboot */
    uint8_t uuid[16];
    uint64_t memory_used;
    uint32_t sessions; /* that opened it */
    /* What programs know objects of the device by: slots that are nothing but their number. */
    struct slots stream_ids;
    struct slots notify_ids;
    struct engine *engine;
    struct inject
        *inject; /* rules that may be for its tasks; NULL: none. Under the engine's lock */
    struct trace_ring *trace; /* where the engine writes; NULL: no trace runs. Under its lock */
    uint64_t traced_from;     /* CLOCK_MONOTONIC: when that trace began */
    uint64_t shuffle;         /* engine/shuffle.h: the seed; 0: none. Constant */
    bool detour; /* one of them is there: tasks do not run straight on. Under the engine's lock */
    _Atomic int32_t lost;  /* 0, or what its tasks fail with. Written under the engine's lock */
    _Atomic uint64_t loss; /* which one, of all of this host: number of the rule; stored before */
    struct kept kept;
    struct device_kept *live; /* its live part */
};

struct devices {
    const struct backend *backend;
    void *backend_state;
    uint32_t n;
    struct device device[DEVICES_MAX];
    uint64_t epoch_ns;
};

/** Is there what devices_init() needs of the configuration? 0 or -EINVAL after logging. */
int devices_check(const struct config *config);

/** Open the backend and make an engine per device. 0 or a negative errno after logging. */
int devices_init(struct devices *devices, struct server *server);
/** Start the engines: what has been restored goes on. 0 or a negative errno after logging. */
int devices_start(struct devices *devices);
/** Recovery: all is there again that works with devices. */
void devices_finish_restoring(struct server *server);
/** Stop the engines and close the backend. No session may be left. */
void devices_deinit(struct devices *devices);

/**
 * Its rules or its trace have changed: how its tasks run, and, unless it is lost, what clients make
 * tasks of. Under the engine's lock.
 */
void device_renew_mode(struct device *device);

/** Device index, or NULL when there is none. */
struct device *devices_get(struct devices *devices, uint32_t index);
