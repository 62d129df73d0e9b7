/*
 * Undoing a request: what npud made for a reply that this process could not receive goes again.
 */
#pragma once

#include <stdbool.h>

#include "proto/wire/npud.pb-c.h"

/** The request that takes back what another one made, and its body. */
struct undo {
    Npud__Request request;
    union {
        Npud__DestroyStream stream;
        Npud__DestroyEvent event;
        Npud__CloseIpcEvent ipc_event;
        Npud__Free memory;
        Npud__TrimSegment segment;
        Npud__DestroyQueue queue;
    };
};

/**
 * Fill in what undoes `request`, which had this reply. False: it made nothing, or nothing that the
 * same request would not give once more (OpenDevice, AttachQueue, MapSegment, QueueBell); what
 * Hello made goes with the connection.
 */
bool undo_fill(struct undo *undo, const Npud__Request *request, const Npud__Reply *reply);
