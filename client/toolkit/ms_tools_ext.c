/*
 * libms_tools_ext.so: the functions of mstx/ms_tools_ext.h for programs that load them at run time,
 * or that have declarations only (MSTX_NO_IMPL).
 */
#pragma GCC visibility push(default)
#include "mstx/ms_tools_ext.h"
