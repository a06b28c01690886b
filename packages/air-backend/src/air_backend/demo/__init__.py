"""The demo: a tiny Llama, prefill and decode, in eager and in every mode of the backend."""

from __future__ import annotations

from air_backend.demo._llama import Llama, LlamaSize
from air_backend.demo._run import DemoReport, Row, run_demo

__all__ = ["DemoReport", "Llama", "LlamaSize", "Row", "run_demo"]
