/* Fields of a message, whatever message it is: read through its descriptor. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/** Print sizes as bytes from now on, and not as KiB, MiB and so on. */
void field_show_exact_sizes(void);

/** How many fields of a row go into its table. Descriptors are sorted by number. */
unsigned field_count_shown(const ProtobufCMessageDescriptor *type);

/** Is the limit of a user with that name one of bytes? */
bool field_limit_is_memory(const char *resource);

bool field_is_text(const ProtobufCFieldDescriptor *field);

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/** A number or truth value the way JSON writes it, exact. */
void field_format(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, char *buf,
                  size_t size);

/** The field for a person; *width: its columns on a terminal. The caller frees it. */
char *field_print(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                  int *width);

/** The field's name as people read it: upper case as a heading, with '-' for '_'. */
char *field_heading(const ProtobufCFieldDescriptor *field, bool upper);
