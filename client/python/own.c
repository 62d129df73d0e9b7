#include "client/python/own.h"

#include <stdbool.h>

#include "acl/acl.h"
#include "client/python/view.h"

struct own {
    PyObject ob_base;
    const struct own_kind *kind;
    PyObject *argument; /* what ends it */
    uint64_t value;
    uint64_t size; /* of memory; 0: not known before it is asked for */
    bool open;     /* guarded by the GIL, as all of it */
};

static PyObject *error_type;

/* --- creating --- */

static int raise_code(const struct row *row, int code)
{
    const char *text = aclGetRecentErrMsg();
    PyObject *message = PyUnicode_FromFormat("%s: error %d: %s", row->name, code, text ? text : "");
    PyObject *error = message ? PyObject_CallOneArg(error_type, message) : NULL;
    PyObject *ret = PyLong_FromLong(code);

    if (error && ret && PyObject_SetAttrString(error, "ret", ret) == 0)
        PyErr_SetObject(error_type, error);
    Py_XDECREF(message);
    Py_XDECREF(error);
    Py_XDECREF(ret);
    return -1;
}

static const struct own_kind *find_kind(PyObject *args)
{
    PyObject *function = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : Py_None;

    for (const struct own_kind *k = own_kinds; PyCFunction_Check(function) && k->function; k++)
        if (PyCFunction_GET_FUNCTION(function) == k->function)
            return k;
    PyErr_Format(PyExc_TypeError,
                 "acl.npud.own args parse failed: argument 1 (function) must be a function of acl "
                 "that creates what another one ends, and %R is not; usage: owned = "
                 "acl.npud.own(function, ...)",
                 function);
    return NULL;
}

/* From (value, ret), ret, or a bare value, which is 0 when there is none. */
static int take_result(struct own *own, PyObject *result)
{
    const struct row *row = own->kind->create;
    PyObject *value = PyTuple_Check(result) ? PyTuple_GET_ITEM(result, 0) : result;
    PyObject *ret =
        PyTuple_Check(result) ? PyTuple_GET_ITEM(result, PyTuple_GET_SIZE(result) - 1) : result;
    int code = row->flags & BARE ? 0 : (int)PyLong_AsLong(ret);

    if (code != ACL_SUCCESS)
        return raise_code(row, code);
    own->value = PyLong_AsUnsignedLongLongMask(row->gives[0] ? value : own->argument);
    if (PyErr_Occurred())
        return -1;
    if (row->flags & BARE && own->value == 0)
        return raise_code(row, ACL_ERROR_BAD_ALLOC);
    return 0;
}

static int own_create(struct own *own, PyObject *const *args, Py_ssize_t n)
{
    const struct own_kind *kind = own->kind;
    PyObject *result = invoke_row(kind->create, args, n);
    int error;

    if (!result)
        return -1;
    if (kind->argument >= 0)
        own->argument = Py_NewRef(args[kind->argument]);
    if (kind->memory >= 0)
        own->size = PyLong_AsUnsignedLongLongMask(args[kind->memory]);
    error = take_result(own, result);
    own->open = error == 0;
    Py_DECREF(result);
    return error;
}

static PyObject *own_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    const struct own_kind *kind;
    struct own *own;

    if (keywords && PyDict_Size(keywords) > 0)
        return PyErr_Format(PyExc_TypeError, "acl.npud.own takes no keyword arguments");
    kind = find_kind(args);
    own = kind ? (struct own *)type->tp_alloc(type, 0) : NULL;
    if (!own)
        return NULL;
    own->kind = kind;
    if (own_create(own, &PyTuple_GET_ITEM(args, 1), PyTuple_GET_SIZE(args) - 1) < 0)
        Py_CLEAR(own);
    return (PyObject *)own;
}

/* --- ending --- */

/*
 * Not open before the call: another thread must not end it, too. It stays if the call fails, or is
 * refused because of a view; a call that a signal interrupts has ended it by force.
 */
static int own_end(struct own *own)
{
    PyObject *argument, *result;
    int code;

    if (!own->open)
        return 0;
    argument = own->argument ? Py_NewRef(own->argument) : PyLong_FromUnsignedLongLong(own->value);
    if (!argument)
        return -1;
    own->open = false;
    result = invoke_row(own->kind->end, &argument, 1);
    Py_DECREF(argument);
    if (!result) {
        own->open = PyErr_ExceptionMatches(PyExc_BufferError);
        return -1;
    }
    code = (int)PyLong_AsLong(result);
    Py_DECREF(result);
    own->open = code != ACL_SUCCESS;
    return code == ACL_SUCCESS ? 0 : raise_code(own->kind->end, code);
}

