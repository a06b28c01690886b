"""The groups of the option tree, one module per branch."""

from __future__ import annotations

from air_config._groups._air import Air, AirCache, AirStaticKernel
from air_config._groups._aoe import Aoe
from air_config._groups._debug import AclGraphDebug, DataDump, Debug, FxSummary, GraphDump
from air_config._groups._dump import Dump
from air_config._groups._experimental import AclGraphExperimental, Experimental
from air_config._groups._export import Export, ExportExperimental
from air_config._groups._ge import Fusion, Ge, Inference
from air_config._groups._pool import AclGraphPool

__all__ = [
    "AclGraphDebug",
    "AclGraphExperimental",
    "AclGraphPool",
    "Air",
    "AirCache",
    "AirStaticKernel",
    "Aoe",
    "DataDump",
    "Debug",
    "Dump",
    "Experimental",
    "Export",
    "ExportExperimental",
    "Fusion",
    "FxSummary",
    "Ge",
    "GraphDump",
    "Inference",
]
