/* The linker leads calls of NAME to __wrap_NAME, and __real_NAME is NAME as it is without. */
#pragma once

/* clang-format off */
#define WRAP(type, name, ...) \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)
/* clang-format on */
