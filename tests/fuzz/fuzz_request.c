/*
 * The control path: sessions come, ask for anything in any order, and go; engines run now and then.
 */
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    world_begin(take_u8(&in));
    while (in.size > 0)
        world_act(&in);
    world_end();
    return 0;
}
