/*
 * acl.npud.own(function, ...): calls a function that creates something, and ends that when a with
 * statement is left. The object is an int to all functions (__index__), and for memory it has the
 * buffer protocol.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/python/invoke.h"

#define OWN_VALUE (-1)

#define OWN_NONE       (-1)
#define OWN_BUFFER     (-2)
#define OWN_ALLOCATION (-3)

/* A row of owned.inc. */
struct own_kind {
    PyCFunction function;
    const struct row *create, *end;
    int argument; /* of create, for end, or OWN_VALUE */
    int memory;   /* the argument of create that is the size, or OWN_* */
};

/* All; the last one has no function. */
extern const struct own_kind own_kinds[];

/** Adds the types own and Error. 0, or -1 with an exception set. */
int own_add(PyObject *module);
