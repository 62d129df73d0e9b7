/*
 * Products of matrices, by OpenBLAS, in tiles of TILE x TILE elements of out. The kernel copies
 * what a tile needs into memory of the block, as single precision, and OpenBLAS multiplies it
 * there: it needs to know nothing of types and strides, and an address that is wrong is a fault of
 * the kernel, never one inside of OpenBLAS or of a thread of OpenBLAS, which would end the process.
 */
#include "aclnnop/aclnn_matmul.h"

#include <cblas.h>
#include <signal.h>
#include <string.h>

#include "acl/acl_npud_kernel.h"
#include "client/operators/operator.h"
#include "proto/util/float16.h"

/*
 * 64 x 64 x 64 multiplications are as many as OpenBLAS does in the calling thread, however many
 * threads it has: the blocks of the kernel are the threads.
 */
#define TILE     64
#define DIMS_MAX 6

enum { KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32 };

/* --- rules --- */

static aclnnStatus find_type(struct operator_call *call)
{
    const struct data_type *a = data_type_find(call->in[0].type);
    const struct data_type *b = data_type_find(call->in[1].type);
    const struct data_type *out = data_type_find(call->out.type);
    bool vectors = call->in[0].dims == 1 && call->in[1].dims == 1;
    int64_t mode = vectors ? KEEP_DTYPE : call->option;

    for (int i = 0; i < 3; i++) {
        const struct data_type *t = i == 0 ? a : i == 1 ? b : out;

        if (t->class != TYPE_FLOATING || t->id == ACL_DOUBLE)
            return failure_tell(ACLNN_ERR_PARAM_INVALID,
                                "aclnnMatmul: %s has type %s: ACL_FLOAT, ACL_FLOAT16 and ACL_BF16 "
                                "are allowed",
                                i == 0   ? "self"
                                : i == 1 ? "mat2"
                                         : "out",
                                t->name);
    }
    if (a != b && (a->id == ACL_BF16 || b->id == ACL_BF16))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "aclnnMatmul: self has type %s, and mat2 %s: ACL_BF16 goes with itself "
                            "alone",
                            a->name, b->name);
    call->type = data_type_promote(a, b);
    if (mode < KEEP_DTYPE || mode > USE_HF32 || (mode == USE_FP16 && call->type->id == ACL_BF16) ||
        (mode == USE_HF32 && call->type->id != ACL_FLOAT))
        return failure_tell(ACLNN_ERR_PARAM_INVALID,
                            "aclnnMatmul: cubeMathType is %lld, which there is not for %s",
                            (long long)mode, call->type->name);
    call->option = mode;
    return ACLNN_SUCCESS;
}

/* A dimension of size 1 before dimension `at`. */
static void insert_dimension(struct view *v, uint32_t at)
{
    for (uint32_t i = v->dims; i > at; i--) {
        v->dim[i] = v->dim[i - 1];
        v->stride[i] = v->stride[i - 1];
    }
    v->dim[at] = 1;
    v->stride[at] = 0;
    v->dims++;
}

/* What is before the last two dimensions. */
static struct view batch_of(const struct view *v)
{
    struct view batch = *v;

    batch.dims -= 2;
    return batch;
}

static void expand_batch(struct view *v, const struct view *batch)
{
    struct view like = *batch, old = *v;

    like.dims = batch->dims + 2;
    memcpy(&like.dim[batch->dims], &old.dim[old.dims - 2], 2 * sizeof(like.dim[0]));
    view_expand(v, &like);
}

static aclnnStatus refuse_shapes(const struct operator_call *call, const char *why)
{
    char a[VIEW_TEXT], b[VIEW_TEXT], c[VIEW_TEXT];

    return failure_tell(
        ACLNN_ERR_PARAM_INVALID, "aclnnMatmul: self has the shape %s, mat2 %s, and out %s: %s",
        view_text(&call->in[0], a), view_text(&call->in[1], b), view_text(&call->out, c), why);
}

