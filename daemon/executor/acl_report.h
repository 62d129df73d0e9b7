/*
 * Calls from lanes: a thread for each device, started with the first one, in which the library runs
 * what a stream has come to.
 */
#pragma once

#include <stdint.h>

#include "acl/acl.h"

struct vendor_library;
struct acl_report;

/** Have the thread of the device serve the stream, which is of the context. 0 or an error. */
int32_t acl_report_serve(struct vendor_library *library, uint32_t device, aclrtContext context,
                         aclrtStream stream);
/** The stream is about to end. After acl_report_serve() of it alone. */
void acl_report_leave(struct vendor_library *library, uint32_t device, aclrtStream stream);
/** Ends the thread of the device, if there is one: within a second of its last call's return. */
void acl_report_end(struct vendor_library *library, uint32_t device);
