/* What has failed how often lately: whether it is worth another try. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ATTEMPTS_MAX       3
#define ATTEMPTS_WINDOW_NS UINT64_C(60000000000)

struct attempts {
    uint64_t failed_ns[ATTEMPTS_MAX]; /* the latest first; 0: none */
};

/** One has failed now. True: that was the third within a minute, and counting begins anew. */
bool attempts_failed(struct attempts *attempts, uint64_t now_ns);
