#include "client/python/invoke.h"

#include <string.h>

#include "acl/acl_npud.h"
#include "client/python/callback.h"
#include "client/python/interrupt.h"
#include "client/python/dict_layout.h"
#include "client/python/view.h"

/* What to make of a conversion that failed. */
enum taken {
    TAKEN,
    UNFIT,       /* TypeError: args parse failed */
    UNFIT_VALUE, /* the same as a ValueError, where programs expect that */
    RAISED,      /* an exception of its own is set */
};

/* --- arguments --- */

/* Python has set an exception: is it one that says no more than "of another kind" or "too big"? */
static enum taken conversion_failed(void)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_OverflowError))
        return RAISED; /* from an __index__ of the program */
    PyErr_Clear();
    return UNFIT;
}

static enum taken take_modulo(PyObject *object, uint64_t *value)
{
    *value = PyLong_AsUnsignedLongLongMask(object);
    return *value == UINT64_MAX && PyErr_Occurred() ? conversion_failed() : TAKEN;
}

static enum taken take_between(PyObject *object, long low, long high, long *value)
{
    *value = PyLong_AsLong(object);
    if (*value == -1 && PyErr_Occurred())
        return conversion_failed();
    return *value < low || *value > high ? UNFIT : TAKEN;
}

static enum taken take_text(PyObject *object, const char **text)
{
    Py_ssize_t size;

    if (!PyUnicode_Check(object))
        return UNFIT;
    *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (!*text)
        return conversion_failed();
    return strlen(*text) == (size_t)size ? TAKEN : UNFIT;
}

static enum taken take_handle(PyObject *object, aclrtIpcEventHandle *handle)
{
    if (!PyBytes_Check(object) || PyBytes_GET_SIZE(object) != sizeof(*handle))
        return UNFIT_VALUE;
    memcpy(handle, PyBytes_AS_STRING(object), sizeof(*handle));
    return TAKEN;
}

static enum taken take_item(PyObject *object, char kind, void *items, Py_ssize_t i)
{
    uint64_t handle;
    long number;
    enum taken taken;

    if (kind != 'l') {
        taken = take_modulo(object, &handle);
        ((uint64_t *)items)[i] = handle;
    } else {
        taken = take_between(object, INT32_MIN, INT32_MAX, &number);
        ((int32_t *)items)[i] = (int32_t)number;
    }
    return taken;
}

/* An item's __index__ may change the list: its size is asked for again. */
static enum taken take_list(PyObject *object, char kind, union in *in)
{
    enum taken taken = TAKEN;
    Py_ssize_t n;

    if (!PyList_Check(object))
        return UNFIT_VALUE;
    n = PyList_GET_SIZE(object);
    in->list.count = (size_t)n;
    in->list.items = PyMem_Calloc((size_t)n + 1, sizeof(uint64_t));
    if (!in->list.items) {
        PyErr_NoMemory();
        return RAISED;
    }
    for (Py_ssize_t i = 0; i < n && taken == TAKEN; i++) {
        PyObject *item = i < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, i) : NULL;

        if (!item)
            return UNFIT;
        Py_INCREF(item);
        taken = take_item(item, kind, in->list.items, i);
        Py_DECREF(item);
    }
    return taken;
}

/* As many as the list argument before it. */
static enum taken take_sizes(PyObject *object, struct call *c, int i)
{
    enum taken taken = take_list(object, 'n', &c->in[i]);

    return taken == TAKEN && c->in[i].list.count != c->in[i - 1].list.count ? UNFIT_VALUE : taken;
}

static enum taken take_struct(const struct dict_layout *layout, PyObject *dict, void *to)
{
    if (dict_layout_take(layout, dict, to) == 0)
        return TAKEN;
    return conversion_failed() == RAISED ? RAISED : UNFIT_VALUE;
}

static enum taken take_structs(const struct dict_layout *layout, PyObject *object, union in *in)
{
    enum taken taken = TAKEN;
    PyObject *items;

    if (layout->none && object == Py_None)
        return TAKEN;
    if (layout->many && !PyList_Check(object))
        return UNFIT_VALUE;
    /* A tuple, which an item's __index__ does not change. */
    items = layout->many ? PyList_AsTuple(object) : PyTuple_Pack(1, object);
    if (!items)
        return RAISED;
    in->list.count = (size_t)PyTuple_GET_SIZE(items);
    in->list.items = PyMem_Calloc(in->list.count + 1, layout->size);
    if (!in->list.items) {
        PyErr_NoMemory();
        taken = RAISED;
    }
    for (size_t i = 0; i < in->list.count && taken == TAKEN; i++)
        taken = take_struct(layout, PyTuple_GET_ITEM(items, (Py_ssize_t)i),
                            (char *)in->list.items + i * layout->size);
    Py_DECREF(items);
    return taken;
}

