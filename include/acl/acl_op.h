/* Single operators. Empty in npud: other packages fill it. */
#ifndef ACL_ACL_OP_H
#define ACL_ACL_OP_H

#include "acl_base.h"

#endif
