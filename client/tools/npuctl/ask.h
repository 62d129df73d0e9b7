/* What npud is asked or told, and what npuctl makes of the answer. */
#pragma once

#include "client/tools/npuctl/task.h"
#include "client/tools/npuctl/socket.h"

/** Carries the task out, and prints the result. */
enum status ask_npud(const struct task *task);

/** The bytes of a report, packed. On STATUS_OK the caller frees them. */
enum status ask_bytes(struct connection *c, Npud__AdminRequest *request, uint8_t **bytes,
                      uint64_t *size);

/** A report that is needed beside others. */
struct question {
    Npud__AdminRequest__Topic topic;
    Npud__Report **report;
};

/**
 * Asks them one after the other, on an open connection. On STATUS_OK the caller frees the reports;
 * else a sentence was printed, and all of them are NULL.
 */
enum status ask_reports(struct connection *c, const struct question *questions, size_t n);
/** The same on a connection of its own to the npud at that path. */
enum status ask_reports_at(const char *path, const struct question *questions, size_t n);
/**
 * A report of the processes of this user, for one that the npud at that path does not take for an
 * administrator: that is said once. On STATUS_OK the caller frees the report.
 */
enum status ask_own(const char *path, int topic, Npud__Report **report);
