#!/usr/bin/env bash
# Every third program over npud in npud, those that take a few seconds at most: make check-nested
# has all of them. Or one program, such as e2e/test_many_threads.
# usage: test-nested.sh BUILD_DIR [PROGRAM]
# Runs long: 110 s.
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
# shellcheck source=tests/run/away.sh
. "$top/tests/run/away.sh"

export NPUD_TEST_BACKEND=acl MODEL_COUNT=${MODEL_COUNT:-200}
suites_pass npud "${2:-}" <<'EOF'
tests/e2e/test_abort_steps
tests/e2e/test_allocator
tests/e2e/test_bad_input
tests/e2e/test_blame
tests/e2e/test_copies
tests/e2e/test_data_path
tests/e2e/test_events
tests/e2e/test_failures
tests/e2e/test_forked_memory
tests/e2e/test_inject
tests/e2e/test_ipc_life
tests/e2e/test_ipc_memory
tests/e2e/test_ipc_survivor
tests/e2e/test_low_descriptors
tests/e2e/test_managed
tests/e2e/test_many_threads
tests/e2e/test_memory_pool
tests/e2e/test_no_descriptors
tests/e2e/test_notify_ipc
tests/e2e/test_restart
tests/e2e/test_session_end
tests/e2e/test_stream
tests/e2e/test_stream_tasks
tests/e2e/test_survivor
tests/e2e/test_waits
tests/hostile/test_connects
tests/hostile/test_given
tests/model/test_model
tests/soak/test_soak
EOF
exit $failed
