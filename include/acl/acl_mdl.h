/* Models. Empty in npud: other packages fill it. */
#ifndef ACL_ACL_MDL_H
#define ACL_ACL_MDL_H

#include "acl_base.h"

#endif
