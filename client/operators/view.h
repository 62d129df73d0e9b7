/* What operators know of a tensor, and what they do with shapes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#define VIEW_DIMS_MAX 8

struct view {
    void *address; /* of the storage */
    int64_t offset;
    aclDataType type;
    uint32_t dims;
    int64_t dim[VIEW_DIMS_MAX], stride[VIEW_DIMS_MAX];
};

/** Elements. */
uint64_t view_count(const struct view *v);

/** Same dimensions, and same sizes. */
bool view_is_like(const struct view *a, const struct view *b);

/** No two elements of it have one place: it can be written. Overlaps by odd strides are not seen.
 */
bool view_is_distinct(const struct view *v);

/** "[2, 3]" */
#define VIEW_TEXT 200
const char *view_text(const struct view *v, char text[VIEW_TEXT]);

/** The sizes of both, aligned at the last dimension, with 1 widened. False: they do not fit. */
bool view_broadcast(const struct view *a, const struct view *b, struct view *to);

/** Give a view the sizes of another one, to which it fits: it repeats where it had size 1. */
void view_expand(struct view *v, const struct view *like);

/**
 * The same elements in the same order with as few dimensions as can be, one at least: of views of
 * the same sizes.
 */
void views_merge(struct view *const *views, size_t n);

/** Where element `index`, by the order of the dimensions, lies: in elements, from the address. */
int64_t view_place(const struct view *v, uint64_t index);
