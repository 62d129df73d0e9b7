/*
 * Memory that processes share: how npud is asked. An export has a name, a key or a number; so has
 * the memory that others import by it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;
struct session;

#define EXPORT_KEY_SIZE 65 /* characters of a key, and its NUL */

/** The name of an export, as npud gave it out. */
struct export_name {
    char key[EXPORT_KEY_SIZE + 1]; /* "": it is named by its number */
    uint64_t number;
};

/** The name in a text of the program's, of any content. */
void export_name_of_key(struct export_name *name, const char *key);

/**
 * Export the first `size` bytes of npud's allocation `slot`. by_number: the name is a number. 0, or
 * an ACL error.
 */
int export_memory(struct session *s, const char *function, uint32_t slot, uint64_t size,
                  bool any_pid, bool by_number, struct export_name *name);

/** Put `n` pids on its list of importers. 0, or an ACL error. */
int export_allow(struct session *s, const char *function, const struct export_name *name,
                 const int32_t *pids, size_t n);

/** What an import has brought. */
struct imported {
    uint32_t remote, remote_generation; /* npud's allocation */
    uint64_t size;                      /* of whole pages */
    uint64_t exported;                  /* of what was exported */
    uint64_t address;                   /* that npud has given; 0: none */
    uint32_t device;
    bool host;
    int fd; /* the caller's */
};

/** Import by this name. 0, or an ACL error. */
int export_import(struct session *s, const char *function, const struct export_name *name,
                  struct imported *imported);
