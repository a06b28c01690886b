"""What converters of cann-recipes, vLLM-Ascend and others import from TorchAir's private modules, under those names.

A converter of one's own needs none of this: `torchair.register_fx_node_ge_converter` and `torchair.ge` are public.
"""
