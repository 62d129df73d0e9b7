/*
 * In which job of a scheduler the process of a new session is (core/batch_job.h): read by a thread
 * of its own, because the kernel reads control groups under a lock that others can hold for long.
 * The session is not heard before that is known.
 *
 * Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct session;

/**
 * Look, and call found() for the session, unless it ends meanwhile: a step of its own. path: of the
 * job's control group, empty if there is none; memory_max: its limit, NULL if that cannot be read.
 * False: no memory, or no thread.
 */
typedef void batch_job_found_fn(struct session *session, const char *path,
                                const uint64_t *memory_max);
bool batch_job_lookup_begin(struct session *session, batch_job_found_fn *found);

/** The session ends. Safe without a look-up. */
void batch_job_lookup_leave(struct session *session);

/** npud ends. Safe without any. */
void batch_job_lookups_deinit(void);
