/* Linked into the test build of the library, and into nothing else. */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "tests/kill/kill_switch.h"

__attribute__((visibility("default"))) struct kill_switch *aclnpudKillSwitch;

void kill_point(enum kill_point point)
{
    struct kill_switch *s = aclnpudKillSwitch;
    uint32_t pass;

    if (!s || !atomic_load(&s->on))
        return;
    pass = atomic_fetch_add(&s->hits[point], 1) + 1;
    if (atomic_load(&s->point) == (uint32_t)point + 1 && atomic_load(&s->pass) == pass) {
        if (atomic_load(&s->stops)) {
            raise(SIGSTOP);
            return;
        }
        kill(getpid(), SIGKILL);
        for (;;)
            pause(); /* the signal is on its way to all threads */
    }
}
