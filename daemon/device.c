#include "daemon/device.h"

#include <errno.h>

#include "daemon/config.h"
#include "daemon/engine.h"
#include "daemon/log.h"
#include "daemon/stream.h"
#include "proto/clock.h"
#include "proto/doorbell.h"

#define DEVICE_STREAMS_MAX (1u << 18)

int devices_init(struct devices *ds, const struct config *config)
{
    int n;

    ds->backend = backend_find(config->backend);
    if (!ds->backend) {
        log_error("there is no backend \"%s\" (have: sim)", config->backend);
        return -EINVAL;
    }
    n = ds->backend->open(config, &ds->backend_state);
    if (n < 0)
        return n;
    ds->epoch_ns = clock_ns();
    for (ds->n = 0; ds->n < (uint32_t)n && ds->n < DEVICES_MAX; ds->n++) {
        struct device *d = &ds->device[ds->n];

        *d = (struct device){
            .index = ds->n, .backend = ds->backend, .backend_state = ds->backend_state};
        ds->backend->device_info(ds->backend_state, d->index, &d->info);
        slots_init(&d->stream_ids, sizeof(struct stream_id), DEVICE_STREAMS_MAX, 0);
        d->engine = engine_new(d, config->spin_us * NSEC_PER_USEC);
        if (!d->engine)
            return -ENOMEM;
    }
    return 0;
}

void devices_deinit(struct devices *ds)
{
    for (uint32_t i = 0; i < ds->n; i++) {
        engine_free(ds->device[i].engine);
        slots_deinit(&ds->device[i].stream_ids);
    }
    if (ds->backend)
        ds->backend->close(ds->backend_state);
    ds->n = 0;
}

struct device *devices_get(struct devices *ds, uint32_t index)
{
    return index < ds->n ? &ds->device[index] : NULL;
}
