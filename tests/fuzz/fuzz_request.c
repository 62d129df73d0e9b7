/*
 * The control path: sessions come, ask for anything in any order, and go; engines run now and then.
 */
#include "target.h"
#include "world.h"

static void run_input(struct input *in)
{
    world_set_flags(take_u8(in));
    while (in->size > 0)
        world_act(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct target target = {world_begin, run_input};

    return target_run(&target, data, size);
}
