/*
 * The text that names an exported notify, or exported memory: 64 printable characters, base64 (RFC
 * 4648) of the 48 bytes below. A capability, opaque to all but npud.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT_KEY_NOTIFY  0x594bu /* "KY" */
#define EXPORT_KEY_MEMORY  0x4d4bu /* "KM" */
#define EXPORT_KEY_VERSION 1
#define EXPORT_KEY_TEXT    64 /* characters, without a NUL */

struct export_key {
    uint16_t magic;
    uint8_t version;
    uint8_t device;
    uint32_t reserved;
    uint64_t number;   /* of what is exported, in all of npud */
    uint64_t instance; /* of the npud that made it */
    uint8_t secret[16];
    /*
     * of all before: tells a damaged key from one whose object is gone. No protection: that is
     * `secret`.
     */
    uint64_t check;
};

static_assert(sizeof(struct export_key) == 48, "64 characters of base64, without padding");

/** Fill in the check. */
void export_key_seal(struct export_key *key);

/** text: EXPORT_KEY_TEXT characters, no NUL. */
void export_key_encode(const struct export_key *key, char *text);

/**
 * False: not well-formed, damaged, or of another kind than `magic` says. Says nothing about whether
 * the object exists, or the secret is right.
 */
bool export_key_decode(struct export_key *key, uint16_t magic, const char *text, size_t length);
