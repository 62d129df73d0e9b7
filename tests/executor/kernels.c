/*
 * A binary for devices (tests/e2e/test_device_kernels.c): kernels that need nothing but their
 * arguments, so that whoever loads the file can run them. Addresses are numbers: they are a
 * device's.
 */
#include <stdatomic.h>
#include <stdint.h>

#pragma GCC visibility push(default)

typedef _Atomic uint64_t word;

void add(uint64_t to, uint64_t value);
void add_word(uint64_t to, uint64_t from);
void add_bytes(uint64_t to, uint64_t bytes, uint64_t n);
void wait_for(uint64_t from, uint64_t value, uint64_t to);
void spin(void);
void fault(uint64_t to);
void add_by_a_long_name(uint64_t to, uint64_t value) __asm__(
    "a_kernel_whose_name_is_longer_than_any_that_a_programmer_would_write_and_shorter_than_some_"
    "that_compilers_make_of_templates_with_many_arguments");

static word *at(uint64_t address)
{
    return (word *)(uintptr_t)address;
}

void add(uint64_t to, uint64_t value)
{
    atomic_fetch_add(at(to), value);
}

/* What `from` is when the kernel runs. */
void add_word(uint64_t to, uint64_t from)
{
    atomic_fetch_add(at(to), atomic_load(at(from)));
}

/* Of n bytes that came along with the arguments. */
void add_bytes(uint64_t to, uint64_t bytes, uint64_t n)
{
    const unsigned char *b = (const unsigned char *)(uintptr_t)bytes;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += b[i];
    atomic_fetch_add(at(to), sum);
}

/* Until the word is at least so much; then it says so. */
void wait_for(uint64_t from, uint64_t value, uint64_t to)
{
    while (atomic_load(at(from)) < value)
        ;
    atomic_fetch_add(at(to), 1);
}

void spin(void)
{
    for (volatile int on = 1; on;)
        ;
}

/* Where nothing is. */
void fault(uint64_t to)
{
    atomic_store(at(to), 1);
}

void add_by_a_long_name(uint64_t to, uint64_t value)
{
    add(to, value);
}

#pragma GCC visibility pop
