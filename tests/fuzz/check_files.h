/*
 * The files of checked processes (proto/shm/check_file.h), from the bytes of a fuzzer: each says
 * which record comes next, and what is in it.
 */
#pragma once

#include "fuzz.h"

/** Writes them into the directory, in place of those that are there. */
void check_files_write(struct input *in, int directory);
