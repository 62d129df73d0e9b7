/*
 * The control path: sessions come, ask for anything in any order, and go; engines run now and then.
 */
#include "cost.h"
#include "world.h"

static void run_input(struct input *in)
{
    world_begin(take_u8(in));
    while (in->size > 0)
        world_act(in);
    world_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return cost_judge(run_input, data, size);
}
