# Source this to build and run programs written for CANN against npud.
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../set_env.sh"
