/*
 * The names of ACL error codes. The table is made from the public headers when npud is built, so
 * there is one place where a code gets its name, and none that can be forgotten.
 */
#pragma once

#include <stdint.h>

/** The macro's name of an error code ("ACL_ERROR_RT_SYS_DMA"), or NULL when it has none. */
const char *error_name(int32_t code);

/**
 * The code of a name, in either case, as a whole or without "ACL_ERROR_" or "ACL_ERROR_RT_"
 * ("sys_dma"). 0 when there is none.
 */
int32_t error_name_find(const char *name);
