"""The messages and calls of kubelet's device plugin API, version v1beta1.

The names and numbers are those of `pkg/apis/deviceplugin/v1beta1/api.proto` of Kubernetes' module
k8s.io/kubelet, as of 1.31. Fields that neither side uses here are left out: protobuf skips them.
"""
from google.protobuf import descriptor_pb2, message_factory

VERSION = "v1beta1"

# Each field: number, name, type; "*" is a repeated one.
_MESSAGES = {
    "Empty": (),
    "DevicePluginOptions": ("1 pre_start_required bool",
                            "2 get_preferred_allocation_available bool"),
    "RegisterRequest": ("1 version string", "2 endpoint string", "3 resource_name string",
                        "4 options DevicePluginOptions"),
    "NUMANode": ("1 ID int64",),
    "TopologyInfo": ("1 nodes *NUMANode",),
    "Device": ("1 ID string", "2 health string", "3 topology TopologyInfo"),
    "ListAndWatchResponse": ("1 devices *Device",),
    "ContainerPreferredAllocationRequest": ("1 available_deviceIDs *string",
                                            "2 must_include_deviceIDs *string",
                                            "3 allocation_size int32"),
    "PreferredAllocationRequest": ("1 container_requests *ContainerPreferredAllocationRequest",),
    "ContainerPreferredAllocationResponse": ("1 deviceIDs *string",),
    "PreferredAllocationResponse": ("1 container_responses *ContainerPreferredAllocationResponse",),
    "ContainerAllocateRequest": ("1 devices_ids *string",),
    "AllocateRequest": ("1 container_requests *ContainerAllocateRequest",),
    # map<string, string> of the interface: the same bytes.
    "Variable": ("1 key string", "2 value string"),
    "CDIDevice": ("1 name string",),
    "ContainerAllocateResponse": ("1 envs *Variable", "5 cdi_devices *CDIDevice"),
    "AllocateResponse": ("1 container_responses *ContainerAllocateResponse",),
    "PreStartContainerRequest": ("1 devices_ids *string",),
    "PreStartContainerResponse": (),
}

# Each call: what it takes, and what it answers; "*" is a stream of it.
SERVICES = {
    "Registration": {"Register": ("RegisterRequest", "Empty")},
    "DevicePlugin": {
        "GetDevicePluginOptions": ("Empty", "DevicePluginOptions"),
        "ListAndWatch": ("Empty", "*ListAndWatchResponse"),
        "GetPreferredAllocation": ("PreferredAllocationRequest", "PreferredAllocationResponse"),
        "Allocate": ("AllocateRequest", "AllocateResponse"),
        "PreStartContainer": ("PreStartContainerRequest", "PreStartContainerResponse"),
    },
}


def _add_field(message, text):
    number, name, kind = text.split()
    field = message.field.add(name=name, number=int(number), label=3 if kind[0] == "*" else 1)
    kind = kind.lstrip("*")
    if kind in _MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{VERSION}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")


def _make_messages():
    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package=VERSION, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, text)
    made = message_factory.GetMessages([file])
    return {name: made[f"{VERSION}.{name}"] for name in _MESSAGES}


# device_plugin_api.Device and so on are classes of messages.
globals().update(_make_messages())


def message(name):
    """The class of messages with this name of SERVICES."""
    return globals()[name.lstrip("*")]


def path(service, call):
    """How the call is named over gRPC."""
    return f"/{VERSION}.{service}/{call}"
