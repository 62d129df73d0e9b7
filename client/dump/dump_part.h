/* Parts of dump files: a line of JSON, and the bytes that it names (include/acl/acl_dump.h). */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct dump_file;

/** The line is freed. bytes NULL, and size not 0: they could not be read. */
void dump_put_part(struct dump_file *f, cJSON *line, const void *bytes, size_t size);

/** The arguments of a kernel. */
void dump_put_args(struct dump_file *f, const void *args, size_t size);

/**
 * A part for each word of the arguments that is an address of device memory: from there to the end
 * of its allocation. Without bytes: how many there are.
 */
void dump_put_memory(struct dump_file *f, const void *args, size_t args_size, bool with_bytes);
