/* Asking for a cache line ahead of a store. */
#pragma once

/**
 * Get the line of p with the right to write it, while the caller goes on. p may point to anything.
 * In assembly, because the compiler makes a prefetch for reading of __builtin_prefetch(p, 1) unless
 * it may use more than the oldest x86-64: then the store waits for the line's other owner after
 * all. Processors without prefetchw take it for a nop.
 */
static inline void prefetch_to_write(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#elif defined(__aarch64__)
    __asm__ volatile("prfm pstl1keep, %0" : : "Q"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}
