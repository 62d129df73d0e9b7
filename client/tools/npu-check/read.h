/*
 * The files of a directory (proto/shm/check_file.h), as one sequence of records in the order of
 * their time. Of records at the same time, those that let others go on come first.
 *
 * Each thread of a file has a buffer of one chunk, whatever the length of the file. Nothing in a
 * file is believed.
 */
#pragma once

#include <stdint.h>

#include "client/tools/npu-check/acts.h"
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/world.h"

struct reader;

/**
 * Opens the files of the directory whose head is one of a checked process, in the order of their
 * names; they become world->processes. NULL and errno: the directory cannot be read.
 */
struct reader *reader_open(const char *directory, struct world *w);
/**
 * The next record: what it points to is there until the next call. Places, modules and texts are in
 * the world then, and are not returned. False: there are no more.
 */
bool reader_next(struct reader *r, struct acts *acts, struct model_input *in);
/**
 * A process whose last record has been returned by reader_next() before; each is returned once.
 * False: none.
 */
bool reader_ended(struct reader *r, uint32_t *process);
/** Records that were returned so far. */
uint64_t reader_count(const struct reader *r);
/** Threads whose records ended with something malformed. */
uint64_t reader_malformed(const struct reader *r);
void reader_free(struct reader *r);
