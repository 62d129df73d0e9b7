# check: empty-wait
"""A stream waits for an event that nobody has recorded."""
import acl
from pair import SYNC, WRONG, end_device, end_streams, ok, start_device

start_device()
producer, consumer = ok(acl.rt.create_stream()), ok(acl.rt.create_stream())
event = ok(acl.rt.create_event_ex_with_flag(SYNC))

if not WRONG:
    ok(acl.rt.record_event(event, producer))
ok(acl.rt.stream_wait_event(consumer, event))  # check: waits in
end_streams(producer, consumer)
ok(acl.rt.destroy_event(event))
end_device()
