#include "daemon/base/hash.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "proto/util/clock.h"
#include "proto/util/random.h"

static uint64_t key[2];
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* No secret depends on it: without random bytes the time will do. */
static void make_key(void)
{
    if (!random_fill(key, sizeof(key)))
        key[0] = clock_ns();
}

static uint64_t rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void mix_state(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] = rotate_left(v[2], 32);
}

static void absorb_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix_state(v);
    mix_state(v);
    v[0] ^= word;
}

/* On machines of either byte order the words differ, and are as good. */
uint64_t hash_siphash(const uint64_t k[2], const void *data, size_t size)
{
    uint64_t v[4] = {k[0] ^ UINT64_C(0x736f6d6570736575), k[1] ^ UINT64_C(0x646f72616e646f6d),
                     k[0] ^ UINT64_C(0x6c7967656e657261), k[1] ^ UINT64_C(0x7465646279746573)};
    const unsigned char *p = data;
    uint64_t word, last = (uint64_t)size << 56;

    for (; size >= sizeof(word); size -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        absorb_word(v, word);
    }
    for (size_t i = 0; i < size; i++)
        last |= (uint64_t)p[i] << (8 * i);
    absorb_word(v, last);
    v[2] ^= 0xff;
    for (unsigned i = 0; i < 4; i++)
        mix_state(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

unsigned hash_key(const void *data, size_t size)
{
    pthread_once(&key_once, make_key);
    return (unsigned)hash_siphash(key, data, size);
}
