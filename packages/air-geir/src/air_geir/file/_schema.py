"""Message classes of `ge_ir.proto`, in a descriptor pool of their own.

The classes are made from the compiled descriptor at import, not from generated code: the same package then works with
every protobuf release from 3.20 on, and never collides with another package that registers `ge.proto`.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor

_pool = descriptor_pool.DescriptorPool()
_files = descriptor_pb2.FileDescriptorSet.FromString(
    resources.files(__package__).joinpath("ge_ir.binpb").read_bytes()
)
for _file in _files.file:
    _pool.AddSerializedFile(_file.SerializeToString())


def descriptor(name: str) -> Descriptor:
    """The descriptor of a message, by its name within the schema."""
    return _pool.FindMessageTypeByName(f"air.geir.{name}")


def message_class(name: str) -> Any:
    """The class of a message; protobuf 3.20 and 4+ make it in different ways."""
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor(name))
    factory = message_factory.MessageFactory(_pool)
    return factory.GetPrototype(descriptor(name))  # type: ignore[attr-defined]  # only in protobuf 3.20


ModelDef = message_class("ModelDef")
GraphDef = message_class("GraphDef")
OpDef = message_class("OpDef")
AttrDef = message_class("AttrDef")
TensorDescriptor = message_class("TensorDescriptor")
TensorDef = message_class("TensorDef")

__all__ = [
    "AttrDef",
    "GraphDef",
    "ModelDef",
    "OpDef",
    "TensorDef",
    "TensorDescriptor",
    "descriptor",
    "message_class",
]
