/*
 * uthash, told to leave an element out when memory is short (its hh.tbl is then NULL) where it
 * would end the process. All of npud includes it by this header.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
