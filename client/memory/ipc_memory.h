/*
 * Device memory between processes, by key: aclrtIpcMem*. npud keeps the exports, and the memory for
 * as long as any process has it; see also client/memory/export.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * aclrtIpcMemGetExportKey(), aclrtIpcMemImportByKey() and aclrtIpcMemClose() for a function of
 * another name. No argument is NULL.
 */
int ipc_memory_export(const char *function, void *address, size_t size, char *key, size_t len,
                      uint64_t flags);
int ipc_memory_import(const char *function, void **pointer, const char *key, uint64_t flags);
int ipc_memory_close(const char *function, const char *key);
