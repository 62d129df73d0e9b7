/*
 * Jobs of a scheduler, Slurm for one: the sessions whose processes were in one control group of
 * [jobs] cgroups when they connected. Besides the user, which pays for everything as ever, the job
 * pays for memory: of devices, of the host, and of shared buffers together. So nothing is gained by
 * being in a job, and a process gets out of its job only where the kernel lets it leave the control
 * group.
 *
 * A job is there while a session, a pool or memory of it is. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/hash.h"
#include "daemon/kept/kept.h"

struct server;

struct batch_jobs {
    struct batch_job *by_path, *by_number;
    uint64_t last_number; /* the highest that a job has had: it never wraps */
    uint64_t memory_max;  /* [jobs] memory: that each may have */
};

struct batch_job {
    struct batch_jobs *jobs;
    struct kept kept;
    uint64_t number; /* no other job has it while this one is there */
    uint32_t refs;
    uid_t uid;           /* of its first session */
    uint64_t memory_max; /* of its control group, when its latest session came */
    uint64_t used;       /* bytes */
    UT_hash_handle by_path, by_number;
    char path[]; /* of its control group */
};

/** What a job pays for. All zero: nothing. */
struct batch_charge {
    struct batch_job *job;
    uint64_t amount;
};

/**
 * A reference to the job of this control group, made if new. memory_max: what the control group may
 * have; NULL: that is not known, and what was known before holds. NULL: no memory.
 */
struct batch_job *batch_job_ref(struct batch_jobs *jobs, const char *path,
                                const uint64_t *memory_max, uid_t uid);
/** One more reference. Safe on NULL, as the others. */
struct batch_job *batch_job_hold(struct batch_job *job);
void batch_job_unref(struct batch_job *job);

/** How many bytes it may have. */
uint64_t batch_job_limit(const struct batch_job *job);
/** Charge a zeroed charge. False: the job would have more than it may. NULL pays for nothing. */
bool batch_job_charge(struct batch_charge *charge, struct batch_job *job, uint64_t amount);
/** The same for what it has already: also beyond the limit. */
void batch_job_charge_again(struct batch_charge *charge, struct batch_job *job, uint64_t amount);
/** Give it back. Safe on a zeroed charge, and to repeat. */
void batch_job_uncharge(struct batch_charge *charge);

/** The number that records have; 0: no job. */
uint64_t batch_job_number(const struct batch_job *job);
/**
 * While npud restores: *job is a reference to the job with this number, NULL for 0. False: there is
 * no such job.
 */
bool batch_job_take(struct batch_jobs *jobs, uint64_t number, struct batch_job **job);
/** All that jobs pay for is there: those that have nothing go. */
void batch_jobs_finish_restoring(struct server *server);
