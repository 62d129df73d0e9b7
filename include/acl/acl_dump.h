/* Data dump. Empty in npud; the dump functions of the runtime are in acl_rt.h. */
#ifndef ACL_ACL_DUMP_H
#define ACL_ACL_DUMP_H

#include "acl_base.h"

#endif
