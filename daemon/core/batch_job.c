#include "daemon/core/batch_job.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/server.h"
#include "daemon/kept/batch_job_record.h"

static size_t record_size(const struct batch_job *job)
{
    return (offsetof(struct batch_job_record, path) + strlen(job->path) + 1 + 7) & ~(size_t)7;
}

static size_t write_record(const struct kept *kept, void *record)
{
    const struct batch_job *job =
        (const struct batch_job *)((const char *)kept - offsetof(struct batch_job, kept));
    struct batch_job_record *r = record;
    size_t size = record_size(job);

    memset(record, 0, size);
    r->number = job->number;
    r->memory_max = job->memory_max;
    r->uid = job->uid;
    memcpy(r->path, job->path, strlen(job->path) + 1);
    return size;
}

static void unlist_job(struct batch_job *job)
{
    if (job->by_path.tbl)
        HASH_DELETE(by_path, job->jobs->by_path, job);
    if (job->by_number.tbl)
        HASH_DELETE(by_number, job->jobs->by_number, job);
}

/* With one reference. NULL: no memory. */
static struct batch_job *job_new(struct batch_jobs *jobs, const char *path, uint64_t number)
{
    size_t length = strlen(path);
    struct batch_job *job = calloc(1, sizeof(*job) + length + 1);

    if (!job)
        return NULL;
    job->jobs = jobs;
    job->number = number;
    job->refs = 1;
    memcpy(job->path, path, length + 1);
    HASH_ADD_KEYPTR(by_path, jobs->by_path, job->path, length, job);
    HASH_ADD(by_number, jobs->by_number, number, sizeof(job->number), job);
    if (number > jobs->last_number)
        jobs->last_number = number;
    if (job->by_path.tbl && job->by_number.tbl)
        return job;
    unlist_job(job);
    free(job);
    return NULL;
}

struct batch_job *batch_job_ref(struct batch_jobs *jobs, const char *path,
                                const uint64_t *memory_max, uid_t uid)
{
    struct batch_job *job;

    HASH_FIND(by_path, jobs->by_path, path, strlen(path), job);
    if (job) {
        /* The scheduler may have changed it since. */
        if (memory_max && job->memory_max != *memory_max) {
            kept_touch(&job->kept);
            job->memory_max = *memory_max;
        }
        return batch_job_hold(job);
    }
    job = job_new(jobs, path, jobs->last_number + 1);
    if (!job)
        return NULL;
    job->memory_max = memory_max ? *memory_max : UINT64_MAX;
    job->uid = uid;
    if (kept_make(&job->kept, KEPT_BATCH_JOB, record_size(job), write_record))
        return job;
    batch_job_unref(job);
    return NULL;
}

struct batch_job *batch_job_hold(struct batch_job *job)
{
    if (job)
        job->refs++;
    return job;
}

void batch_job_unref(struct batch_job *job)
{
    if (!job || --job->refs > 0)
        return;
    assert(job->used == 0);
    kept_drop(&job->kept);
    unlist_job(job);
    free(job);
}

uint64_t batch_job_limit(const struct batch_job *job)
{
    uint64_t most = job->jobs->memory_max;

    return job->memory_max < most ? job->memory_max : most;
}

bool batch_job_charge(struct batch_charge *charge, struct batch_job *job, uint64_t amount)
{
    uint64_t limit = job ? batch_job_limit(job) : 0;

    if (!job)
        return true;
    /* It may have more than the limit: the limit was lowered, or memory was passed on to it. */
    if (job->used > limit || amount > limit - job->used)
        return false;
    batch_job_charge_again(charge, job, amount);
    return true;
}

void batch_job_charge_again(struct batch_charge *charge, struct batch_job *job, uint64_t amount)
{
    assert(!charge->job);
    if (!job)
        return;
    job->used += amount;
    *charge = (struct batch_charge){batch_job_hold(job), amount};
}

void batch_job_uncharge(struct batch_charge *charge)
{
    if (!charge->job)
        return;
    assert(charge->job->used >= charge->amount);
    charge->job->used -= charge->amount;
    batch_job_unref(charge->job);
    *charge = (struct batch_charge){0};
}

/* --- restoring --- */

uint64_t batch_job_number(const struct batch_job *job)
{
    return job ? job->number : 0;
}

bool batch_job_take(struct batch_jobs *jobs, uint64_t number, struct batch_job **job)
{
    *job = NULL;
    if (number == 0)
        return true;
    HASH_FIND(by_number, jobs->by_number, &number, sizeof(number), *job);
    return batch_job_hold(*job) != NULL;
}

bool batch_job_restore(struct server *server, struct kept_cell *cell)
{
    struct batch_job_record r;
    struct batch_job *job;

    kept_read(cell, &r, sizeof(r));
    r.path[sizeof(r.path) - 1] = '\0';
    job = job_new(&server->batch_jobs, r.path, r.number);
    if (!job)
        return false;
    job->memory_max = r.memory_max;
    job->uid = r.uid;
    return kept_bind(&job->kept, cell, record_size(job), write_record);
}

void batch_jobs_finish_restoring(struct server *server)
{
    struct batch_job *job, *tmp;

    HASH_ITER (by_path, server->batch_jobs.by_path, job, tmp)
        batch_job_unref(job);
}
