#include "client/memory/imports.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#define HASH_NONFATAL_OOM 1 /* an element without memory has no hh.tbl */
#include <uthash.h>

#include "client/memory/export.h"

struct import {
    char key[EXPORT_KEY_SIZE + 1];
    struct import_entry *first;
    UT_hash_handle hh;
};

static struct import *find_import(struct import *map, const char *key)
{
    struct import *i;

    HASH_FIND_STR(map, key, i);
    return i;
}

static struct import *add_import(struct import **map, const char *key)
{
    struct import *i = calloc(1, sizeof(*i));

    if (!i)
        return NULL;
    snprintf(i->key, sizeof(i->key), "%s", key);
    HASH_ADD_STR(*map, key, i);
    if (i->hh.tbl)
        return i;
    free(i);
    return NULL;
}

bool imports_add(struct import **map, const char *key, struct import_entry *entry)
{
    struct import *i = find_import(*map, key);

    if (!i)
        i = add_import(map, key);
    if (!i)
        return false;
    entry->import = i;
    DL_APPEND(i->first, entry);
    return true;
}

static void free_import(struct import **map, struct import *i)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its last entry has just left it */
    HASH_DEL(*map, i);
    free(i);
}

void imports_remove(struct import **map, struct import_entry *entry)
{
    struct import *i = entry->import;

    DL_DELETE(i->first, entry);
    entry->import = NULL;
    if (!i->first)
        free_import(map, i);
}

struct import_entry *imports_find(struct import *map, const char *key)
{
    struct import *i = find_import(map, key);

    return i ? i->first : NULL;
}

void imports_clear(struct import **map)
{
    struct import *i, *next;

    HASH_ITER (hh, *map, i, next)
        free_import(map, i);
}
