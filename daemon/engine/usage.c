/*
 * How busy a device is: bytes that the engine moves take its own time, which it measures anyway
 * between two looks at the clock; a delay goes on while its stream is parked.
 */
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/engine/engine.h"

void engine_begin_work(struct stream *s, uint64_t now)
{
    s->in_work = true;
    busy_meter_begin(&s->attach->device->engine->busy, now);
}

void usage_count_end(struct engine *e, struct stream *s, uint64_t now)
{
    s->in_work = false;
    busy_meter_end(&e->busy, now);
}

void engine_count_work(struct engine *e)
{
    e->did_work = true;
}

uint32_t engine_busy_percent(struct engine *e)
{
    uint32_t percent;

    engine_lock(e);
    percent = busy_meter_percent(&e->busy, clock_ns());
    engine_unlock(e);
    return percent;
}
