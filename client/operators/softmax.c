#include "aclnnop/aclnn_softmax.h"

#include <math.h>

#include "client/operators/operator.h"

#define CHUNK 512

/* --- rules --- */

static aclnnStatus find_type(struct operator_call *call)
{
    const struct data_type *self = data_type_find(call->in[0].type);
    const struct data_type *out = data_type_find(call->out.type);

    if (self->class != TYPE_FLOATING || out->class != TYPE_FLOATING)
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "aclnnSoftmax: self has type %s and out %s: both must be floating",
                            self->name, out->name);
    call->type = self;
    return ACLNN_SUCCESS;
}

/* The dimension `from` becomes the last one. */
static void make_last(struct view *v, uint32_t from)
{
    int64_t dim = v->dim[from], stride = v->stride[from];

    for (uint32_t i = from; i + 1 < v->dims; i++) {
        v->dim[i] = v->dim[i + 1];
        v->stride[i] = v->stride[i + 1];
    }
    v->dim[v->dims - 1] = dim;
    v->stride[v->dims - 1] = stride;
}

static aclnnStatus find_shape(struct operator_call *call)
{
    struct view *self = &call->in[0], *out = &call->out;
    int64_t dims = self->dims > 0 ? self->dims : 1;
    int64_t dim = call->option < 0 ? call->option + dims : call->option;
    char a[VIEW_TEXT], b[VIEW_TEXT];

    if (dim < 0 || dim >= dims)
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "aclnnSoftmax: dim is %lld, self has %lld dimension(s): from %lld to "
                            "%lld is allowed",
                            (long long)call->option, (long long)dims, (long long)-dims,
                            (long long)dims - 1);
    if (!view_is_like(self, out))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "aclnnSoftmax: self has the shape %s, and out %s: they must be equal",
                            view_text(self, a), view_text(out, b));
    if (self->dims == 0) {
        self->dims = out->dims = 1;
        self->dim[0] = out->dim[0] = 1;
        self->stride[0] = out->stride[0] = 1;
    }
    make_last(self, (uint32_t)dim);
    make_last(out, (uint32_t)dim);
    return ACLNN_SUCCESS;
}

static uint64_t line_length(const struct operator_call *call)
{
    return (uint64_t)call->out.dim[call->out.dims - 1];
}

static uint64_t count_lines(const struct operator_call *call)
{
    uint64_t length = line_length(call);

    return length > 0 ? view_count(&call->out) / length : 0;
}

static uint64_t weigh_line(const struct operator_call *call)
{
    return 30 * line_length(call);
}

/* --- the kernel --- */

struct line {
    const struct data_type *type;
    unsigned char *at;
    int64_t stride, length;
};

static struct line line_at(const struct view *v, uint64_t index)
{
    const struct data_type *type = data_type_find(v->type);
    int64_t length = v->dim[v->dims - 1];
    int64_t place = view_place(v, index * (uint64_t)length);

    return (struct line){.type = type,
                         .at = (unsigned char *)v->address + place * (int64_t)type->size,
                         .stride = v->stride[v->dims - 1],
                         .length = length};
}

/* The chunk that begins at element i. Returns how many elements it has. */
static size_t chunk_length(const struct line *l, int64_t i)
{
    return l->length - i < CHUNK ? (size_t)(l->length - i) : CHUNK;
}

static unsigned char *chunk_at(const struct line *l, int64_t i)
{
    return l->at + i * l->stride * (int64_t)l->type->size;
}

static size_t load_chunk(const struct line *l, int64_t i, double *x)
{
    size_t n = chunk_length(l, i);

    l->type->load_real(x, chunk_at(l, i), l->stride, n);
    return n;
}

static double largest_of(const struct line *l)
{
    double x[CHUNK], largest = -HUGE_VAL;

    for (int64_t i = 0; i < l->length; i += CHUNK) {
        size_t n = load_chunk(l, i, x);

        for (size_t k = 0; k < n; k++)
            largest = x[k] > largest ? x[k] : largest;
    }
    return largest;
}

static double sum_of(const struct line *l, double largest)
{
    double x[CHUNK], sum = 0;

    for (int64_t i = 0; i < l->length; i += CHUNK) {
        size_t n = load_chunk(l, i, x);

        for (size_t k = 0; k < n; k++)
            sum += exp(x[k] - largest);
    }
    return sum;
}

/* Each chunk is read before it is written: out may be self. */
static void write_line(const struct line *out, const struct line *self, double largest, double sum)
{
    double x[CHUNK];

    for (int64_t i = 0; i < self->length; i += CHUNK) {
        size_t n = load_chunk(self, i, x);

        for (size_t k = 0; k < n; k++)
            x[k] = exp(x[k] - largest) / sum;
        out->type->store_real(chunk_at(out, i), out->stride, x, n);
    }
}

static void run(const struct operator_call *call, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        struct line self = line_at(&call->in[0], i), out = line_at(&call->out, i);
        double largest = largest_of(&self);

        write_line(&out, &self, largest, sum_of(&self, largest));
    }
}

static const struct operator row = {.name = "aclnnSoftmax",
                                    .kind = ACL_KERNEL_TYPE_VECTOR,
                                    .inputs = {"self"},
                                    .dims_max = VIEW_DIMS_MAX,
                                    .find_type = find_type,
                                    .find_shape = find_shape,
                                    .count_pieces = count_lines,
                                    .weigh_piece = weigh_line,
                                    .run = run};

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim, aclTensor *out,
                                         uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self}, .out = out, .option = dim};

    return operator_prepare(&row, &a, workspaceSize, executor);
}

OPERATOR_PHASE_TWO(aclnnSoftmax, &row)
