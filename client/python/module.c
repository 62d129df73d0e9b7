/* The module acl with its submodules, made of the rows of functions.inc. */
#include <string.h>

#include "acl/acl_npud.h"
#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt_queue.h"
#include "client/python/invoke.h"
#include "client/python/callback.h"
#include "client/python/event_future.h"
#include "client/python/function_docs.h" /* made by describe.py */
#include "client/python/interrupt.h"
#include "client/python/own.h"
#include "client/python/item_dims.h"
#include "client/python/queue_attr.h"
#include "client/python/thread.h"
#include "client/python/util.h"
#include "client/python/view.h"

/* --- what rows say in their calls --- */

#define P(n)      (c->in[n].p)
#define U(n)      (c->in[n].u)
#define Z(n)      (c->in[n].z)
#define I(n)      (c->in[n].i)
#define W(n)      (c->in[n].w)
#define S(n)      (c->in[n].s)
#define O(n)      (c->in[n].o)
#define LIST(n)   c->in[n].list.items, c->in[n].list.count
#define O_P(n)    (&c->out[n].p)
#define O_U(n)    (&c->out[n].u)
#define O_Z(n)    (&c->out[n].z)
#define O_L(n)    (&c->out[n].l)
#define O_I(n)    (&c->out[n].i)
#define O_W(n)    (&c->out[n].w)
#define O_F(n)    (&c->out[n].f)
#define O_T(n)    (&c->out[n].s)
#define O_O(n)    (&c->out[n].o)
#define O_ENUM(n) ((void *)&c->out[n].i)
#define DICT(n)   (c->in[n].list.items)
#define STRUCT    ((void *)c->key)
#define CONFIG(n) (DICT(n) ? &(aclrtMallocConfig){LIST(n)} : NULL)
/* of the four batch copies */
#define BATCH                                                                                      \
    c->in[0].list.items, c->in[1].list.items, c->in[2].list.items, c->in[3].list.items,            \
        c->in[0].list.count, c->in[4].list.items, c->in[5].list.items, c->in[4].list.count
#define USERS_MAX (KEY_SIZE / sizeof(aclrtMemUsageInfo))

/* The message is said to come from the line of Python that made it. */
static int app_log(int32_t level, const char *text)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    const char *function = code ? invoke_text(code->co_name) : "?";
    const char *file = code ? invoke_text(code->co_filename) : "?";
    uint32_t line = frame ? (uint32_t)PyFrame_GetLineNumber(frame) : 0;

    Py_BEGIN_ALLOW_THREADS;
    aclAppLog((aclLogLevel)level, function, file, line, "%s", text);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(code);
    return 0;
}

/* --- rows --- */

#define PREFIX_top  "acl."
#define PREFIX_rt   "acl.rt."
#define PREFIX_tdt  "acl.tdt."
#define PREFIX_util "acl.util."
#define PREFIX_npud "acl.npud."

#define ROW(module, fname, takes_, gives_, flags_, cfunction, expression, usage_)                  \
    static int call_##module##_##fname(struct call *c)                                             \
    {                                                                                              \
        (void)c;                                                                                   \
        return expression;                                                                         \
    }                                                                                              \
    static const struct row row_##module##_##fname = {                                             \
        .name = PREFIX_##module #fname,                                                            \
        .usage = (usage_),                                                                         \
        .takes = takes_,                                                                           \
        .gives = gives_,                                                                           \
        .flags = flags_,                                                                           \
        .call = call_##module##_##fname,                                                           \
    };                                                                                             \
    static PyObject *python_##module##_##fname(PyObject *self, PyObject *const *args,              \
                                               Py_ssize_t n)                                       \
    {                                                                                              \
        (void)self;                                                                                \
        return invoke_row(&row_##module##_##fname, args, n);                                       \
    }
#include "client/python/functions.inc"
#undef ROW

enum module { MODULE_top, MODULE_rt, MODULE_tdt, MODULE_util, MODULE_npud, MODULES };

static const char *const module_names[MODULES] = {"acl", "acl.rt", "acl.tdt", "acl.util",
                                                  "acl.npud"};
static const char *const module_docs[MODULES] = {
    "AscendCL for Python on npud: handles and addresses are ints, results are (value, ret).",
    "Devices, contexts, streams, events, callbacks, memory.",
    "Shared buffers, and the queues that carry them between threads and processes.",
    "Addresses of Python objects, and threads for callbacks.",
    "What npud has beyond the common interface.",
};

static struct function {
    enum module module;
    const char *c_name;
    PyMethodDef definition[2]; /* one, and the end */
} functions[] = {
#define ROW(module_, fname, takes, gives, flags, cfunction, expression, usage)                     \
    {                                                                                              \
        .module = MODULE_##module_,                                                                \
        .c_name = #cfunction,                                                                      \
        .definition = {{.ml_name = #fname,                                                         \
                        .ml_meth = (PyCFunction)(void (*)(void))python_##module_##_##fname,        \
                        .ml_flags = METH_FASTCALL,                                                 \
                        .ml_doc = DOC_##module_##_##fname}},                                       \
    },
#include "client/python/functions.inc"
#undef ROW
};

#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

const struct own_kind own_kinds[] = {
#define OWNED(create, end, argument, memory)                                                       \
    {(PyCFunction)(void (*)(void))python_##create, &row_##create, &row_##end, argument, memory},
#include "client/python/owned.inc"
#undef OWNED
    {0},
};

/* Functions of the library that only say that they are not there. */
static const char *const unsupported[] = {
#define STATUS(name, ...)               #name,
#define VALUE(type, nothing, name, ...) #name,
#define DESTRUCTOR(name, ...)           #name,
#include "client/abi/unsupported.inc"
#undef STATUS
#undef VALUE
#undef DESTRUCTOR
};

static int is_there(const struct function *f)
{
    for (size_t i = 0; i < sizeof(unsupported) / sizeof(unsupported[0]); i++)
        if (strcmp(unsupported[i], f->c_name) == 0)
            return 0;
    return 1;
}

/* --- modules --- */

static int add_functions(PyObject *module, enum module which)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (functions[i].module == which && is_there(&functions[i]) &&
            PyModule_AddFunctions(module, functions[i].definition) < 0)
            return -1;
    return 0;
}

/* As an attribute of acl, and by its dotted name: import acl.rt. */
static int add_submodule(PyObject *acl, enum module which)
{
    PyObject *module = PyModule_New(module_names[which]);
    int error;

    if (!module)
        return -1;
    error = PyModule_SetDocString(module, module_docs[which]) < 0 ||
            add_functions(module, which) < 0 ||
            PyObject_SetAttrString(acl, strchr(module_names[which], '.') + 1, module) < 0 ||
            (which == MODULE_npud && own_add(module) < 0) ||
            PyDict_SetItemString(PyImport_GetModuleDict(), module_names[which], module) < 0;
    Py_DECREF(module);
    return error ? -1 : 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "acl",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_acl(void);
PyMODINIT_FUNC PyInit_acl(void)
{
    PyObject *acl;

    definition.m_doc = module_docs[MODULE_top];
    if (callback_init() < 0 || interrupt_init() < 0 || thread_init() < 0 || view_init() < 0)
        return NULL;
    acl = PyModule_Create(&definition);
    if (!acl)
        return NULL;
    if (add_functions(acl, MODULE_top) < 0 || add_submodule(acl, MODULE_rt) < 0 ||
        add_submodule(acl, MODULE_tdt) < 0 || add_submodule(acl, MODULE_util) < 0 ||
        add_submodule(acl, MODULE_npud) < 0)
        Py_CLEAR(acl);
    return acl;
}
