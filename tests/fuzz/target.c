#include "tests/fuzz/snapshot/kept.h"

#include "target.h"

#include "cost.h"
#include "tests/fuzz/snapshot/snapshot.h"
#include "surroundings.h"
#include "world.h"

#define ENDS 16 /* one input in so many comes to the end of its world */
#define TOLD 8  /* one run in so many, libFuzzer is told of compares */

static const struct target *current;
static bool taken;
static unsigned runs;

static bool comes_to_end(const struct input *in)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < in->size; i++)
        hash = (hash ^ in->data[i]) * 16777619u;
    return hash / 65536 % ENDS == 0;
}

static void run_and_put_back(struct input *in)
{
    bool ends = comes_to_end(in);

    snapshot_begin();
    if (!taken) {
        current->set_up();
        snapshot_take();
        taken = true;
    }
    surroundings.on = true;
    compares_tell(runs++ % TOLD == 0);
    current->run(in);
    if (ends) {
        world_end();
        MUST(heap_blocks() == 0); /* LeakSanitizer does not know this heap */
    }
    snapshot_restore();
    surroundings.on = false; /* it was on when the snapshot was taken */
}

static void run_once(struct input *in)
{
    if (snapshot_begin) {
        run_and_put_back(in);
        return;
    }
    current->set_up();
    current->run(in);
    world_end();
}

int target_run(const struct target *target, const uint8_t *data, size_t size)
{
    current = target;
    return cost_judge(run_once, data, size);
}
