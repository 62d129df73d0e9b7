#include "daemon/kept/restored.h"

#include <stdlib.h>

#include "daemon/base/array.h"

bool restored_add(struct restored *table, uint64_t number, void *object)
{
    struct restored_object *grown =
        array_grow(table->row, &table->size, table->n + 1, sizeof(*table->row));

    if (!grown)
        return false;
    table->row = grown;
    table->row[table->n++] = (struct restored_object){number, object};
    return true;
}

static int compare_number(const void *item, const void *key)
{
    uint64_t number = ((const struct restored_object *)item)->number;
    uint64_t wanted = *(const uint64_t *)key;

    return number < wanted ? -1 : number > wanted;
}

void *restored_find(const struct restored *table, uint64_t number)
{
    size_t i =
        array_lower_bound(table->row, table->n, sizeof(*table->row), &number, compare_number);

    return i < table->n && table->row[i].number == number ? table->row[i].object : NULL;
}

void restored_forget(struct restored *table)
{
    free(table->row);
    *table = (struct restored){0};
}
