/*
 * From a Python call to a C call and back. What a function takes and gives is a row
 * (functions.inc); everything that conventions ask of all functions alike is done here, once:
 * conversion of arguments, TypeError texts, releasing the GIL, the shape of the result.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "acl/acl.h"

#define ARGS_MAX 8
#define KEY_SIZE 1024 /* of text that a C function writes; the length asked for is below it */

union in {
    void *p;
    uint64_t u;
    size_t z;
    int32_t i;
    uint32_t w;
    const char *s;
    PyObject *o; /* borrowed */
    struct {
        void *items;
        size_t count;
    } list;
};

/* All zero before the call: that is what a failed call shows. */
union out {
    void *p;
    uint64_t u;
    size_t z;
    int64_t l;
    int32_t i;
    uint32_t w;
    float f;
    const char *s;
    PyObject *o; /* owned */
};

struct call {
    union in in[ARGS_MAX];
    union out out[3];
    aclrtIpcEventHandle handle;      /* in or out */
    _Alignas(16) char key[KEY_SIZE]; /* out: a text, bytes, or structs */
};

/*
 * takes: a letter per argument. Those after | may be missing, and are zero then.
 *   P  handle, address, size or other 64-bit number: any integer, modulo 2^64
 *   i  int32_t: out of range is an error
 *   u  uint32_t: modulo 2^32
 *   m  uint32_t: out of range is an error
 *   s  str
 *   k  size of a text that is asked for: at most KEY_SIZE - 1
 *   b  bytes
 *   e  bytes of an exported event, exactly 64
 *   l  list of int32_t          h  list of handles
 *   n  list of 64-bit numbers, as long as the list argument before it
 *   A C E G M N R W Y  structs as dicts: dict_layout.c
 *   f  callable                 F  callable or None
 *   O  any object
 * gives: a letter per value.
 *   P  void * or uint64_t   i  int32_t   u  uint32_t   f  float
 *   t  text or None         k  text in key             e  bytes of handle
 *   q  int64_t              y  bytes in key: as many as the value's z
 *   J  list of structs in key, as many as the value's z
 *   A T V Z        struct in key as a dict: dict_layout.c
 *   o  object: NULL after an exception
 */
struct row {
    const char *name;  /* with the module: acl.rt.malloc */
    const char *usage; /* value, ret = acl.rt.name(argument, ...): and then text */
    const char *takes;
    const char *gives;
    unsigned flags;
    int (*call)(struct call *c); /* the C call; its result is what comes last in Python */
};

/* the C call neither blocks nor waits for a lock of a thread that does; or releases the GIL */
#define HOLDS_GIL 1u
#define BARE      2u /* there is no error code */
#define NOTHING   4u /* no result at all: None */
/*
 * What the call ends. It is refused with a BufferError as long as there are views of that (view.h):
 * memory, or a shared buffer, by its first P argument; of a device; any
 */
#define ENDS_MEMORY 8u
#define ENDS_BUFFER 16u
#define ENDS_DEVICE 32u
#define ENDS_ALL    64u
#define ENDS        (ENDS_MEMORY | ENDS_BUFFER | ENDS_DEVICE | ENDS_ALL)

/** One call from Python. NULL with an exception set only for what is wrong with the arguments. */
PyObject *invoke_row(const struct row *row, PyObject *const *args, Py_ssize_t n);

/** A str in UTF-8, for as long as it is there. "?" if it has surrogates, as names of files may. */
const char *invoke_text(PyObject *text);
