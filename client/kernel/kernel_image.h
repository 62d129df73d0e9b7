/*
 * Files with kernels for devices that no process can map (struct session, away): npud gives them
 * to the device's library as they are (docs/hardware.md). The process keeps the bytes until the
 * binary is unloaded. A device gets them when a function is first looked up there; after a loss,
 * when one is looked up again, so that no launch has to wait for a library that compiles.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/kernel/kernel.h"

struct context;
struct stream;

struct kernel_image;

/** The bytes are copied. magic: what the kernels are for, 0: they say so. NULL: no memory. */
struct kernel_image *kernel_image_new(const void *bytes, size_t size, uint32_t magic);
/** Devices drop it when the streams of the session have gone as far as they were given work. */
void kernel_image_free(struct kernel_image *image);

/**
 * The device of c has the image, with a function of this name, whose number is then as it says.
 * functions: the binary's list, under kernel_lock; a device that gets the image anew knows none of
 * them any more. 0, or what npud has answered. Takes kernel_lock.
 */
int kernel_image_look_up(const char *api, struct kernel_image *image, struct context *c,
                         const char *name, struct kernel_function *const *functions,
                         uint32_t *number);

/** Launch a function of the image, which has that number. Locked. 0, or an ACL error. */
int kernel_image_launch(const char *api, const struct kernel_image *image, uint32_t number,
                        const struct kernel_launch *launch, struct stream *s);
