// Products of matrices: random shapes with leading dimensions, vectors, layouts and types.
#include "operators.h"

#include <aclnnop/aclnn_matmul.h>

#include <vector>

using shape = std::vector<int64_t>;

static uint64_t workspace;

// One number of the result, by the indices of its matrix and of its row and column.
static double multiply(const struct sheet &a, const struct sheet &b, const struct sheet &out,
                       int64_t batch, int64_t row, int64_t column, int64_t inner, double *size)
{
    struct sheet heads[3] = {a, b, out};
    double sum = 0;

    for (struct sheet &head : heads)
        head.dims = head.dims > 2 ? head.dims - 2 : 0;
    int64_t columns = b.dims > 1 ? b.dim[b.dims - 1] : 1, rows = a.dims > 1 ? a.dim[a.dims - 2] : 1;
    int64_t first_a = broadcast_index(&heads[2], batch, &heads[0]) * rows * inner;
    int64_t first_b = broadcast_index(&heads[2], batch, &heads[1]) * inner * columns;
    *size = 0;
    for (int64_t k = 0; k < inner; k++) {
        double product =
            value_of(&a, first_a + row * inner + k) * value_of(&b, first_b + k * columns + column);

        sum += product;
        *size += std::fabs(product);
    }
    return sum;
}

// The result as if it had a row and a column: what vectors leave out is 1.
static void compare_matrices(const struct sheet &a, const struct sheet &b, const struct sheet &out,
                             int64_t inner, double step)
{
    struct sheet full = out;
    int64_t rows = a.dims > 1 ? a.dim[a.dims - 2] : 1, columns = b.dims > 1 ? b.dim[b.dims - 1] : 1;
    int kept = (a.dims > 1) + (b.dims > 1), lead = kept > 0 ? out.dims - kept : 0;

    full.dims = lead + 2;
    full.dim[lead] = rows;
    full.dim[lead + 1] = columns;
    int64_t n = count_of(&out);
    for (int64_t i = 0; i < n; i++) {
        double size;
        double wanted = multiply(a, b, full, i / (rows * columns), i / columns % rows, i % columns,
                                 inner, &size);

        expect_near(value_of(&out, i), wanted, step * (size + std::fabs(wanted)) + 1e-30,
                    "aclnnMatmul", i, __LINE__);
    }
}

static void try_shapes(const shape &x, const shape &y, const shape &z, aclDataType left,
                       aclDataType right, aclDataType result, int8_t mode, aclrtStream stream)
{
    struct sheet a, b, out;
    aclOpExecutor *executor = nullptr;
    int64_t inner = x.back();

    make_sheet(&a, left, (int)x.size(), x.data(), 2);
    make_sheet(&b, right, (int)y.size(), y.data(), 2);
    make_sheet(&out, result, (int)z.size(), z.data(), 2);
    std::vector<unsigned char> before(out.here, out.here + out.room * size_of(result));
    CALL(aclnnMatmulGetWorkspaceSize(a.tensor, b.tensor, out.tensor, mode, &workspace, &executor));
    CALL(aclnnMatmul(nullptr, workspace, executor, stream));
    CALL(aclrtSynchronizeStream(stream));
    from_device(&out);
    double step = step_of(result) + 1e-6;
    bool rounded = mode == 2 && (left == ACL_FLOAT || right == ACL_FLOAT);
    compare_matrices(a, b, out, inner, rounded ? step + 2e-3 : step);
    expect_rest(&out, before.data(), __LINE__);
    free_sheet(&a);
    free_sheet(&b);
    free_sheet(&out);
}

static int64_t draw_size(int64_t limit)
{
    return draw_below(30) == 0 ? 0 : 1 + draw_below(limit);
}

