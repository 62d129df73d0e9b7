# check: leak
"""A stream is left at the end."""
import acl
from pair import WRONG, ok, start_device

start_device()
stream = ok(acl.rt.create_stream())  # check: made by
ok(acl.rt.synchronize_stream(stream))
if not WRONG:
    ok(acl.rt.destroy_stream(stream))
