#include "client/operators/view.h"

#include <stdio.h>

uint64_t view_count(const struct view *v)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < v->dims; i++)
        count *= (uint64_t)v->dim[i];
    return count;
}

bool view_is_like(const struct view *a, const struct view *b)
{
    for (uint32_t i = 0; i < a->dims && i < b->dims; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return a->dims == b->dims;
}

bool view_is_distinct(const struct view *v)
{
    for (uint32_t i = 0; i < v->dims; i++)
        if (v->dim[i] > 1 && v->stride[i] == 0)
            return false;
    return true;
}

const char *view_text(const struct view *v, char text[VIEW_TEXT])
{
    size_t at = (size_t)snprintf(text, VIEW_TEXT, "[");

    for (uint32_t i = 0; i < v->dims && at < VIEW_TEXT; i++)
        at += (size_t)snprintf(text + at, VIEW_TEXT - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)v->dim[i]);
    if (at < VIEW_TEXT)
        snprintf(text + at, VIEW_TEXT - at, "]");
    return text;
}

/* The size that v has at dimension i of a shape of `dims` dimensions. */
static int64_t size_at(const struct view *v, uint32_t dims, uint32_t i)
{
    return i + v->dims < dims ? 1 : v->dim[i + v->dims - dims];
}

bool view_broadcast(const struct view *a, const struct view *b, struct view *to)
{
    uint32_t dims = a->dims > b->dims ? a->dims : b->dims;

    to->dims = dims;
    for (uint32_t i = 0; i < dims; i++) {
        int64_t x = size_at(a, dims, i), y = size_at(b, dims, i);

        if (x != y && x != 1 && y != 1)
            return false;
        to->dim[i] = x == 1 ? y : x;
    }
    return true;
}

void view_expand(struct view *v, const struct view *like)
{
    struct view old = *v;

    v->dims = like->dims;
    for (uint32_t i = 0; i < like->dims; i++) {
        bool repeats = size_at(&old, like->dims, i) == 1;

        v->dim[i] = like->dim[i];
        v->stride[i] = repeats ? 0 : old.stride[i + old.dims - like->dims];
    }
}

/* Dimension i continues i - 1 in all of them. */
static bool continues(struct view *const *views, size_t n, uint32_t i)
{
    for (size_t k = 0; k < n; k++)
        if (views[k]->stride[i - 1] != views[k]->stride[i] * views[k]->dim[i])
            return false;
    return true;
}

static void move_dimension(struct view *const *views, size_t n, uint32_t to, uint32_t from)
{
    for (size_t k = 0; k < n; k++) {
        views[k]->dim[to] = views[k]->dim[from];
        views[k]->stride[to] = views[k]->stride[from];
    }
}

void views_merge(struct view *const *views, size_t n)
{
    uint32_t dims = 0;

    for (uint32_t i = 0; i < views[0]->dims; i++)
        if (views[0]->dim[i] != 1)
            move_dimension(views, n, dims++, i);
    for (uint32_t i = dims; i-- > 1;) {
        if (!continues(views, n, i))
            continue;
        for (size_t k = 0; k < n; k++) {
            views[k]->dim[i - 1] *= views[k]->dim[i];
            views[k]->stride[i - 1] = views[k]->stride[i];
        }
        for (uint32_t next = i + 1; next < dims; next++)
            move_dimension(views, n, next - 1, next);
        dims--;
    }
    for (size_t k = 0; k < n; k++) {
        if (dims == 0)
            views[k]->dim[0] = 1;
        if (dims == 0)
            views[k]->stride[0] = 1;
        views[k]->dims = dims > 0 ? dims : 1;
    }
}

int64_t view_place(const struct view *v, uint64_t index)
{
    int64_t place = v->offset;

    for (uint32_t i = v->dims; i-- > 0;) {
        place += (int64_t)(index % (uint64_t)v->dim[i]) * v->stride[i];
        index /= (uint64_t)v->dim[i];
    }
    return place;
}
