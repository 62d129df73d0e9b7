/* Base types of models. Empty in npud: other packages fill it. */
#ifndef ACL_ACL_BASE_MDL_H
#define ACL_ACL_BASE_MDL_H

#include <stdint.h>

#endif
