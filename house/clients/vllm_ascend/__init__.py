"""vLLM-Ascend's own compilation module, from a checkout, with tests of ours."""
