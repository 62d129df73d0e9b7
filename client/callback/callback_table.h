/*
 * Callbacks of the program that are registered until the program removes them: for states of
 * streams and devices, for aborts of devices, for failures of tasks. They run without the lock and
 * may change the table.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void callback_table_fn(void); /* of any type: the module that calls it knows which */

struct callback_entry {
    callback_table_fn *fn;
    void *args;
    uint64_t serial; /* in the order of registration */
};

enum callback_key {
    CALLBACK_BY_NAME,     /* called in the order of registration */
    CALLBACK_SORTED,      /* by name, too; called in the order of names */
    CALLBACK_BY_FUNCTION, /* all names are ""; called in the order of registration */
};

struct callback_table {
    pthread_mutex_t lock;
    enum callback_key key;
    struct callback_node *list; /* in the order of calls */
    void *tree;                 /* the same by their key */
    uint64_t last_serial;
    uint64_t removals; /* counts them */
    _Atomic uint32_t n;
};

#define CALLBACK_TABLE(key_)                                                                       \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .key = (key_)                                           \
    }

/* --- under the lock --- */

/**
 * Register it. 0; ACL_ERROR_RT_PARAM_INVALID when it is registered already,
 * ACL_ERROR_RT_MEMORY_ALLOCATION.
 */
int callback_table_add(struct callback_table *t, const char *function, const char *name,
                       callback_table_fn *fn, void *args);

/** Is it registered? The key of the table is compared: the name or the function. */
bool callback_table_has(struct callback_table *t, const char *name, callback_table_fn *fn);

/** Remove it. False: it is not registered. */
bool callback_table_remove(struct callback_table *t, const char *name, callback_table_fn *fn);

/** The table as it is now, *n entries; freed by the caller. NULL: out of memory. */
struct callback_entry *callback_table_copy(const struct callback_table *t, size_t *n);

/* --- without the lock --- */

/** Register fn by this name, or remove what has the name if fn is NULL. 0 or as above. */
int callback_table_set(struct callback_table *t, const char *function, const char *name,
                       callback_table_fn *fn, void *args);

/**
 * Calls in the order of registration, of what is registered at the beginning; not of what is
 * removed before its turn. A step takes constant time, but for the one after a removal.
 */
struct callback_walk {
    struct callback_table *table;
    uint64_t serial, last;          /* of the latest step; of the last entry that is called */
    const struct callback_node *at; /* the entry of the latest step, if nothing was removed since */
    uint64_t removals;              /* up to that step */
};

struct callback_walk callback_walk_begin(struct callback_table *t);
/** The next one, in *next. False: that was all. */
bool callback_walk_next(struct callback_walk *walk, struct callback_entry *next);

/**
 * A forked child: nothing is registered. The entries are not freed: another thread of the parent
 * may have been changing them.
 */
void callback_table_forget(struct callback_table *t);
