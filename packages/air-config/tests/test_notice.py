"""A notice reads as a sentence, and goes to JSON whatever its value is."""

from __future__ import annotations

import json
import os

import pytest

from air_config import CompilerConfig, Context, resolve


def test_each_effect_reads_differently() -> None:
    config = CompilerConfig.from_options(
        {"mode": "reduce-overhead", "static_kernel_compile": True, "engine": "atc"}
    )
    config.aclgraph_config.use_custom_pool = (0, 3)
    notices = resolve(config, Context(multi_stream=True, device="cpu")).notices
    told = {notice.option.rpartition(".")[2]: str(notice) for notice in notices}
    assert "='atc' (explicit) is ignored: " in told["engine"]
    assert "=True (explicit) is refused: " in told["_aclnn_static_shape_kernel"]
    overridden = told["disable_reinplace_inplaceable_ops_pass"]
    assert "=False (default) is overridden, True is used: " in overridden


@pytest.mark.parametrize(
    ("path", "value", "given"),
    [
        (
            "experimental_config.aclgraph._super_kernel_debug_options",
            {"debug_sync_all": 1},
            {"debug_sync_all": 1},
        ),
        ("aclgraph_config.use_custom_pool", (0, 3), [0, 3]),
        ("debug.aclgraph.clone_input", False, False),
    ],
)
def test_a_notice_goes_to_json(path: str, value: object, given: object) -> None:
    config = CompilerConfig()
    config.set(path, value)
    (notice,) = resolve(config).notices
    told = json.loads(json.dumps(notice.to_dict()))
    assert (told["option"], told["given"], told["effect"], told["asked"]) == (path, given, "ignored", True)
    assert told["rule"] == notice.rule


def test_a_callable_goes_to_json_as_text() -> None:
    config = CompilerConfig()
    config.debug.run_eagerly = True
    config.post_grad_custom_pre_pass = os.path.join
    (notice,) = resolve(config).notices
    assert "join" in json.loads(json.dumps(notice.to_dict()))["given"]
