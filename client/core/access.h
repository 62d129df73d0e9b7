/*
 * Why a socket of npud refuses a user: the same words in the library's sentence and from
 * npuctl.
 */
#pragma once

#include <stddef.h>

#define ACCESS_TEXT_MAX 512

/**
 * Which users may connect to the socket at path, and how to become one of them: the end of a
 * sentence, without a full stop. For connect() that failed with EACCES. Keeps errno. Any thread.
 */
void access_explain(const char *path, char *text, size_t size);
