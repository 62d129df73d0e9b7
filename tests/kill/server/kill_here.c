/* Linked into the test build of npud, and into nothing else. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/util/kill_point.h"
#include "tests/kill/server/kill_here_switch.h"

static struct kill_here_switch *kill_switch; /* NULL: no place does anything */

/* Before main(): the places are passed by several threads. */
__attribute__((constructor)) static void find_switch(void)
{
    const char *path = getenv("NPUD_KILL_HERE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = MAP_FAILED;

    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(*kill_switch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        kill_switch = map;
}

static _Noreturn void end_itself(void)
{
    int signal = (int)atomic_load(&kill_switch->signal);

    if (signal != 0)
        raise(signal);
    else
        kill(getpid(), SIGKILL);
    for (;;)
        pause(); /* the signal is on its way to all threads */
}

void kill_here(enum kill_place place)
{
    struct kill_here_switch *s = kill_switch;
    uint32_t pass;

    if (!s || !atomic_load(&s->on))
        return;
    atomic_fetch_add(&s->hits[place], 1);
    if (atomic_load(&s->after) == (uint32_t)place + 1 && atomic_exchange(&s->after_died, 1) == 0)
        end_itself();
    if (atomic_load(&s->place) != (uint32_t)place + 1 ||
        (atomic_load(&s->after) != 0 && atomic_load(&s->after_died) == 0))
        return;
    pass = atomic_fetch_add(&s->passes, 1) + 1;
    if (pass != atomic_load(&s->pass) && pass != atomic_load(&s->pass) + atomic_load(&s->again))
        return;
    atomic_fetch_add(&s->died, 1);
    end_itself();
}

/* Those of clients, which npud passes where it does the same. */
void kill_point(enum kill_point point)
{
    (void)point;
}
