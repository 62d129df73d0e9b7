/* The variables of a file that includes this are not put back by snapshot_restore(). */
#ifdef __clang__
#pragma clang section bss = "" data = ""
#endif
