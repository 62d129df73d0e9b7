/* Structs of the C interface as dicts, keyed by the C field names. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* What a letter of a row (invoke.h) stands for. */
struct dict_layout {
    const char *text; /* for sentences */
    size_t size;
    const struct field *fields; /* the end: no name */
    bool many;                  /* a list of them */
    bool none;                  /* or None */
};

/** NULL: the letter is not of a struct. */
const struct dict_layout *dict_layout_find(char letter);

/**
 * Fields that are left out are 0. 0, or -1 with an exception set: ValueError, TypeError or
 * OverflowError for what is no such dict, others are of the program. Both hold the GIL.
 */
int dict_layout_take(const struct dict_layout *layout, PyObject *dict, void *to);

/** A new dict. */
PyObject *dict_layout_give(const struct dict_layout *layout, const void *from);
