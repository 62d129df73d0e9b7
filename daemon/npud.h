/* The parts of npud: everything that the server points to, in one place. */
#pragma once

struct server;

/** Give the server its parts, none of which is set up yet. There is one npud in a process. */
void npud_assemble(struct server *server);
