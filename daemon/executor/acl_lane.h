/* Queues of a device over the vendor's library: what vendor.h has for lanes and kernels. */
#pragma once

#include <stdint.h>

#include "daemon/executor/vendor.h"

int32_t acl_lane_new(struct vendor_library *library, uint32_t device, struct vendor_lane **lane);
void acl_lane_free(struct vendor_lane *lane);
int32_t acl_lane_stop(struct vendor_lane *lane);
int32_t acl_lane_call(struct vendor_lane *lane, void (*run)(void *arg), void *arg);
int32_t acl_lane_sync(struct vendor_lane **lane);
int32_t acl_lane_abort(struct vendor_lane *lane);

int32_t acl_copy(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                 enum vendor_way way);
int32_t acl_set(struct vendor_lane *lane, uint64_t dst, uint8_t value, uint64_t size);
int32_t acl_reduce(struct vendor_lane *lane, uint64_t dst, uint64_t src, uint64_t size,
                   uint8_t kind, uint8_t type);
int32_t acl_word_write(struct vendor_lane *lane, uint64_t dst, uint64_t value);
int32_t acl_word_wait(struct vendor_lane *lane, uint64_t src, uint64_t value);

int32_t acl_binary_load(struct vendor_library *library, uint32_t device, const void *file,
                        uint64_t size, uint32_t magic, void **binary);
void acl_binary_free(struct vendor_library *library, void *binary);
int32_t acl_function(struct vendor_library *library, void *binary, const char *name,
                     void **function);
int32_t acl_launch(struct vendor_lane *lane, void *function, const struct vendor_launch *launch);
