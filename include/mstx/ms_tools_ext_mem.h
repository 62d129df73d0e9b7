/* What a program tells of its memory: all of it is in ms_tools_ext.h. */
#ifndef MSTX_MS_TOOLS_EXT_MEM_H
#define MSTX_MS_TOOLS_EXT_MEM_H

#include "ms_tools_ext.h"

#endif
