/*
 * Why a socket of npud cannot be reached, and what to do: the same words in the library's sentence
 * and from npuctl.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ACCESS_TEXT_MAX 512

/**
 * Why connect() to the socket at path has failed with that errno, and the command that mends it:
 * the end of a sentence, without a full stop. EACCES is about the caller's rights: which users may
 * connect, and how to become one of them. Keeps errno. Any thread.
 */
void access_explain(const char *path, int error, char *text, size_t size);

/**
 * Is this process in a container, as docker, podman, CRI-O, systemd and Kubernetes mark them, and
 * without a systemd of its own?
 */
bool access_in_container(void);
