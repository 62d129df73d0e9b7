#include "daemon/core/device.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>
#include <systemd/sd-id128.h>

#include "daemon/base/config.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"
#include "daemon/base/log.h"
#include "proto/util/clock.h"
#include "proto/shm/doorbell.h"

/* What is hashed into every UUID, the last byte being that of the device. Random. */
#define UUID_BASE SD_ID128_MAKE(1d, 0b, 5e, c7, 6a, 43, 4f, 0e, 9c, 12, 70, e8, 3d, b4, 95, 00)

/*
 * From the machine's id, by a keyed hash, so that it does not give that away. A machine without one
 * (some containers) has its name, and its UUIDs are as unique as that.
 */
static void make_uuid(struct device *d)
{
    sd_id128_t id = UUID_BASE, uuid;
    struct utsname names;
    uint64_t half[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    id.bytes[15] = (uint8_t)d->index;
    if (sd_id128_get_machine_app_specific(id, &uuid) >= 0) {
        memcpy(d->uuid, uuid.bytes, sizeof(d->uuid));
        return;
    }
    uname(&names);
    for (unsigned i = 0; i < 2 * sizeof(names.nodename); i++) { /* FNV-1a, twice over */
        half[0] = (half[0] ^ (uint8_t)names.nodename[i / 2]) * UINT64_C(0x100000001b3);
        half[1] = (half[1] ^ half[0] >> 32 ^ id.bytes[i % 16]) * UINT64_C(0x100000001b3);
    }
    memcpy(d->uuid, half, sizeof(d->uuid));
    d->uuid[6] = (d->uuid[6] & 0x0f) | 0x40; /* shaped like a random one, as the others are */
    d->uuid[8] = (d->uuid[8] & 0x3f) | 0x80;
}

static size_t write_device(const struct kept *kept, void *record)
{
    const struct device *d =
        (const struct device *)((const char *)kept - offsetof(struct device, kept));

    *(struct device_record *)record = (struct device_record){.index = d->index};
    return sizeof(struct device_record);
}

#define RECORD_BYTES (sizeof(struct device_record) + sizeof(struct device_kept))

static void use_record(struct device *d)
{
    d->live = (struct device_kept *)(void *)((unsigned char *)kept_record(&d->kept) +
                                             sizeof(struct device_record));
}

static bool make_record(struct device *d)
{
    if (!kept_make(&d->kept, KEPT_DEVICE, RECORD_BYTES, write_device))
        return false;
    use_record(d);
    return true;
}

bool device_restore(struct server *server, struct kept_cell *cell)
{
    struct device_record r;
    struct device *d;

    kept_read(cell, &r, sizeof(r));
    d = devices_get(server->devices, (uint32_t)r.index);
    if (!d)
        return false;
    kept_drop(&d->kept);
    if (!kept_bind(&d->kept, cell, RECORD_BYTES, write_device))
        return false;
    use_record(d);
    return true;
}

static bool is_executor(const char *text)
{
    return !text[0] || strcmp(text, "session") == 0 || strcmp(text, "user") == 0;
}

/* The group root would be no less than root for many files. */
static bool is_group(const char *name)
{
    const struct group *g = name[0] ? getgrnam(name) : NULL;

    return !name[0] || (g && g->gr_gid != 0);
}

int devices_check(const struct config *config)
{
    if (!backend_find(config->backend))
        log_error("there is no backend \"%s\" (have: sim, acl and cuda)", config->backend);
    else if (!is_executor(config->vendor_executor))
        log_error("vendor.executor is \"%s\", and must be session or user",
                  config->vendor_executor);
    else if (!is_group(config->vendor_group))
        log_error("vendor.group is \"%s\": there is no such group, or it is root's",
                  config->vendor_group);
    else if (uid_range_is_free(&config->vendor_uids))
        return 0;
    return -EINVAL;
}

int devices_init(struct devices *ds, struct server *server)
{
    const struct config *config = server->config;
    int n = devices_check(config);

    if (n < 0)
        return n;
    ds->backend = backend_find(config->backend);
    n = ds->backend->open(server, &ds->backend_state);
    if (n < 0) {
        log_error("the backend \"%s\" does not open: %s", config->backend, strerror(-n));
        return n;
    }
    ds->epoch_ns = clock_ns();
    for (ds->n = 0; ds->n < (uint32_t)n && ds->n < DEVICES_MAX; ds->n++) {
        struct device *d = &ds->device[ds->n];

        *d = (struct device){
            .index = ds->n,
            .backend = ds->backend,
            .backend_state = ds->backend_state,
            .shuffle = config->shuffle,
        };
        ds->backend->device_info(ds->backend_state, d->index, &d->info);
        make_uuid(d);
        slots_init(&d->stream_ids, sizeof(struct slot), DEVICE_STREAMS_MAX, 0);
        slots_init(&d->notify_ids, sizeof(struct slot), DEVICE_NOTIFIES_MAX, 0);
        d->engine = engine_new(d, config->spin_us * NSEC_PER_USEC);
        if (!d->engine || !make_record(d)) {
            log_error("device %u: no memory or descriptors for it", d->index);
            return -ENOMEM;
        }
        device_renew_mode(d);
    }
    return 0;
}

int devices_start(struct devices *ds)
{
    int r = 0;

    for (uint32_t i = 0; i < ds->n && r == 0; i++)
        r = engine_start(ds->device[i].engine);
    return r;
}

void devices_finish_restoring(struct server *server)
{
    const struct devices *ds = server->devices;

    if (ds->backend->restored)
        ds->backend->restored(ds->backend_state);
}

void devices_deinit(struct devices *ds)
{
    for (uint32_t i = 0; i < ds->n; i++) {
        assert(ds->device[i].sessions == 0 && ds->device[i].memory_used == 0);
        engine_free(ds->device[i].engine);
        kept_drop(&ds->device[i].kept);
        slots_deinit(&ds->device[i].stream_ids);
        slots_deinit(&ds->device[i].notify_ids);
    }
    ds->n = 0; /* what the backend has left takes nothing from engines */
    if (ds->backend)
        ds->backend->close(ds->backend_state);
}

void device_renew_mode(struct device *d)
{
    d->detour = d->inject || d->trace || d->shuffle != 0;
    if (atomic_load(&d->lost) == 0)
        engine_set_mode(d->engine, d->detour ? DOORBELL_STRICT : DOORBELL_FREE);
}

struct device *devices_get(struct devices *ds, uint32_t index)
{
    return index < ds->n ? &ds->device[index] : NULL;
}
