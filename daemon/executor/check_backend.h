/*
 * What a device's library can do, asked of it: 19 rows, each a question to which npud needs the
 * answer (docs/hardware.md).
 */
#pragma once

/**
 * npud-executor --check acl:PATH|cuda[:PATH] [OPTION]...; argv[1] is "--check". Starts processes of
 * the same program, and writes a table to stdout. The exit status: 0 all required rows hold, 1 one
 * does not, 2 wrong usage. Needs no npud.
 */
int check_main(int argc, char **argv);
