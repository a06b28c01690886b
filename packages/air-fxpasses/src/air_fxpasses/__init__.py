"""FX passes that improve a graph and prove what they do."""

from __future__ import annotations

from air_fxpasses._bisect import is_left_out, register_bisection
from air_fxpasses._defaults import default_passes
from air_fxpasses._facts import Facts, Touch
from air_fxpasses._pass import Invariant, Pass, PassResult
from air_fxpasses._pipeline import Pipeline
from air_fxpasses._refusal import Refusal
from air_fxpasses._report import PipelineReport, Step
from air_fxpasses._run import run_graph
from air_fxpasses._sharing import Sharing, may_share
from air_fxpasses._traffic import Copy, copies
from air_fxpasses._version import __version__
from air_fxpasses.passes import (
    CustomPass,
    DecomposeAutoFunctionalized,
    EliminateCat,
    EliminateDeadCode,
    FusePatterns,
    ReadRepeatsOnce,
    RecoverViewInplace,
    ReinplaceInplaceable,
    ReinplaceInputMutated,
    RemoveNoop,
    ReuseValues,
)
from air_fxpasses.patterns import (
    FusionPattern,
    Match,
    register_pattern,
    register_replacement,
    registered_patterns,
    unregister_pattern,
)
from air_fxpasses.tables import (
    OutTwin,
    Twin,
    Updatable,
    out_twin_of,
    register_inplace_twin,
    register_out_twin,
    register_updatable,
    registered_inplace_twins,
    registered_out_twins,
    registered_updatable,
    twin_of,
    updatable_of,
)
from air_graph import (
    Ordering,
    ProgramOrder,
    Region,
    SourceLine,
    StreamOrdering,
    register_may_return_argument,
)
from air_graph import register_hidden_writes as register_undeclared_writes

__all__ = [
    "Copy",
    "CustomPass",
    "DecomposeAutoFunctionalized",
    "EliminateCat",
    "EliminateDeadCode",
    "Facts",
    "FusePatterns",
    "FusionPattern",
    "Invariant",
    "Match",
    "Ordering",
    "OutTwin",
    "Pass",
    "PassResult",
    "Pipeline",
    "PipelineReport",
    "ProgramOrder",
    "ReadRepeatsOnce",
    "RecoverViewInplace",
    "Refusal",
    "Region",
    "ReinplaceInplaceable",
    "ReinplaceInputMutated",
    "RemoveNoop",
    "ReuseValues",
    "Sharing",
    "SourceLine",
    "Step",
    "StreamOrdering",
    "Touch",
    "Twin",
    "Updatable",
    "__version__",
    "copies",
    "default_passes",
    "is_left_out",
    "may_share",
    "out_twin_of",
    "register_bisection",
    "register_inplace_twin",
    "register_may_return_argument",
    "register_out_twin",
    "register_pattern",
    "register_replacement",
    "register_undeclared_writes",
    "register_updatable",
    "registered_inplace_twins",
    "registered_out_twins",
    "registered_patterns",
    "registered_updatable",
    "run_graph",
    "twin_of",
    "unregister_pattern",
    "updatable_of",
]
