"""Prototypes: creation of tensors."""

from __future__ import annotations

ROWS = r"""
CastLike(x, target) -> y
Const() -> y {value: tensor}
Constant() -> y {value: tensor}
ConstPlaceHolder() -> y {origin_shape: ints; origin_format: int; storage_shape: ints; storage_format: int;
    expand_dim_rules: str; dtype: int; addr: int; size: int; placement: int = 1}
Empty(shape) -> y {dtype: int = 3; init: bool = 0}
FileConstant() -> y {file_path: str = ""; file_id: str = ""; shape: ints; dtype: dtype}
Fill(dims, value) -> y
FillD(value) -> y {dims: ints}
Fills(x) -> y {value: float}
FillV2(dims) -> y {value: float = 0.0}
FillV2D() -> y {value: float = 0.0; dims: ints}
OnesLike(x) -> y
PlaceHolder(x) -> y {peerIndex: int = 0; parentId: str = ""; parentOpType: str = ""; anchorIndex: int = 0}
Range(start, limit, delta) -> y
RangeD(x) -> y {start: float; limit: float; delta: float}
ZerosLike(x) -> y
"""
