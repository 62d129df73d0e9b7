/*
 * Pids that a program puts on a list of importers, of a notify or of memory. npud takes some per
 * request; if one of them is no pid, or they are too many, no request is sent.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Send so many of them, which one request takes. 0, or an ACL error. */
typedef int importer_pids_send_fn(void *context, int32_t *pids, size_t n);

/** Send all. 0, or an ACL error: the first. */
int importer_pids_send(const char *function, const int32_t *pids, size_t n,
                       importer_pids_send_fn *send, void *context);
