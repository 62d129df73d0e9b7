#include "client/operators/elementwise.h"

#include <string.h>

#define CHUNK 512 /* elements: three arrays of them fit into the stack and the first cache */

static bool other_is_scalar(const struct operator* op)
{
    return !op->inputs[1];
}

/* NULL: there is none. */
static const struct number *find_alpha(const struct operator_call *call)
{
    int i = other_is_scalar(call->op) ? 1 : 0;

    return call->op->scalars[i] ? &call->scalar[i] : NULL;
}

/* --- rules --- */

aclnnStatus elementwise_find_type(struct operator_call *call)
{
    const struct operator* op = call->op;
    const struct data_type *self = data_type_find(call->in[0].type);
    const struct data_type *out = data_type_find(call->out.type);
    const struct number *alpha = find_alpha(call);

    call->type = other_is_scalar(op) ? data_type_promote_scalar(self, call->scalar[0].type)
                                     : data_type_promote(self, data_type_find(call->in[1].type));
    if (alpha && !data_type_converts(alpha->type, call->type))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: alpha has type %s, which does not convert to %s, the type of the "
                            "sum",
                            op->name, alpha->type->name, call->type->name);
    if (!data_type_converts(call->type, out))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: the result has type %s, which does not convert to %s, the type of "
                            "%s",
                            op->name, call->type->name, out->name,
                            op->in_place ? op->inputs[0] : "out");
    return ACLNN_SUCCESS;
}

/* The scalar is a view that repeats it: its address is found when the kernel runs. */
static void make_scalar_view(struct operator_call *call)
{
    call->in[1] = (struct view){.type = call->scalar[0].type->id};
}

aclnnStatus elementwise_find_shape(struct operator_call *call)
{
    struct view result = {0};
    struct view *views[] = {&call->out, &call->in[0], &call->in[1]};
    char a[VIEW_TEXT], b[VIEW_TEXT], c[VIEW_TEXT];

    if (other_is_scalar(call->op))
        make_scalar_view(call);
    if (!view_broadcast(&call->in[0], &call->in[1], &result))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: the shapes %s and %s cannot be broadcast: sizes that differ must "
                            "be 1",
                            call->op->name, view_text(&call->in[0], a), view_text(&call->in[1], b));
    if (!view_is_like(&result, &call->out))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "%s: %s and %s give the shape %s, and %s is %s", call->op->name,
                            view_text(&call->in[0], a), view_text(&call->in[1], b),
                            view_text(&result, c), call->op->in_place ? "the target" : "out",
                            view_text(&call->out, (char[VIEW_TEXT]){0}));
    view_expand(&call->in[0], &result);
    view_expand(&call->in[1], &result);
    views_merge(views, 3);
    return ACLNN_SUCCESS;
}

uint64_t elementwise_count(const struct operator_call *call)
{
    return view_count(&call->out);
}

uint64_t elementwise_weigh(const struct operator_call *call)
{
    (void)call;
    return 2;
}

/* --- the kernel --- */

/* A run of elements that are neighbours along the last dimension. */
struct span {
    const struct data_type *type;
    unsigned char *at;
    int64_t stride;
};

static struct span span_at(const struct view *v, uint64_t index)
{
    const struct data_type *type = data_type_find(v->type);

    return (struct span){.type = type,
                         .at = (unsigned char *)v->address +
                               view_place(v, index) * (int64_t)type->size,
                         .stride = v->stride[v->dims - 1]};
}

/* Values become values of this type, as far as they are not. */
static void narrow_real(const struct data_type *type, double *values, size_t n)
{
    double narrow[CHUNK];

    type->store_real(narrow, 1, values, n);
    type->load_real(values, narrow, 1, n);
}

static void narrow_whole(const struct data_type *type, int64_t *values, size_t n)
{
    int64_t narrow[CHUNK];

    type->store_whole(narrow, 1, values, n);
    type->load_whole(values, narrow, 1, n);
}

/* As values of the type that is computed in. */
static void load_real(const struct data_type *type, double *x, const struct span *in, size_t n)
{
    int64_t whole[CHUNK];
    double narrow[CHUNK];

    if (in->type->class == TYPE_FLOATING) {
        in->type->load_real(x, in->at, in->stride, n);
        if (in->type != type)
            narrow_real(type, x, n);
        return;
    }
    in->type->load_whole(whole, in->at, in->stride, n);
    type->store_whole(narrow, 1, whole, n);
    type->load_real(x, narrow, 1, n);
}

static void run_real(const struct operator_call *call, const struct span *out,
                     const struct span *in, size_t n, elementwise_real_fn *compute)
{
    const struct number *alpha = find_alpha(call);
    double x[2][CHUNK];

    for (int i = 0; i < 2; i++)
        load_real(call->type, x[i], &in[i], n);
    compute(x[0], x[1], alpha ? number_real(alpha) : 1, n);
    if (out->type != call->type)
        narrow_real(call->type, x[0], n);
    out->type->store_real(out->at, out->stride, x[0], n);
}

static void run_whole(const struct operator_call *call, const struct span *out,
                      const struct span *in, size_t n, elementwise_whole_fn *compute)
{
    const struct number *alpha = find_alpha(call);
    int64_t x[2][CHUNK];

    for (int i = 0; i < 2; i++)
        in[i].type->load_whole(x[i], in[i].at, in[i].stride, n);
    compute(x[0], x[1], alpha ? number_whole(alpha) : 1, n);
    if (out->type != call->type)
        narrow_whole(call->type, x[0], n);
    out->type->store_whole(out->at, out->stride, x[0], n);
}

/* As many elements from index on as are in one span of all views, a chunk at most. */
static size_t length_at(const struct view *v, uint64_t index, uint64_t end)
{
    uint64_t row = (uint64_t)v->dim[v->dims - 1], n = row - index % row;

    if (n > end - index)
        n = end - index;
    return n < CHUNK ? (size_t)n : CHUNK;
}

void elementwise_run(const struct operator_call *call, uint64_t first, uint64_t end,
                     elementwise_real_fn *real, elementwise_whole_fn *whole)
{
    struct view other = call->in[1];
    size_t n;

    if (other_is_scalar(call->op))
        other.address = (void *)(uintptr_t)call->scalar[0].bytes;
    for (uint64_t index = first; index < end; index += n) {
        struct span out = span_at(&call->out, index);
        struct span in[] = {span_at(&call->in[0], index), span_at(&other, index)};

        n = length_at(&call->out, index, end);
        if (call->type->class == TYPE_FLOATING)
            run_real(call, &out, in, n, real);
        else
            run_whole(call, &out, in, n, whole);
    }
}
