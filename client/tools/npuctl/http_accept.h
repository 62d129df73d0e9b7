/* Which of two types of content a request would rather have: its fields Accept (RFC 9110). */
#pragma once

/* What they say of one type. */
struct http_accept {
    int exact; /* the range that names it most exactly. 1: any type, 2: its kind, 3: it; 0: none */
    double quality;
};

/** Reads one such field. A type's parameters do not count: of two versions the better one does. */
void http_accept_read(const char *value, const char *const types[2], struct http_accept accept[2]);
