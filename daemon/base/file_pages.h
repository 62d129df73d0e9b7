/*
 * Which pages of a memfd were ever written? For files that clients can write: npud must not wait
 * for a lock of the file, which a client can hold for as long as it likes (a write() to it from
 * memory whose page never comes). lseek(SEEK_DATA), fallocate(), ftruncate() and fchmod() take it.
 * What is used here does not: mincore(), cachestat() and pread().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * The next pages of the file from *from on, before `end`, that are or may be memory: *from is where
 * they begin, *to where they end. A page that is swapped out is one of them. The others are holes,
 * and read as zeros. False: only holes are left. All three are multiples of the page size, and
 * `map` is where the caller has mapped the file, at least up to `end`.
 */
bool file_pages_next(int fd, void *map, size_t end, size_t *from, size_t *to);
