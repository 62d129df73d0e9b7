/*
 * The text that names an exported notify: 64 printable characters, base64 (RFC 4648) of the 48
 * bytes below. A capability, opaque to all but npud.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTIFY_KEY_MAGIC   0x594bu /* "KY" */
#define NOTIFY_KEY_VERSION 1
#define NOTIFY_KEY_TEXT    64 /* characters, without a NUL */

struct notify_key {
    uint16_t magic;
    uint8_t version;
    uint8_t device;
    uint32_t reserved;
    uint64_t number;   /* of the notify in all of npud */
    uint64_t instance; /* of the npud that made it */
    uint8_t secret[16];
    /*
     * of all before: tells a damaged key from one whose notify is gone. No protection: that is
     * `secret`.
     */
    uint64_t check;
};

static_assert(sizeof(struct notify_key) == 48, "64 characters of base64, without padding");

/** Fill in the check. */
void notify_key_seal(struct notify_key *key);

/** text: NOTIFY_KEY_TEXT characters, no NUL. */
void notify_key_encode(const struct notify_key *key, char *text);

/**
 * False: not well-formed, or damaged. Says nothing about whether the notify exists, or the secret
 * is right.
 */
bool notify_key_decode(struct notify_key *key, const char *text, size_t length);
