#include "client/memory/random_number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/util/float16.h"

/* --- Philox 4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers", 2011 --- */

#define ROUNDS 10

static void mix_round(uint32_t word[4], const uint32_t key[2])
{
    uint64_t a = (uint64_t)word[0] * 0xD2511F53u, b = (uint64_t)word[2] * 0xCD9E8D57u;
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ word[1] ^ key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ word[3] ^ key[1], (uint32_t)a};

    memcpy(word, next, sizeof(next));
}

static void next_block(struct random_source *source)
{
    uint32_t key[2] = {source->key[0], source->key[1]};

    memcpy(source->block, source->counter, sizeof(source->block));
    for (unsigned i = 0; i < ROUNDS; i++) {
        mix_round(source->block, key);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    source->remaining = 4;
    for (unsigned i = 0; i < 4 && ++source->counter[i] == 0; i++)
        ;
}

static uint32_t next_word(struct random_source *source)
{
    if (source->remaining == 0)
        next_block(source);
    return source->block[4 - source->remaining--];
}

struct random_source random_source_of(uint64_t seed)
{
    return (struct random_source){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

/* --- types --- */

unsigned random_type_size(aclDataType type)
{
    switch (type) {
    case ACL_FLOAT16:
    case ACL_BF16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
        return 4;
    case ACL_INT64:
    case ACL_UINT64:
        return 8;
    default:
        return 0;
    }
}

bool random_type_real(aclDataType type)
{
    return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16;
}

double random_type_load(aclDataType type, const void *from)
{
    uint16_t half;
    float value;

    if (type == ACL_FLOAT) {
        memcpy(&value, from, sizeof(value));
        return (double)value;
    }
    memcpy(&half, from, sizeof(half));
    return (double)(type == ACL_FLOAT16 ? half_to_float(half) : bf16_to_float(half));
}

static void store_real(aclDataType type, double real, void *to)
{
    float value = (float)real;
    uint16_t half;

    if (type == ACL_FLOAT) {
        memcpy(to, &value, sizeof(value));
        return;
    }
    half = type == ACL_FLOAT16 ? half_from_float(value) : bf16_from_float(value);
    memcpy(to, &half, sizeof(half));
}

/* --- distributions --- */

/* From the minimum up, below the maximum. The numbers are equally likely but for 2^-32 or 2^-64. */
static uint64_t draw_integer(const struct random_law *law, struct random_source *source,
                             unsigned size)
{
    uint64_t range = law->b.integer - law->a.integer, word = next_word(source);

    if (size == 4)
        return law->a.integer + (word * range >> 32);
    word |= (uint64_t)next_word(source) << 32;
    return law->a.integer + (uint64_t)((unsigned __int128)word * range >> 64);
}

static double draw_uniform(const struct random_law *law, struct random_source *source)
{
    /* as many bits as a single has: all 32 could round up to 1 */
    double share = (next_word(source) >> 8) * 0x1p-24;

    return law->a.real + share * (law->b.real - law->a.real);
}

/* Of mean 0 and deviation 1: Box and Muller's, of which one number of two is used. */
static double draw_standard(struct random_source *source)
{
    double radius = sqrt(-2 * log((next_word(source) + 1.0) * 0x1p-32));

    return radius * cos(2 * M_PI * next_word(source) * 0x1p-32);
}

static double draw_real(const struct random_law *law, struct random_source *source)
{
    double z;

    if (law->function == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS)
        return draw_uniform(law, source);
    do
        z = draw_standard(source);
    while (law->function == ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS && fabs(z) > 2);
    return law->a.real + z * law->b.real;
}

static void write_bits(const struct random_law *law, struct random_source *source, uint64_t count,
                       uint8_t *to)
{
    uint64_t dropped = (uint64_t)(law->a.real * 0x1p32); /* words below: all for 1, none for 0 */

    memset(to, 0, (count + 7) / 8);
    for (uint64_t i = 0; i < count; i++)
        to[i / 8] |= (uint8_t)((next_word(source) >= dropped) << i % 8);
}

void random_write(const struct random_law *law, struct random_source *source, uint64_t count,
                  void *to)
{
    unsigned size = random_type_size(law->type);
    uint8_t *at = to;
    uint64_t integer;

    if (law->function == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK) {
        write_bits(law, source, count, to);
        return;
    }
    for (uint64_t i = 0; i < count; i++, at += size) {
        if (random_type_real(law->type)) {
            store_real(law->type, draw_real(law, source), at);
        } else {
            integer = draw_integer(law, source, size);
            memcpy(at, &integer, size); /* little-endian: its low bytes */
        }
    }
}
