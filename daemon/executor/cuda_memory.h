/*
 * Memory of GPUs and registered pages of the host: the functions of vendor.h of these names.
 *
 * Memory is that of the driver's virtual memory management where the driver has it, because only
 * that can be shared by descriptors, which outlive the process that made it; else plain memory.
 */
#pragma once

#include <stdint.h>

#include "daemon/executor/vendor.h"

/** Of memory that can be shared, in bytes; 0: the driver has none. Before the device is begun. */
uint64_t cuda_memory_granularity(struct vendor_library *library, uint32_t device);

int32_t cuda_memory_new(struct vendor_library *library, uint32_t device, uint64_t size,
                        struct vendor_memory *memory);
void cuda_memory_free(struct vendor_library *library, struct vendor_memory *memory);
int32_t cuda_memory_export(struct vendor_library *library, struct vendor_memory *memory,
                           struct vendor_token *token);
int32_t cuda_memory_allow(struct vendor_library *library, struct vendor_memory *memory,
                          const struct vendor_token *token, int32_t pid);
int32_t cuda_memory_import(struct vendor_library *library, uint32_t device, uint64_t size,
                           const struct vendor_token *token, struct vendor_memory *memory);
int32_t cuda_host_attach(struct vendor_library *library, void *pages, uint64_t size);
void cuda_host_detach(struct vendor_library *library, void *pages);
int32_t cuda_host_address(struct vendor_library *library, void *pages, uint64_t *address);
