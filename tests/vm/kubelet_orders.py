"""A kubelet that takes orders, a line each, and answers each with a line: kubelet_orders.py FOLDER

It says first that a plugin has registered. "list": the next list of devices that the plugin tells;
"allocate N": the CDI names for a container with the device N.
"""
import pathlib
import sys

sys.path.insert(0, "examples/kubernetes")
from kubelet import LIMIT, Kubelet  # noqa: E402


def answer(kubelet, order, *words):
    if order == "list":
        devices = kubelet.lists.get(timeout=LIMIT)
        return " ".join(f"{number}={state[0]}" for number, state in sorted(devices.items()))
    container = kubelet.allocate(words).container_responses[0]
    return " ".join(device.name for device in container.cdi_devices)


def main():
    kubelet = Kubelet(pathlib.Path(sys.argv[1]))
    kubelet.requests.get(timeout=LIMIT)
    print("registered", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(answer(kubelet, *line.split()), flush=True)
    kubelet.end()


main()
