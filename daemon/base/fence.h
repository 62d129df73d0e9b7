/*
 * The fence between two servers: a lock on the kept tables. A server takes it before it touches
 * anything that the server before it had, and holds it until its end. The kernel releases it when
 * the last thread of a dying server has let go of its descriptors, so no store of the old one comes
 * after the first look of the new one.
 */
#pragma once

/**
 * Takes the lock of the memory behind fd, over an open file of this process alone: a lock belongs
 * to an open file, and the keeper has copies of fd. Waits for the server that has it. Returns the
 * descriptor that holds the lock until it is closed, or -errno.
 */
int fence_take(int fd);
