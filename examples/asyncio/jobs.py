"""
NPU events in an asyncio program that has other things to do. Nothing blocks and nothing polls: each
job ends with a record, its coroutine waits for it (acl.npud.event_future), and the others go on.
One job is given up when its time is over.
usage: npu-run -- jobs.py, with acl on the PYTHONPATH
"""
import asyncio
import sys

import acl
import acl.rt

own = acl.npud.own


def check(ret):
    if ret != 0:
        sys.exit(f"error {ret}: {acl.get_recent_err_msg()}")


async def job(name, microseconds):
    """Work on a stream of its own. The event ends with the block, whatever becomes of the job."""
    stream, ret = acl.rt.create_stream()
    check(ret)
    try:
        with own(acl.rt.create_event) as event:
            check(acl.npud.launch_delay(microseconds, 0, stream))
            check(acl.rt.record_event(event, stream))
            print(f"{name}: submitted", flush=True)
            check(await acl.npud.event_future(event))
            print(f"{name}: done", flush=True)
    finally:
        # A stream whose job was given up still works: what is left of it is thrown away.
        check(acl.rt.destroy_stream_force(stream))


async def give_up_in_time(name):
    try:
        await asyncio.wait_for(job(name, 3_600_000_000), timeout=0.05)
    except asyncio.TimeoutError:
        print(f"{name}: given up", flush=True)


async def main():
    await asyncio.gather(job("long", 20_000), job("short", 1_000), give_up_in_time("endless"))


check(acl.init())
with own(acl.rt.set_device, 0):
    asyncio.run(main())
check(acl.finalize())
print("jobs.py: OK")