/* Of two vectors: as if it were a matrix of one element. */
static void make_matrix_of_one(struct view *out)
{
    out->dims = 2;
    out->dim[0] = out->dim[1] = 1;
    out->stride[0] = out->stride[1] = 0;
}

/* Vectors become matrices. False: out has not the dimensions for that. */
static bool make_matrices(struct view *a, struct view *b, struct view *out)
{
    bool left = a->dims == 1, right = b->dims == 1;

    if (left)
        insert_dimension(a, 0);
    if (right)
        insert_dimension(b, 1);
    if (left && right) {
        if (out->dims > 1 || (out->dims == 1 && out->dim[0] != 1))
            return false;
        make_matrix_of_one(out);
        return true;
    }
    if (out->dims < 1)
        return false;
    if (left)
        insert_dimension(out, out->dims - 1);
    if (right)
        insert_dimension(out, out->dims);
    return out->dims >= 2;
}

/* Afterwards all three have the same batch, rows and columns last. */
static aclnnStatus find_shape(struct operator_call *call)
{
    struct view a = call->in[0], b = call->in[1], out = call->out;
    struct view batch, batch_a, batch_b, batch_out;

    if (a.dims == 0 || b.dims == 0)
        return refuse_shapes(call, "self and mat2 have one dimension at least");
    if (!make_matrices(&a, &b, &out))
        return refuse_shapes(call, "out has not the dimensions of the product");
    if (a.dim[a.dims - 1] != b.dim[b.dims - 2])
        return refuse_shapes(call, "the columns of self are not as many as the rows of mat2");
    batch_a = batch_of(&a);
    batch_b = batch_of(&b);
    batch_out = batch_of(&out);
    if (!view_broadcast(&batch_a, &batch_b, &batch))
        return refuse_shapes(call, "the leading dimensions cannot be broadcast");
    if (!view_is_like(&batch, &batch_out) || out.dim[out.dims - 2] != a.dim[a.dims - 2] ||
        out.dim[out.dims - 1] != b.dim[b.dims - 1])
        return refuse_shapes(call, "out has not the shape of the product");
    expand_batch(&a, &batch);
    expand_batch(&b, &batch);
    call->in[0] = a;
    call->in[1] = b;
    call->out = out;
    return ACLNN_SUCCESS;
}

static uint64_t tiles_of(int64_t size)
{
    return ((uint64_t)size + TILE - 1) / TILE;
}

static uint64_t count_tiles(const struct operator_call *call)
{
    const struct view *out = &call->out;
    struct view batch = batch_of(out);

    return view_count(&batch) * tiles_of(out->dim[out->dims - 2]) *
           tiles_of(out->dim[out->dims - 1]);
}

static uint64_t weigh_tile(const struct operator_call *call)
{
    const struct view *a = &call->in[0], *out = &call->out;
    int64_t rows = out->dim[out->dims - 2], columns = out->dim[out->dims - 1];

    rows = rows < TILE ? rows : TILE;
    columns = columns < TILE ? columns : TILE;
    return (uint64_t)(rows * columns) * ((uint64_t)a->dim[a->dims - 1] / 8 + 1);
}

/* --- the kernel --- */

/* One matrix of a view. */
struct matrix {
    unsigned char *at;
    const struct data_type *type;
    int64_t row, column; /* strides */
};

static struct matrix matrix_at(const struct view *v, uint64_t batch_index)
{
    const struct data_type *type = data_type_find(v->type);
    struct view batch = batch_of(v);
    int64_t place = view_place(&batch, batch_index);

    return (struct matrix){.at = (unsigned char *)v->address + place * (int64_t)type->size,
                           .type = type,
                           .row = v->stride[v->dims - 2],
                           .column = v->stride[v->dims - 1]};
}

