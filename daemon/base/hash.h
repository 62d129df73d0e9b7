/*
 * uthash, told to leave an element out when memory is short (its hh.tbl is then NULL) where it
 * would end the process. All of npud includes it by this header.
 *
 * The hash has a key, random for each npud: a client that chooses the keys of elements, such as
 * the control groups of its jobs, cannot choose them so that they all meet in one bucket.
 *
 * A table doubles in one step, with a visit to each element: some 40 ns, where they are in no
 * cache. So what a user may have more than ten thousand of, as routes, is in a tree.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** SipHash-2-4. */
uint64_t hash_siphash(const uint64_t k[2], const void *data, size_t size);

/** The same under npud's own key. Any thread. */
unsigned hash_key(const void *data, size_t size);

#define HASH_NONFATAL_OOM                    1
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = hash_key((keyptr), (keylen)))
#include <uthash.h>
