/* Memory of a device over the vendor's library: memory_*() and host_*() of vendor.h. */
#pragma once

#include <stdint.h>

#include "daemon/executor/vendor.h"

int32_t acl_memory_new(struct vendor_library *library, uint32_t device, uint64_t size,
                       struct vendor_memory *memory);
void acl_memory_free(struct vendor_library *library, struct vendor_memory *memory);
int32_t acl_memory_export(struct vendor_library *library, struct vendor_memory *memory,
                          struct vendor_token *token);
int32_t acl_memory_allow(struct vendor_library *library, struct vendor_memory *memory,
                         const struct vendor_token *token, int32_t pid);
int32_t acl_memory_import(struct vendor_library *library, uint32_t device, uint64_t size,
                          const struct vendor_token *token, struct vendor_memory *memory);

/** Multiples of how many bytes the memory of the device has: of acl_memory_new(). */
uint64_t acl_memory_granularity(struct vendor_library *library, uint32_t device);

int32_t acl_host_attach(struct vendor_library *library, void *pages, uint64_t size);
void acl_host_detach(struct vendor_library *library, void *pages);
int32_t acl_host_address(struct vendor_library *library, void *pages, uint64_t *address);
