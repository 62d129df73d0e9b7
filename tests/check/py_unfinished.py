# check: unfinished
"""The process ends with a task that nothing has waited for."""
import acl
from pair import WRONG, ok, start_device

start_device()
ok(acl.npud.launch_delay(1000, 0, 0))  # check: last task
if not WRONG:
    ok(acl.rt.synchronize_stream(0))