static void load_floats(float *to, const void *from, const struct data_type *type, int64_t stride,
                        int64_t n)
{
    const uint16_t *narrow = from;
    const float *wide = from;

    if (type->id == ACL_FLOAT)
        for (int64_t i = 0; i < n; i++)
            to[i] = wide[i * stride];
    else if (type->id == ACL_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = bf16_to_float(narrow[i * stride]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = half_to_float(narrow[i * stride]);
}

/* A part of a matrix, row by row, each TILE apart from the next. */
static void copy_part(float *to, const struct matrix *m, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, bool as_half)
{
    for (int64_t r = 0; r < rows; r++) {
        float *line = to + r * TILE;
        int64_t place = (row + r) * m->row + column * m->column;

        load_floats(line, m->at + place * (int64_t)m->type->size, m->type, m->column, columns);
        for (int64_t c = 0; as_half && c < columns; c++)
            line[c] = half_to_float(half_from_float(line[c]));
    }
}

/*
 * No signal may take the thread out of OpenBLAS, which has buffers and locks: not that of a kernel
 * that shall end, either. It comes when the mask is as it was.
 */
static void multiply_parts(float *to, const float *a, const float *b, int64_t rows, int64_t columns,
                           int64_t inner)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)columns, (int)inner, 1,
                a, TILE, b, TILE, 1, to, TILE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_part(const struct matrix *m, const float *from, int64_t row, int64_t rows,
                       int64_t column, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t place = (row + r) * m->row + column * m->column;
        double line[TILE];

        for (int64_t c = 0; c < columns; c++)
            line[c] = (double)from[r * TILE + c];
        m->type->store_real(m->at + place * (int64_t)m->type->size, m->column, line,
                            (size_t)columns);
    }
}

struct tiles {
    float a[TILE * TILE], b[TILE * TILE], out[TILE * TILE];
};

static int64_t tile_size(int64_t from, int64_t size)
{
    return size - from < TILE ? size - from : TILE;
}

static void run_tile(const struct operator_call *call, struct tiles *t, uint64_t piece)
{
    const struct view *v = &call->out;
    uint64_t down = tiles_of(v->dim[v->dims - 2]), across = tiles_of(v->dim[v->dims - 1]);
    uint64_t batch = piece / (down * across), tile = piece % (down * across);
    struct matrix a = matrix_at(&call->in[0], batch), b = matrix_at(&call->in[1], batch);
    struct matrix out = matrix_at(v, batch);
    int64_t row = (int64_t)(tile / across) * TILE, column = (int64_t)(tile % across) * TILE;
    int64_t rows = tile_size(row, v->dim[v->dims - 2]);
    int64_t columns = tile_size(column, v->dim[v->dims - 1]);
    int64_t inner = call->in[0].dim[call->in[0].dims - 1];
    bool as_half = call->option == USE_FP16;

    memset(t->out, 0, sizeof(t->out));
    for (int64_t k = 0; k < inner; k += TILE) {
        int64_t part = tile_size(k, inner);

        copy_part(t->a, &a, row, rows, k, part, as_half);
        copy_part(t->b, &b, k, part, column, columns, as_half);
        multiply_parts(t->out, t->a, t->b, rows, columns, part);
    }
    write_part(&out, t->out, row, rows, column, columns);
}

static void run(const struct operator_call *call, uint64_t first, uint64_t end)
{
    struct tiles *t = aclnpudBlockMemory(sizeof(*t));

    for (uint64_t piece = first; t && piece < end; piece++)
        run_tile(call, t, piece);
}

static const struct operator row = {.name = "aclnnMatmul",
                                    .kind = ACL_KERNEL_TYPE_CUBE,
                                    .inputs = {"self", "mat2"},
                                    .dims_max = DIMS_MAX,
                                    .find_type = find_type,
                                    .find_shape = find_shape,
                                    .count_pieces = count_tiles,
                                    .weigh_piece = weigh_tile,
                                    .run = run};

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2,
                                        aclTensor *out, int8_t cubeMathType,
                                        uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct operator_arguments a = {.in = {self, mat2}, .out = out, .option = cubeMathType};

    return operator_prepare(&row, &a, workspaceSize, executor);
}

OPERATOR_PHASE_TWO(aclnnMatmul, &row)
