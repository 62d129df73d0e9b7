/* For a device that runs code of the host: writes to the memory that it is given. */
#include <stdint.h>

void fill(uint64_t *words);

void fill(uint64_t *words)
{
    for (int i = 0; i < 512; i++)
        words[i] = (uint64_t)i;
}
