/* Random calls of an operator of two tensors, against the same in double. */
#pragma once

#include "operators.h"

typedef aclnnStatus prepare_fn(struct sheet *self, struct sheet *other, aclScalar *alpha,
                               struct sheet *out, aclOpExecutor **executor);
typedef aclnnStatus launch_fn(void *workspace, uint64_t size, aclOpExecutor *executor,
                              aclrtStream stream);
typedef double compute_fn(double self, double other, double alpha);

struct elementwise {
    const char *name;
    prepare_fn *prepare;
    launch_fn *launch;
    compute_fn *compute;
    int in_place;
};

static inline aclDataType draw_type(void)
{
    static const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_INT64};

    return types[draw_below(5)];
}

/* A type that results of this type convert to. */
static inline aclDataType draw_result_type(aclDataType type)
{
    aclDataType result = draw_type();

    return is_floating(type) && !is_floating(result) ? type : result;
}

static inline void compare_results(const struct elementwise *e, const struct sheet *self,
                                   const struct sheet *other, const struct sheet *out, double alpha,
                                   aclDataType common)
{
    double step = fmax(step_of(common), step_of(out->type)) * 2;
    int64_t n = count_of(out);

    for (int64_t i = 0; i < n; i++) {
        double x = value_of(self, broadcast_index(out, i, self));
        double y = value_of(other, broadcast_index(out, i, other));

        if (is_floating(common)) { /* it was a value of that type before it became one of out */
            unsigned char rounded[8];

            put_number(rounded, common, value_of(out, i));
            EXPECT(size_of(out->type) <= size_of(common) ||
                   get_number(rounded, common) == value_of(out, i));
        }
        expect_near(value_of(out, i), e->compute(x, y, alpha),
                    step * (fabs(x) + fabs(y) * fabs(alpha) + fabs(x * y)), e->name, i, __LINE__);
    }
}

static inline void try_elementwise(const struct elementwise *e, aclrtStream stream)
{
    int64_t a[DIMS], b[DIMS], c[DIMS];
    int a_dims, b_dims, dims = draw_shapes(a, &a_dims, b, &b_dims, c);
    aclDataType x = draw_type(), y = draw_type(), common = common_type(x, y);
    struct sheet self, other, out, old;
    aclOpExecutor *executor = NULL;
    int64_t alpha_number = draw_below(7) - 3;
    aclScalar *alpha = aclCreateScalar(&alpha_number, ACL_INT64);
    unsigned char *before;
    size_t size;

    if (e->in_place && is_floating(common) && !is_floating(x))
        x = common;
    make_sheet(&self, x, e->in_place ? dims : a_dims, e->in_place ? c : a, 100);
    make_sheet(&other, y, b_dims, b, 100);
    make_sheet(&out, draw_result_type(common_type(x, y)), dims, c, 100);
    old = self;
    size = (size_t)self.room * size_of(self.type);
    old.here = (unsigned char *)malloc(size);
    memcpy(old.here, self.here, size);
    CALL(e->prepare(&self, &other, alpha, &out, &executor));
    CALL(aclDestroyScalar(alpha));
    CALL(aclDestroyTensor(self.tensor));
    CALL(e->launch(NULL, 0, executor, stream));
    CALL(aclDestroyTensor(other.tensor));
    CALL(aclrtSynchronizeStream(stream));
    self.tensor = other.tensor = NULL;
    if (e->in_place) {
        from_device(&self);
        compare_results(e, &old, &other, &self, (double)alpha_number, common_type(x, y));
        expect_rest(&self, old.here, __LINE__);
    } else {
        before = (unsigned char *)malloc((size_t)out.room * size_of(out.type));
        memcpy(before, out.here, (size_t)out.room * size_of(out.type));
        from_device(&out);
        compare_results(e, &self, &other, &out, (double)alpha_number, common_type(x, y));
        expect_rest(&out, before, __LINE__);
        free(before);
    }
    free(old.here);
    free_sheet(&self);
    free_sheet(&other);
    free_sheet(&out);
}
