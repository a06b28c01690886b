"""Every public name, once, and where it lives: type checkers read this, and so does `__init__.py`."""

from air_backend import configs as configs
from air_backend import core as core
from air_backend import errors as errors
from air_backend import experimental as experimental
from air_backend import ge as ge
from air_backend import inference as inference
from air_backend import llm_datadist as llm_datadist
from air_backend import npugraph_ex as npugraph_ex
from air_backend import ops as ops
from air_backend import scope as scope
from air_backend._alias import install_as_torchair as install_as_torchair
from air_backend._backend import Backend as Backend
from air_backend._backend import air as air
from air_backend._backend import compile_fx as compile_fx
from air_backend._backend import get_compiler as get_compiler
from air_backend._backend import get_npu_backend as get_npu_backend
from air_backend._bisect import Verdict as Verdict
from air_backend._bisect import bisect as bisect
from air_backend._collectives import patch_for_hcom as patch_for_hcom
from air_backend._explain import Explanation as Explanation
from air_backend._explain import explain as explain
from air_backend._formats import npu_format_cast_via_cpu as npu_format_cast_via_cpu
from air_backend._formats import use_internal_format_weight as use_internal_format_weight
from air_backend._pinned import PinnedCall as PinnedCall
from air_backend._pinned import pin as pin
from air_backend._release import release as release
from air_backend._version import __version__ as __version__
from air_backend.core.utils import logger as logger
from air_config import CompilerConfig as CompilerConfig
from air_config.errors import AirError as AirError
from air_fxpasses import register_replacement as register_replacement
from air_geir import register_fx_node_ge_converter as register_fx_node_ge_converter
from air_geir.export import dynamo_export as dynamo_export
from air_geir.offline import compile_air as compile_air
from air_geir.offline import load_om as load_om

__all__: list[str]
