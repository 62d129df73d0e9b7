/* Queries about the chip. Empty in npud: other packages fill it. */
#ifndef ACL_ACL_PLATFORM_H
#define ACL_ACL_PLATFORM_H

#include "acl_base.h"

#endif
