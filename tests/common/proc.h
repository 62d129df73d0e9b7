/*
 * What /proc says of a process: for tests and benchmarks that ask what npud costs. Nothing here can
 * fail but by the process having gone: then everything is 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_usage {
    uint64_t anon;  /* bytes of its own memory: heap, stacks, data */
    uint64_t shmem; /* bytes of shared memory that it has touched: what sessions are charged for */
    uint64_t pte;   /* bytes of page tables */
    unsigned fds;
    unsigned fd_table; /* descriptors for which the kernel's table has room */
    unsigned maps;     /* of vm.max_map_count */
};

struct proc_usage proc_usage(pid_t pid);

/** Descriptors of it whose files have such a text in their names; "": all. */
unsigned proc_fds(pid_t pid, const char *what);

/** Bytes that are present of its mappings of what has such a name. */
uint64_t proc_present(pid_t pid, const char *name);

/** Does no thread of it run, or wait for a CPU? */
bool proc_sleeps(pid_t pid);

/** Voluntary and involuntary context switches of all its threads so far. */
uint64_t proc_switches(pid_t pid);

/**
 * Nanoseconds on a CPU so far: of all its threads, and of the first one alone, which is npud's
 * control thread.
 */
uint64_t proc_cpu_ns(pid_t pid);
uint64_t proc_main_cpu_ns(pid_t pid);

/** Nanoseconds that its threads were ready to run and waited for a CPU. */
uint64_t proc_cpu_wait_ns(pid_t pid);

/** A child of that process with that name (/proc/PID/comm) that has not ended. 0: there is none. */
pid_t proc_child_named(pid_t parent, const char *name);

/**
 * The state of a process, or of a thread by /proc/PID/task/TID: 'R', 'S' and so on, as of
 * proc_pid_stat(5). 0: it has gone.
 */
char proc_state(pid_t pid);
char proc_thread_state(pid_t pid, pid_t tid);

/** Has it ended, and nobody has asked for its status? */
bool proc_is_zombie(pid_t pid);
