/* Reports on standard output: tables for people, JSON for programs. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/tools/npuctl/task.h"
#include "proto/wire/npud.pb-c.h"

/** Ends the output: "npuctl: cannot write", unless all was written. */
enum status print_end(bool ok);

/** Prints the rows of a report that the command shows, sorted, as a table or JSON. */
enum status print_report(const Npud__Report *report, const struct command *command, bool json);

/**
 * A list of a report, sorted: as a table, or single, one row by nature, as lines; below a line with
 * the heading. Nothing if it is empty. False: no memory.
 */
bool print_section(const Npud__Report *report, const char *list, const char *heading, bool single);

/** The same as a member of a JSON object: an array, or single an object. */
bool print_add_section(cJSON *to, const char *key, const Npud__Report *report, const char *list,
                       bool single);

/** A row as JSON, freed by the caller. NULL: no memory. */
cJSON *print_make_row(const ProtobufCMessage *row);

/** Prints a JSON document on a line of its own, and frees it. False: no memory. */
bool print_document(cJSON *document);

/** Prints what was set: for scripts, its number. */
enum status print_rule(uint64_t rule, bool json);

/** Prints which npud serves now. */
enum status print_server(const char *version, int32_t pid, bool json);
