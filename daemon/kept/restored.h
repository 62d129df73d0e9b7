/*
 * Objects that npud has restored, by their numbers: for those that are restored after them, and
 * name them. Control thread, while npud restores.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct restored {
    struct restored_object {
        uint64_t number;
        void *object;
    } * row;
    size_t n, size;
};

/** Its number is larger than those before: the oldest record comes first. False: no memory. */
bool restored_add(struct restored *table, uint64_t number, void *object);
/** The object with this number, or NULL. */
void *restored_find(const struct restored *table, uint64_t number);
void restored_forget(struct restored *table);