static PyObject *own_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (own_end((struct own *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *own_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args;
    (void)n;
    return own_close(self, NULL);
}

static PyObject *own_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* What functions take it for. Not ValueError, which they would take for a wrong type. */
static PyObject *own_index(PyObject *self)
{
    struct own *own = (struct own *)self;

    if (!own->open)
        return PyErr_Format(error_type, "acl.npud.own: what %s made has ended, or was detached",
                            own->kind->create->name);
    return PyLong_FromUnsignedLongLong(own->value);
}

static PyObject *own_detach(PyObject *self, PyObject *unused)
{
    PyObject *value = own_index(self);

    (void)unused;
    if (value)
        ((struct own *)self)->open = false;
    return value;
}

/* As with ints, nothing ends by itself: some of it would wait, or needs another context. */
static void own_finalize(PyObject *self)
{
    struct own *own = (struct own *)self;
    PyObject *type, *value, *trace;

    if (!own->open)
        return;
    own->open = false; /* a warning that is kept holds the object, and it comes here again */
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_ResourceWarning(self, 1, "acl.npud.own: what %s made was not ended",
                              own->kind->create->name) < 0)
        PyErr_WriteUnraisable(self);
    PyErr_Restore(type, value, trace);
}

static void own_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    if (PyObject_CallFinalizerFromDealloc(self) < 0)
        return;
    Py_XDECREF(((struct own *)self)->argument);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- memory --- */

static int own_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct own *own = (struct own *)self;
    void *address = (void *)(uintptr_t)own->value;
    uint64_t size = own->size;

    buffer->obj = NULL;
    if (!own->open || own->kind->memory == OWN_NONE) {
        PyErr_Format(PyExc_BufferError, "acl.npud.own: what %s made %s", own->kind->create->name,
                     own->open ? "is not memory" : "has ended");
        return -1;
    }
    if (own->kind->memory == OWN_BUFFER)
        size = view_buffer_range(address, &address);
    else if (own->kind->memory == OWN_ALLOCATION)
        size = view_allocation_size(address);
    else if (own->argument) /* a registration: of the memory, whatever its address for kernels */
        address = (void *)(uintptr_t)PyLong_AsUnsignedLongLongMask(own->argument);
    return PyErr_Occurred() ? -1 : view_fill(address, size, buffer, flags);
}

/*
 * Never called, because the buffer is that of a view. That it is there tells numpy to hold the
 * buffer and not only the object.
 */
static void own_releasebuffer(PyObject *self, Py_buffer *buffer)
{
    (void)self;
    (void)buffer;
}

/* --- the types --- */

static PyMethodDef own_methods[] = {
    {"__enter__", own_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))own_exit, METH_FASTCALL, "Ends it, as close()."},
    {"close", own_close, METH_NOARGS, "owned.close(): ends it, once; acl.npud.Error if that fails"},
    {"detach", own_detach, METH_NOARGS,
     "value = owned.detach(): the int, which the program ends or gives away itself"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot own_slots[] = {
    {Py_tp_new, own_new},
    {Py_tp_finalize, own_finalize},
    {Py_tp_dealloc, own_dealloc},
    {Py_tp_methods, own_methods},
    {Py_nb_index, own_index},
    {Py_nb_int, own_index},
    {Py_bf_getbuffer, own_getbuffer},
    {Py_bf_releasebuffer, own_releasebuffer},
    {Py_tp_doc, (void *)"owned = acl.npud.own(function, ...): calls function(...), which creates "
                        "something; the end of a with statement, or close(), ends it"},
    {0, NULL},
};

static PyType_Spec own_spec = {
    .name = "acl.npud.own",
    .basicsize = sizeof(struct own),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = own_slots,
};

int own_add(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&own_spec);
    int error;

    error_type = PyErr_NewExceptionWithDoc("acl.npud.Error",
                                           "A call of acl.npud.own failed: ret is its code.",
                                           PyExc_RuntimeError, NULL);
    error = !type || !error_type || PyModule_AddObjectRef(module, "own", type) < 0 ||
            PyModule_AddObjectRef(module, "Error", error_type) < 0;
    Py_XDECREF(type);
    return error ? -1 : 0;
}
