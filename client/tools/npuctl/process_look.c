#include "client/tools/npuctl/process_look.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/util/proc_stat.h"

#define LOOKS       5
#define LOOKS_BUSY  3 /* so many of them see a process that computes */
#define APART_NS    (4 * NSEC_PER_MSEC)
#define THREADS_MAX 1024 /* that are looked at: a hostile peer may have any number */

/* The letter of the thread's state; 0: there is none. */
static char read_letter(pid_t pid, const char *tid)
{
    char path[64], text[256];
    const char *state;

    snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, tid);
    state = proc_stat_read(path, text, sizeof(text));
    return state ? *state : 0;
}

static enum process_state state_of_letter(char letter)
{
    switch (letter) {
    case 'T':
        return PROCESS_STOPPED;
    case 't':
        return PROCESS_TRACED;
    case 'R':
    case 'D':
        return PROCESS_COMPUTES;
    case 0:
    case 'X':
    case 'Z':
        return PROCESS_HIDDEN;
    default:
        return PROCESS_SLEEPS;
    }
}

/* What most says why it does not go on. A main thread that has ended is a zombie beside others. */
static enum process_state look_once(pid_t pid)
{
    char path[32];
    enum process_state state = PROCESS_HIDDEN;
    unsigned n = 0;
    const struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir && n++ < THREADS_MAX && (entry = readdir(dir))) {
        enum process_state now;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        now = state_of_letter(read_letter(pid, entry->d_name));
        if (now != PROCESS_HIDDEN && (state == PROCESS_HIDDEN || now > state))
            state = now;
    }
    if (dir)
        closedir(dir);
    return state;
}

enum process_state process_look(pid_t pid)
{
    enum process_state state = PROCESS_SLEEPS;
    uint64_t next = clock_ns();
    unsigned busy = 0;

    for (unsigned i = 0; i < LOOKS; i++) {
        state = look_once(pid);
        if (state >= PROCESS_STOPPED)
            return state;
        busy += state == PROCESS_COMPUTES;
        if (i + 1 < LOOKS)
            clock_sleep_until(next += APART_NS);
    }
    return busy >= LOOKS_BUSY ? PROCESS_COMPUTES : PROCESS_SLEEPS;
}

bool process_is_own(pid_t pid)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return stat(path, &st) == 0 && st.st_uid == getuid();
}

void process_name(pid_t pid, char *name, size_t size)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    f = fopen(path, "re");
    if (!f || !fgets(name, (int)size, f))
        name[0] = '\0';
    if (f)
        fclose(f);
    name[strcspn(name, "\n")] = '\0';
}
