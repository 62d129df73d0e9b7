/*
 * What an answer of npud must be like. The library uses no number, no body and no descriptor of an
 * answer before reply_fault() has found it right: a server that sends anything else ends the
 * session, and does no harm to the program. A descriptor that is not what it must be ends the call
 * alone: other processes may have it as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/npud.pb-c.h"

struct session;

/**
 * What is wrong with the answer to a request, in words; NULL: nothing. fds: the n descriptors that
 * came with it; NULL: they were lost on the way, and are not checked. An answer that is an error
 * has nothing but its code and its sentence. *odd is set if it is what a descriptor is that is
 * wrong, and nothing else. Caller holds session->lock if the request is
 * CreateStream or CreateEvent.
 */
const char *reply_fault(const struct session *s, const Npud__Request *request,
                        const Npud__Reply *reply, const int *fds, size_t n, bool *odd);

/** The name of a request, for messages. */
const char *reply_request_name(const Npud__Request *request);
