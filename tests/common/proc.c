#include "tests/common/proc.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/util/proc_stat.h"

/*
 * Add up the numbers after `key` in a file of lines "key number ...". What is "%llu", or skips
 * numbers before the one that counts.
 */
static uint64_t sum_of(const char *path, const char *key, const char *what)
{
    char line[256];
    unsigned long long n;
    uint64_t sum = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), what, &n) == 1)
            sum += n;
    fclose(f);
    return sum;
}

static unsigned count_lines(const char *path)
{
    FILE *f = fopen(path, "re");
    unsigned n = 0;
    int c;

    if (!f)
        return 0;
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

unsigned proc_fds(pid_t pid, const char *what)
{
    char path[64], link[128];
    struct dirent *d;
    unsigned n = 0;
    ssize_t length;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (!dir)
        return 0;
    while ((d = readdir(dir))) {
        length = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);
        link[length > 0 ? length : 0] = '\0';
        n += d->d_name[0] != '.' && strstr(link, what) != NULL;
    }
    closedir(dir);
    return n;
}

struct proc_usage proc_usage(pid_t pid)
{
    struct proc_usage u;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    u.anon = sum_of(path, "RssAnon:", "%llu") * 1024;
    u.shmem = sum_of(path, "RssShmem:", "%llu") * 1024;
    u.pte = sum_of(path, "VmPTE:", "%llu") * 1024;
    u.fd_table = (unsigned)sum_of(path, "FDSize:", "%llu");
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    u.maps = count_lines(path);
    u.fds = proc_fds(pid, "");
    return u;
}

uint64_t proc_present(pid_t pid, const char *name)
{
    unsigned long long kib;
    uint64_t sum = 0;
    bool named = false;
    char line[4200];
    FILE *f;

    snprintf(line, sizeof(line), "/proc/%d/smaps", (int)pid);
    f = fopen(line, "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        /* The lines about a mapping follow its own, which begins with addresses. */
        if (sscanf(line, "Rss: %llu", &kib) == 1)
            sum += named ? kib * 1024 : 0;
        else if (strchr(line, '-') && !strstr(line, "kB"))
            named = strstr(line, name) != NULL;
    }
    fclose(f);
    return sum;
}

struct thread_numbers {
    const char *file, *key, *what;
};

typedef uint64_t of_thread_fn(const char *path, const struct thread_numbers *which);

/* The sum over all threads of what fn finds in that file of each. */
static uint64_t sum_over_threads(pid_t pid, const struct thread_numbers *which, of_thread_fn *fn)
{
    char path[300];
    struct dirent *d;
    uint64_t sum = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (!dir)
        return 0;
    while ((d = readdir(dir))) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/%s", (int)pid, d->d_name, which->file);
        sum += fn(path, which);
    }
    closedir(dir);
    return sum;
}

static uint64_t number_of_thread(const char *path, const struct thread_numbers *which)
{
    return sum_of(path, which->key, which->what);
}

static uint64_t sum_of_threads(pid_t pid, const char *file, const char *key, const char *what)
{
    return sum_over_threads(pid, &(struct thread_numbers){file, key, what}, number_of_thread);
}

static char read_state(const char *path)
{
    char text[512];
    const char *fields = proc_stat_read(path, text, sizeof(text));

    return fields ? fields[0] : '\0';
}

char proc_state(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return read_state(path);
}

char proc_thread_state(pid_t pid, pid_t tid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    return read_state(path);
}

/* Is it running, or ready to? */
static uint64_t thread_is_ready(const char *path, const struct thread_numbers *which)
{
    (void)which;
    return read_state(path) == 'R';
}

bool proc_sleeps(pid_t pid)
{
    return sum_over_threads(pid, &(struct thread_numbers){.file = "stat"}, thread_is_ready) == 0;
}

uint64_t proc_switches(pid_t pid)
{
    return sum_of_threads(pid, "status", "voluntary_ctxt_switches:", "%llu") +
           sum_of_threads(pid, "status", "nonvoluntary_ctxt_switches:", "%llu");
}

uint64_t proc_cpu_ns(pid_t pid)
{
    return sum_of_threads(pid, "schedstat", "", "%llu");
}

uint64_t proc_cpu_wait_ns(pid_t pid)
{
    return sum_of_threads(pid, "schedstat", "", "%*u %llu");
}

uint64_t proc_main_cpu_ns(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)pid);
    return sum_of(path, "", "%llu");
}

static bool is_over(char state)
{
    return state == 'Z' || state == 'X';
}

bool proc_is_zombie(pid_t pid)
{
    return is_over(proc_state(pid));
}

static bool is_named(pid_t pid, const char *name)
{
    char path[64], text[512], *begin;
    const char *fields;
    size_t length = strlen(name);

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fields = proc_stat_read(path, text, sizeof(text));
    begin = fields && !is_over(fields[0]) ? strchr(text, '(') : NULL;
    return begin && strncmp(begin + 1, name, length) == 0 &&
           begin + 1 + length == fields - strlen(") ");
}

/*
 * Not by a walk over /proc, which leaves the kernel names of all processes there to be forgotten
 * when they are reaped: with several tests that walk often, and that reap, it spins for half a
 * minute in d_walk() (Linux 6.18, seen under chaos).
 */
pid_t proc_child_named(pid_t parent, const char *name)
{
    char path[64];
    pid_t found = 0;
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    f = fopen(path, "re");
    if (!f)
        return 0;
    while (found == 0 && fscanf(f, "%d", &pid) == 1)
        if (is_named(pid, name))
            found = pid;
    fclose(f);
    return found;
}