static void try_random(aclrtStream stream)
{
    static const aclDataType types[][2] = {{ACL_FLOAT, ACL_FLOAT},
                                           {ACL_FLOAT16, ACL_FLOAT16},
                                           {ACL_BF16, ACL_BF16},
                                           {ACL_FLOAT, ACL_FLOAT16},
                                           {ACL_FLOAT16, ACL_FLOAT}};
    static const aclDataType results[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    int lead = draw_below(2) ? 0 : (int)draw_below(5), kind = (int)draw_below(5);
    int64_t limit = lead ? 12 : 150, m = draw_size(limit), n = draw_size(limit),
            k = draw_size(limit);
    shape a, b, out;
    int8_t mode = (int8_t)(types[kind][0] == ACL_BF16 ? draw_below(2) : draw_below(3));

    for (int i = 0; i < lead; i++) {
        int64_t size = 1 + draw_below(3);

        a.push_back(draw_below(4) ? size : 1);
        b.push_back(a.back() == size && draw_below(4) == 0 ? 1 : size);
        out.push_back(size);
    }
    if (lead && draw_below(3) == 0 && a[0] == out[0])
        b.erase(b.begin());
    bool left = draw_below(8) == 0, right = draw_below(8) == 0; // a vector there
    if (left || right) {
        if (left)
            a.clear();
        if (right)
            b.clear();
        out = left ? b : a;
    }
    if (!left)
        a.push_back(m);
    a.push_back(k);
    b.push_back(k);
    if (!right)
        b.push_back(n);
    if (!left)
        out.push_back(m);
    if (!right)
        out.push_back(n);
    if (out.empty() && draw_below(2))
        out.push_back(1);
    try_shapes(a, b, out, types[kind][0], types[kind][1], results[draw_below(3)], mode, stream);
}

// A number that half precision does not have is rounded, if and only if that is asked for.
static void rounded_to_half(aclrtStream stream)
{
    const int64_t dim[] = {1, 1};
    const float number = 1.0001f, one = 1;
    struct sheet a, b, out;
    aclOpExecutor *executor;

    make_sheet(&a, ACL_FLOAT, 2, dim, 1);
    make_sheet(&b, ACL_FLOAT, 2, dim, 1);
    make_sheet(&out, ACL_FLOAT, 2, dim, 1);
    put_number(a.here + 4 * place_of(&a, 0), ACL_FLOAT, number);
    put_number(b.here + 4 * place_of(&b, 0), ACL_FLOAT, one);
    to_device(&a);
    to_device(&b);
    for (int8_t mode = 0; mode < 4; mode++) {
        CALL(aclnnMatmulGetWorkspaceSize(a.tensor, b.tensor, out.tensor, mode, &workspace,
                                         &executor));
        CALL(aclnnMatmul(nullptr, 0, executor, stream));
        CALL(aclrtSynchronizeStream(stream));
        from_device(&out);
        EXPECT(value_of(&out, 0) == (double)(mode == 2 ? one : number));
    }
    free_sheet(&a);
    free_sheet(&b);
    free_sheet(&out);
}

// Without columns and rows to multiply, and so without memory for them: zeros.
static void nothing_to_add(aclrtStream stream)
{
    const int64_t left[] = {2, 0}, right[] = {0, 3}, dim[] = {2, 3};
    aclTensor *a = aclCreateTensor(left, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, left, 2, nullptr);
    aclTensor *b =
        aclCreateTensor(right, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, right, 2, nullptr);
    struct sheet out;
    aclOpExecutor *executor;

    make_sheet(&out, ACL_FLOAT, 2, dim, 1);
    CALL(aclnnMatmulGetWorkspaceSize(a, b, out.tensor, 0, &workspace, &executor));
    CALL(aclnnMatmul(nullptr, 0, executor, stream));
    CALL(aclrtSynchronizeStream(stream));
    from_device(&out);
    for (int64_t i = 0; i < 6; i++)
        EXPECT(value_of(&out, i) == 0);
    free_sheet(&out);
    CALL(aclDestroyTensor(a));
    CALL(aclDestroyTensor(b));
}

static void bad_shapes()
{
    static const struct {
        shape a, b, out;
    } bad[] = {{{2, 3}, {4, 5}, {2, 5}},
               {{2, 3}, {3, 5}, {5, 2}},
               {{2, 3}, {3, 5}, {10}},
               {{}, {3, 5}, {5}},
               {{3}, {3, 5}, {1, 5}},
               {{3}, {3}, {2}},
               {{3}, {3}, {1, 1}},
               {{2, 2, 3}, {3, 3, 5}, {2, 2, 5}},
               {{2, 2, 3}, {3, 5}, {2, 5}},
               {{2, 3}, {3}, {}},
               {{1, 1, 1, 1, 1, 2, 3}, {3, 5}, {1, 1, 1, 1, 1, 2, 5}}};
    float number = 0;
    aclOpExecutor *executor;

    for (const auto &row : bad) {
        aclTensor *t[3];
        int i = 0;

        for (const shape &s : {row.a, row.b, row.out})
            t[i++] = aclCreateTensor(s.data(), s.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                                     s.data(), s.size(), &number);
        FAILS(ACLNN_ERR_PARAM_INVALID,
              aclnnMatmulGetWorkspaceSize(t[0], t[1], t[2], 0, &workspace, &executor));
        const char *sentence = aclGetRecentErrMsg();
        EXPECT(sentence && strncmp(sentence, "[161002] aclnnMatmul: ", 22) == 0);
        for (aclTensor *one : t)
            CALL(aclDestroyTensor(one));
    }
}

static void bad_types()
{
    static const struct {
        aclDataType a, b, out;
        int8_t mode;
    } bad[] = {{ACL_INT32, ACL_INT32, ACL_INT32, 0},    {ACL_BF16, ACL_FLOAT16, ACL_FLOAT, 0},
               {ACL_BF16, ACL_FLOAT, ACL_FLOAT, 0},     {ACL_FLOAT, ACL_FLOAT, ACL_INT32, 0},
               {ACL_DOUBLE, ACL_DOUBLE, ACL_DOUBLE, 0}, {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, 4},
               {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, -1},   {ACL_BF16, ACL_BF16, ACL_BF16, 2},
               {ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT, 3}};
    int64_t dim[] = {2, 2};
    aclOpExecutor *executor;

    for (const auto &row : bad) {
        aclTensor *t[3];
        int i = 0;

        for (aclDataType type : {row.a, row.b, row.out})
            t[i++] = aclCreateTensor(dim, 2, type, nullptr, 0, ACL_FORMAT_ND, dim, 2, nullptr);
        FAILS(ACLNN_ERR_PARAM_INVALID,
              aclnnMatmulGetWorkspaceSize(t[0], t[1], t[2], row.mode, &workspace, &executor));
        for (aclTensor *one : t)
            CALL(aclDestroyTensor(one));
    }
    FAILS(ACLNN_ERR_PARAM_NULLPTR,
          aclnnMatmulGetWorkspaceSize(nullptr, nullptr, nullptr, 0, &workspace, &executor));
}

int main()
{
    aclrtStream stream;

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < 150; i++)
        try_random(i % 2 ? stream : nullptr);
    try_shapes({130, 65}, {65, 129}, {130, 129}, ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, 3, stream);
    try_shapes({2, 3, 70, 65}, {3, 65, 140}, {2, 3, 70, 140}, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT,
               0, stream); // several tiles of several matrices
    try_shapes({7}, {7}, {}, ACL_BF16, ACL_BF16, ACL_BF16, 3, stream); // no matter, of vectors
    rounded_to_half(stream);
    nothing_to_add(stream);
    bad_shapes();
    bad_types();
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    return aclFinalize();
}
