/* Rows of a report in the order in which people look for them. Of npuctl. */
#pragma once

#include <stddef.h>
#include <protobuf-c/protobuf-c.h>

/**
 * Sort n rows of one type by the fields that its table shows, the first column first: numbers by
 * value, text as people count ("stream 9" before "stream 10"). npud tells them in the order of its
 * own lists, which changes as objects come and go. n_fields: how many fields the table shows.
 */
void sort_rows(ProtobufCMessage **row, size_t n, unsigned n_fields);