static enum taken take_object(PyObject *object, char kind, union in *in)
{
    in->o = object;
    if (kind == 'b' && !PyBytes_Check(object))
        return UNFIT_VALUE;
    if (kind == 'F' && object == Py_None) {
        in->o = NULL;
        return TAKEN;
    }
    return (kind == 'f' || kind == 'F') && !PyCallable_Check(object) ? UNFIT : TAKEN;
}

static enum taken take_argument(struct call *c, int i, char kind, PyObject *object)
{
    union in *in = &c->in[i];
    enum taken taken;
    long number = 0;

    switch (kind) {
    case 'P':
        return take_modulo(object, &in->u);
    case 'u':
        taken = take_modulo(object, &in->u);
        in->w = (uint32_t)in->u;
        return taken;
    case 'i':
        taken = take_between(object, INT32_MIN, INT32_MAX, &number);
        in->i = (int32_t)number;
        return taken;
    case 'm':
        taken = take_between(object, 0, UINT32_MAX, &number);
        in->w = (uint32_t)number;
        return taken;
    case 'k':
        taken = take_modulo(object, &in->u);
        return taken == TAKEN && in->u >= KEY_SIZE ? UNFIT_VALUE : taken;
    case 's':
        return take_text(object, &in->s);
    case 'e':
        return take_handle(object, &c->handle);
    case 'l':
    case 'h':
        return take_list(object, kind, in);
    case 'n':
        return take_sizes(object, c, i);
    default:
        return dict_layout_find(kind) ? take_structs(dict_layout_find(kind), object, in)
                                      : take_object(object, kind, in);
    }
}

/* --- what is wrong with them, in words --- */

static const char *kind_text(char kind)
{
    switch (kind) {
    case 'i':
        return "an int from -2147483648 to 2147483647";
    case 'm':
        return "an int from 0 to 4294967295";
    case 'k':
        return "a length from 0 to 1023";
    case 's':
        return "a str without NUL and surrogates";
    case 'b':
        return "a bytes object";
    case 'e':
        return "an exported event, a bytes object of length 64";
    case 'l':
        return "a list of ints from -2147483648 to 2147483647";
    case 'h':
        return "a list of ints";
    case 'n':
        return "a list of ints, as long as the list before it,";
    case 'f':
        return "callable";
    case 'F':
        return "callable or None";
    default:
        return dict_layout_find(kind) ? dict_layout_find(kind)->text : "an int";
    }
}

/*
 * "dev_ptr, ret = acl.rt.malloc(size, policy): and so on": where the names of the arguments begin.
 */
static const char *usage_arguments(const char *usage)
{
    return usage + strcspn(usage, "(") + 1;
}

static int usage_length(const char *usage)
{
    return (int)(strcspn(usage, ")") + (strchr(usage, ')') != NULL));
}

/* The name of argument i as the usage has it, and its length. */
static const char *argument_name(const char *usage, int i, int *length)
{
    const char *name = usage_arguments(usage);

    for (; i > 0 && *name; i--) {
        name += strcspn(name, ",");
        name += strspn(name, ", ");
    }
    name += strspn(name, "[");
    *length = (int)strcspn(name, ",])");
    return name;
}

static enum taken say_unfit(const struct row *row, int i, char kind, PyObject *object,
                            enum taken unfit)
{
    int length;
    const char *name = argument_name(row->usage, i, &length);
    PyObject *label = PyUnicode_FromStringAndSize(name, length);
    PyObject *usage = PyUnicode_FromStringAndSize(row->usage, usage_length(row->usage));

    if (label && usage)
        PyErr_Format(unfit == UNFIT ? PyExc_TypeError : PyExc_ValueError,
                     "%s args parse failed: argument %d (%U) must be %s, and this %.200s is not; "
                     "usage: %U",
                     row->name, i + 1, label, kind_text(kind), Py_TYPE(object)->tp_name, usage);
    Py_XDECREF(label);
    Py_XDECREF(usage);
    return RAISED;
}

static enum taken say_count(const struct row *row, size_t least, size_t most, Py_ssize_t n)
{
    PyObject *usage = PyUnicode_FromStringAndSize(row->usage, usage_length(row->usage));

    if (usage)
        PyErr_Format(PyExc_TypeError,
                     least == most
                         ? "%s args parse failed: it takes %zu arguments, and not %zd; "
                           "usage: %U"
                         : "%s args parse failed: it takes at most %zu arguments, and not "
                           "%zd; usage: %U",
                     row->name, most, n, usage);
    Py_XDECREF(usage);
    return RAISED;
}

/* TAKEN or RAISED. */
static enum taken take_all(const struct row *row, struct call *c, PyObject *const *args,
                           Py_ssize_t n)
{
    size_t required = strcspn(row->takes, "|");
    const char *kind = row->takes;
    size_t most = strlen(kind) - (kind[required] == '|');
    enum taken taken = TAKEN;

    /* Programs hand arguments to functions that have none: acl.rt.get_context(0). */
    if (!*kind)
        return TAKEN;
    if ((size_t)n < required || (size_t)n > most)
        return say_count(row, required, most, n);
    for (int i = 0; taken == TAKEN && i < n; i++, kind++) {
        kind += *kind == '|';
        taken = take_argument(c, i, *kind, args[i]);
        if (taken == UNFIT || taken == UNFIT_VALUE)
            taken = say_unfit(row, i, *kind, args[i], taken);
    }
    return taken;
}

