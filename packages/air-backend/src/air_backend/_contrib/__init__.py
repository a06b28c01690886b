"""Stands in for `custom_torch_ops`, which programs of vLLM-Ascend 0.9, dlinfer and xpu_graph import."""
