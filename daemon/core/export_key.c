#include "daemon/core/export_key.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* FNV-1a over everything but `check`. */
static uint64_t compute_checksum(const struct export_key *key)
{
    const uint8_t *p = (const uint8_t *)key;
    uint64_t x = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < offsetof(struct export_key, check); i++)
        x = (x ^ p[i]) * UINT64_C(0x100000001b3);
    return x;
}

void export_key_seal(struct export_key *key)
{
    key->check = compute_checksum(key);
}

void export_key_encode(const struct export_key *key, char *text)
{
    const uint8_t *p = (const uint8_t *)key;

    for (size_t i = 0; i < sizeof(*key); i += 3) {
        uint32_t bits = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];

        for (int shift = 18; shift >= 0; shift -= 6)
            *text++ = alphabet[bits >> shift & 63];
    }
}

bool export_key_decode(struct export_key *key, uint16_t magic, const char *text, size_t length)
{
    uint8_t *p = (uint8_t *)key;

    if (length != EXPORT_KEY_TEXT)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;

        for (size_t k = 0; k < 4; k++) {
            const char *c = memchr(alphabet, text[i + k], sizeof(alphabet) - 1);

            if (!c)
                return false;
            bits = bits << 6 | (uint32_t)(c - alphabet);
        }
        *p++ = (uint8_t)(bits >> 16);
        *p++ = (uint8_t)(bits >> 8);
        *p++ = (uint8_t)bits;
    }
    return key->magic == magic && key->version == EXPORT_KEY_VERSION &&
           key->check == compute_checksum(key);
}
