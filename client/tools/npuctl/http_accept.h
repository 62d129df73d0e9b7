/* Which of several types of content a request would rather have: its fields Accept (RFC 9110). */
#pragma once

/**
 * The place, in a list of types that ends with NULL, of the one with the highest quality; of equal
 * ones the first, and the first also if the request takes none of them. fields: lines that end with
 * \r\n and then an empty one. Of a type its parameters do not count.
 */
unsigned http_accept(const char *fields, const char *const *types);
