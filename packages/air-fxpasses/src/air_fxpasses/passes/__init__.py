"""The passes: one module each."""

from __future__ import annotations

from air_fxpasses.passes._custom import CustomPass
from air_fxpasses.passes._decompose_auto_functionalized import DecomposeAutoFunctionalized
from air_fxpasses.passes._eliminate_cat import EliminateCat
from air_fxpasses.passes._eliminate_dead_code import EliminateDeadCode
from air_fxpasses.passes._fuse_patterns import FusePatterns
from air_fxpasses.passes._products_of_experts import ProductsOfExperts, has_products_of_experts
from air_fxpasses.passes._read_repeats_once import ReadRepeatsOnce
from air_fxpasses.passes._recover_view_inplace import RecoverViewInplace
from air_fxpasses.passes._reinplace_inplaceable import ReinplaceInplaceable
from air_fxpasses.passes._reinplace_input_mutated import ReinplaceInputMutated
from air_fxpasses.passes._remove_noop import RemoveNoop
from air_fxpasses.passes._reuse_values import ReuseValues

__all__ = [
    "CustomPass",
    "DecomposeAutoFunctionalized",
    "EliminateCat",
    "EliminateDeadCode",
    "FusePatterns",
    "ProductsOfExperts",
    "ReadRepeatsOnce",
    "RecoverViewInplace",
    "ReinplaceInplaceable",
    "ReinplaceInputMutated",
    "RemoveNoop",
    "ReuseValues",
    "has_products_of_experts",
]
