"""The JSON Schema of a configuration, from the kinds of its options."""

from __future__ import annotations

from typing import Any

from air_config._kinds import thaw
from air_config._option import Group
from air_config._presets import PRESETS
from air_config._tree import OPTIONS, Tree

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """Draft 2020-12. It says all that can be said without looking at files and without importing callables."""
    schema = _group_schema(Tree())
    properties = {
        "$set": {
            "description": "Paths that were assigned, even where the value is the default.",
            "type": "array",
            "items": {"enum": list(OPTIONS)},
            "uniqueItems": True,
        },
        "$preset": {"description": "The preset it starts from.", "enum": list(PRESETS)},
        **schema["properties"],
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AIR compiler configuration"}
    return {**head, **schema, "properties": properties}


def _group_schema(group: Group) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, row in group._OPTIONS.items():
        properties[name] = {"description": row.text, "default": thaw(row.default), **thaw(row.kind.schema)}
    for name in group._GROUPS:
        properties[name] = _group_schema(getattr(group, name))
    description = (type(group).__doc__ or "").strip()
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": False,
    }
