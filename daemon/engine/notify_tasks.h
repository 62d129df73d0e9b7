/*
 * The tasks of notifies: how streams record them and wait for them. Which session has a notify is
 * in core/notify.h. Engine threads only, but for notify_give_back().
 */
#pragma once

#include <stdint.h>

#include "daemon/engine/run.h"

struct stream;

enum run_result notify_run_record(struct stream *s, uint64_t now);
enum run_result notify_run_wait(struct stream *s, uint64_t now);
enum run_result notify_run_count_record(struct stream *s, uint64_t now);
enum run_result notify_run_count_wait(struct stream *s, uint64_t now);

/**
 * A stream that no record can let go any more is dropped before its wait was retired: the record
 * goes to the next one.
 */
void notify_give_back(struct stream *stream);
