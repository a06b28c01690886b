"""Files that tell `atc` how the models of several ranks belong together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from air_graph.files import write_text


def model_relation(names: Sequence[str], groups: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Which model runs where, and which ranks talk to each other.

    Torch knows no nodes: every rank is placed on node 0, in order; edit the file for other placements.
    """
    return {
        "deploy_config": [
            {"submodel_name": name, "deploy_device_id_list": f"0:0:{rank}"} for rank, name in enumerate(names)
        ],
        "model_name_to_instance_id": [
            {"submodel_name": name, "model_instance_id": rank} for rank, name in enumerate(names)
        ],
        "comm_group": [
            {"group_name": name, "group_rank_list": str(list(ranks))}
            for name, ranks in sorted(groups.items())
        ],
        "rank_table": [{"rank_id": rank, "model_instance_id": rank} for rank in range(len(names))],
    }


def numa(world_size: int) -> dict[str, Any]:
    """One node with all ranks."""
    node = {
        "node_id": 0,
        "node_type": "ATLAS800",
        "ipaddr": "127.0.0.1",
        "port": 29500,
        "item_list": [{"item_id": rank} for rank in range(world_size)],
    }
    return {
        "cluster": [{"cluster_nodes": [node], "nodes_toplogy": {}}],
        "item_def": [{"item_type": "Ascend910"}],
        "node_def": [{"item": [{"item_type": "Ascend910"}]}],
    }


def write_relation(folder: Path, names: Sequence[str], groups: Mapping[str, Sequence[int]]) -> list[Path]:
    """Write both files."""
    contents = {
        "model_relation_config.json": model_relation(names, groups),
        "numa_config.json": numa(len(names)),
    }
    written = []
    for name, value in contents.items():
        path = folder / name
        write_text(path, json.dumps(value, indent=4), "the relation of the ranks")
        written.append(path)
    return written
