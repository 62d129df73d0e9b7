"""A kubelet for tests, as its plugins for devices know it: over the real API.

The folder of the example is in sys.path, or in PYTHONPATH.
"""
import contextlib
import queue
import time
from concurrent import futures

import grpc
import device_plugin_api as api

LIMIT = 300  # seconds: against hanging only


class Kubelet:
    """Accepts plugins as kubelet does: it removes all sockets when it starts, and asks a plugin
    that registers for its options and its devices."""

    def __init__(self, folder, refuse=False, early=False):
        self.folder = folder
        for file in self.folder.iterdir():
            file.unlink()
        self.refuse = refuse
        self.early = early  # a plugin registers before its socket is removed
        self.requests = queue.Queue()  # of registrations, as bytes
        self.lists = queue.Queue()  # of devices; None: the plugin is gone
        self.channel = None
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        register = grpc.unary_unary_rpc_method_handler(
            self.register, response_serializer=lambda m: m.SerializeToString())
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "v1beta1.Registration", {"Register": register}),))
        self.server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        self.server.start()

    def register(self, request, context):
        """The request is as it came, because no deserializer is given."""
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no plugins today")
        if self.early:
            self.early = False
            (self.folder / "npud.sock").unlink()
            context.abort(grpc.StatusCode.UNKNOWN, "there is no npud.sock")
        if self.channel:
            self.channel.close()
        endpoint = self.folder / api.RegisterRequest.FromString(request).endpoint
        self.channel = grpc.insecure_channel(f"unix:{endpoint}",
                                             [("grpc.use_local_subchannel_pool", 1)])
        self.options = self.call("GetDevicePluginOptions")
        stream = self.channel.unary_stream(
            api.path("DevicePlugin", "ListAndWatch"),
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=api.ListAndWatchResponse.FromString)(api.Empty())
        self.watcher = futures.ThreadPoolExecutor(1).submit(self.watch, stream)
        self.requests.put(request)
        return api.Empty()

    def watch(self, stream):
        with contextlib.suppress(grpc.RpcError):
            for answer in stream:
                self.lists.put({d.ID: (d.health, *(n.ID for n in d.topology.nodes))
                                for d in answer.devices})
        self.lists.put(None)

    def call(self, name, request=None, decode=True):
        takes, answers = api.SERVICES["DevicePlugin"][name]
        return self.channel.unary_unary(
            api.path("DevicePlugin", name),
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=api.message(answers).FromString if decode else None)(
                request or api.message(takes)(), timeout=LIMIT)

    def allocate(self, *containers, decode=True):
        return self.call("Allocate", api.AllocateRequest(container_requests=[
            api.ContainerAllocateRequest(devices_ids=c) for c in containers]), decode)

    def refused(self, *containers):
        try:
            return f"no refusal, but {self.allocate(*containers)}"
        except grpc.RpcError as e:
            return e.code().name, e.details()

    def preferred(self, available, must, size):
        r = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)
        return list(self.call("GetPreferredAllocation", api.PreferredAllocationRequest(
            container_requests=[r])).container_responses[0].deviceIDs)

    def await_list(self, wanted):
        """The next list that is as wanted; what came before it may be of a moment in between. All
        that was seen: the last of them is it, if it came."""
        seen, end = [], time.monotonic() + LIMIT
        while not seen or seen[-1] != wanted:
            try:
                seen.append(self.lists.get(timeout=max(0, end - time.monotonic())))
            except queue.Empty:
                break
        return seen

    def end(self):
        self.server.stop(None).wait()
        if self.channel:
            self.channel.close()
