#include "daemon/engine/detour.h"

#include "daemon/core/device.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/execute.h"
#include "daemon/engine/inject.h"
#include "daemon/engine/shuffle.h"
#include "daemon/engine/trace_note.h"

enum run_result detour_execute(struct stream *s, uint64_t now)
{
    const struct device *d = s->attach->device;
    enum run_result r;

    if (d->shuffle != 0 && shuffle_holds(s, now))
        return RUN_WAITS;
    if (d->trace)
        trace_note_begin(s);
    r = d->inject && task_is_new(s) ? inject_execute(s, now) : execute_task(s, now);
    if (d->trace)
        trace_note_result(s, r);
    return r;
}
