"""Imported for its operators, which torch_npu has itself by now: there is nothing to make here.

Of its operators `npu_inference::npu_tome_merge` and `npu_tome_unmerge` are in no torch_npu, and not here: asking torch
for them is torch's error with their names.
"""