static void free_lists(const struct row *row, struct call *c)
{
    for (int i = 0; row->takes[i]; i++)
        if (strchr("lhn", row->takes[i]) || dict_layout_find(row->takes[i]))
            PyMem_Free(c->in[i].list.items);
}

/* --- results --- */

static PyObject *give_structs(const struct dict_layout *layout, const char *from, size_t count)
{
    PyObject *list, *item;

    if (!layout->many)
        return dict_layout_give(layout, from);
    list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        item = dict_layout_give(layout, from + i * layout->size);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *give_value(struct call *c, int i, char kind)
{
    union out *out = &c->out[i];

    switch (kind) {
    case 'P':
        return PyLong_FromUnsignedLongLong(out->u);
    case 'i':
        return PyLong_FromLong(out->i);
    case 'u':
        return PyLong_FromUnsignedLong(out->w);
    case 'q':
        return PyLong_FromLongLong(out->l);
    case 'f':
        return PyFloat_FromDouble((double)out->f);
    case 't':
        if (!out->s)
            Py_RETURN_NONE;
        return PyUnicode_DecodeUTF8(out->s, (Py_ssize_t)strlen(out->s), "replace");
    case 'k':
        return PyUnicode_DecodeUTF8(c->key, (Py_ssize_t)strnlen(c->key, KEY_SIZE), "replace");
    case 'e':
        return PyBytes_FromStringAndSize(c->handle.reserved, sizeof(c->handle));
    case 'y':
        return PyBytes_FromStringAndSize(c->key, (Py_ssize_t)out->z);
    case 'o':
        return out->o;
    default:
        return give_structs(dict_layout_find(kind), c->key, out->z);
    }
}

static PyObject *give_one(const struct row *row, struct call *c, int error, int i)
{
    return row->gives[i] ? give_value(c, i, row->gives[i]) : PyLong_FromLong(error);
}

static PyObject *give_all(const struct row *row, struct call *c, int error)
{
    int n = (int)strlen(row->gives) + !(row->flags & BARE);
    PyObject *result, *value;

    if (row->flags & NOTHING)
        Py_RETURN_NONE;
    if (n == 1)
        return give_one(row, c, error, 0);
    result = PyTuple_New(n);
    for (int i = 0; result && i < n; i++) {
        value = give_one(row, c, error, i);
        if (!value)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, i, value);
    }
    return result;
}

/* --- the call --- */

static int call_once(const struct row *row, struct call *c)
{
    struct interrupt_scope outer = interrupt_enter(true);
    int error;

    if (row->flags & HOLDS_GIL) {
        error = row->call(c);
    } else {
        Py_BEGIN_ALLOW_THREADS error = row->call(c);
        Py_END_ALLOW_THREADS
    }
    interrupt_leave(outer);
    callback_let_go();
    return error;
}

static int call_out(const struct row *row, struct call *c)
{
    int error;

    do {
        error = call_once(row, c);
    } while (error == ACLNPUD_ERROR_INTERRUPTED && interrupt_again() == 0);
    return error;
}

static void *ending_argument(const struct row *row, struct call *c)
{
    size_t i = strcspn(row->takes, "P");

    return row->takes[i] ? c->in[i].p : NULL;
}

const char *invoke_text(PyObject *text)
{
    const char *utf8 = PyUnicode_AsUTF8(text);

    PyErr_Clear();
    return utf8 ? utf8 : "?";
}

/* For npu-run --check: from where the program calls. The names are the code's, which lives on. */
static bool tell_caller(void)
{
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    PyCodeObject *code;

    if (!frame)
        return false;
    code = PyFrame_GetCode(frame);
    aclnpudCheckCaller(invoke_text(code->co_filename), invoke_text(code->co_name),
                       (uint32_t)PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    return true;
}

PyObject *invoke_row(const struct row *row, PyObject *const *args, Py_ssize_t n)
{
    PyObject *result = NULL;
    enum taken taken;
    struct call c;
    int error;

    memset(c.in, 0, sizeof(c.in));
    memset(c.out, 0, sizeof(c.out));
    memset(&c.handle, 0, sizeof(c.handle));
    if (row->gives[0] && strchr("kyAJTVZ", row->gives[0]))
        memset(c.key, 0, sizeof(c.key));
    taken = take_all(row, &c, args, n);
    if (taken == TAKEN && !((row->flags & ENDS) && view_refuses(row, ending_argument(row, &c)))) {
        bool told = aclnpudCheckCaller(NULL, NULL, 0) && tell_caller();

        error = call_out(row, &c);
        if (told)
            aclnpudCheckCaller(NULL, NULL, 0);
        result = PyErr_Occurred() ? NULL : give_all(row, &c, error);
    }
    free_lists(row, &c);
    return result;
}
