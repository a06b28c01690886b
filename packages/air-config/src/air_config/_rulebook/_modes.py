"""Rules of place, mode, eager runs, products and streams."""

from __future__ import annotations

from typing import Final

from air_config._rulebook._conditions import (
    ACLGRAPH,
    ARCHITECTURE,
    BUCKETS,
    DATA_DUMP,
    EAGERLY,
    FX_PASSES,
    GEARS,
    INTRODUCTION,
    MANY_STREAMS,
    MAX_AUTOTUNE,
    NPUGRAPH_EX,
    ON_CUDA,
    ORIGINAL_DUMP,
    OTHER_PRODUCT,
    REINPLACE,
    RUN_EAGERLY,
    STATIC,
    STATIC_KERNELS,
    STREAMS,
    SUPPORT_CHECK,
    TORCHAIR_IR,
    but,
    in_areas,
    off_when_eager,
    where,
)
from air_config._rules import KEEP, Rule, both, either, fact, option_is

PLACE: Final = (
    Rule(
        "one-card-per-process",
        fact("the process holds tensors on several NPUs", lambda context: context.cards > 1),
        ("context.cards",),
        "refused",
        "a process uses one card; start one process for each",
        INTRODUCTION,
    ),
    Rule(
        "aclgraph-products",
        both(ACLGRAPH, OTHER_PRODUCT),
        ("mode",),
        "refused",
        "aclgraph runs on the A2 and A3 series",
        INTRODUCTION,
        KEEP,
    ),
    Rule(
        "max-autotune-not-on-cuda",
        both(MAX_AUTOTUNE, ON_CUDA),
        ("mode",),
        "refused",
        "there is no engine for Ascend IR on CUDA; use reduce-overhead there",
        ARCHITECTURE,
        KEEP,
    ),
    Rule(
        "buckets-pad-captures",
        both(MAX_AUTOTUNE, BUCKETS),
        ("context.buckets",),
        "ignored",
        "padding is for captured sizes (reduce-overhead); for a graph engine use set_dim_gears",
        ARCHITECTURE,
    ),
    Rule(
        "gears-are-for-a-graph-engine",
        both(either(ACLGRAPH, EAGERLY), GEARS),
        ("context.gears",),
        "ignored",
        "a graph engine prepares the sizes of gears (max-autotune); here every size is served, and for captured sizes "
        "use set_dim_buckets",
        ARCHITECTURE,
    ),
    Rule(
        "buckets-need-captures",
        both(ACLGRAPH, either(EAGERLY, DATA_DUMP, ORIGINAL_DUMP), BUCKETS),
        ("context.buckets",),
        "ignored",
        "padding is for captured sizes, and this graph is run eagerly",
        ARCHITECTURE,
    ),
)

MODES: Final = (
    Rule(
        "inductor-kernels-need-reduce-overhead",
        both(MAX_AUTOTUNE, option_is("air.kernels", "inductor")),
        ("air.kernels",),
        "refused",
        "kernels of Inductor are for captures (reduce-overhead); a graph engine compiles its own",
        ARCHITECTURE,
    ),
    Rule(
        "inductor-kernels-are-captured",
        both(EAGERLY, option_is("air.kernels", "inductor")),
        ("air.kernels",),
        "ignored",
        "run_eagerly runs the operators of ATen one by one",
        ARCHITECTURE,
    ),
    Rule(
        "fx-passes-need-reduce-overhead",
        MAX_AUTOTUNE,
        REINPLACE,
        "ignored",
        "the passes that rewrite operators in place belong to reduce-overhead",
        FX_PASSES,
    ),
    Rule(
        "static-kernels-need-reduce-overhead",
        MAX_AUTOTUNE,
        in_areas("static-kernel"),
        "ignored",
        "static kernels belong to reduce-overhead; the graph engine compiles static graphs by itself",
        STATIC_KERNELS,
    ),
    Rule(
        "streams-need-reduce-overhead",
        both(MAX_AUTOTUNE, MANY_STREAMS),
        ("context.multi_stream",),
        "overridden",
        "a graph runs on streams of its own in reduce-overhead; here a tag is a label of the operators, by which the "
        "graph engine may place them, and a tagged event runs eagerly between compiled pieces",
        STREAMS,
        to=False,
    ),
    Rule(
        "aclgraph-options-in-max-autotune",
        MAX_AUTOTUNE,
        but(where(lambda area: "max-autotune" not in area.modes), *REINPLACE, *in_areas("static-kernel")),
        "ignored",
        "the option acts in reduce-overhead only",
        SUPPORT_CHECK,
    ),
    Rule(
        "max-autotune-options-in-aclgraph",
        ACLGRAPH,
        where(lambda area: area.modes == ("max-autotune",)),
        "ignored",
        "the option acts in max-autotune only",
        SUPPORT_CHECK,
    ),
    Rule(
        "aclgraph-dumps-python",
        both(ACLGRAPH, option_is("debug.graph_dump.type", "txt", "pbtxt", "svg", "html")),
        ("debug.graph_dump.type",),
        "refused",
        'aclgraph writes graphs as "py" only',
        SUPPORT_CHECK,
    ),
)

EAGER: Final = (
    Rule(
        "run-eagerly-in-max-autotune",
        both(MAX_AUTOTUNE, EAGERLY),
        off_when_eager("max-autotune"),
        "ignored",
        "with run_eagerly no other feature of max-autotune acts",
        RUN_EAGERLY,
    ),
    Rule(
        "run-eagerly-in-reduce-overhead",
        both(option_is("mode", "reduce-overhead"), EAGERLY),
        off_when_eager("reduce-overhead"),
        "ignored",
        "with run_eagerly only FX passes and static kernels act",
        RUN_EAGERLY,
    ),
    Rule(
        "force-eager-in-npugraph-ex",
        both(option_is("mode", "npugraph_ex"), EAGERLY),
        off_when_eager("npugraph_ex"),
        "ignored",
        "without a capture the option has no effect",
        NPUGRAPH_EX,
    ),
)

PRODUCTS: Final = (
    Rule(
        "fx-passes-products",
        both(ACLGRAPH, OTHER_PRODUCT),
        REINPLACE,
        "ignored",
        "the passes run on the A2 and A3 series",
        FX_PASSES,
    ),
    Rule(
        "static-kernel-products",
        OTHER_PRODUCT,
        (STATIC,),
        "refused",
        "static kernels are compiled for the A2 and A3 series",
        STATIC_KERNELS,
    ),
    Rule(
        "streams-products",
        both(ACLGRAPH, OTHER_PRODUCT, MANY_STREAMS),
        ("context.multi_stream",),
        "refused",
        "several streams in a graph run on the A2 and A3 series",
        STREAMS,
    ),
)

MULTI_STREAM: Final = (
    Rule(
        "reinplace-off-with-streams",
        both(ACLGRAPH, MANY_STREAMS, option_is("air.reinplace_with_streams", "seed")),
        REINPLACE,
        "overridden",
        "in-place rewrites are skipped in a graph of several streams; "
        'air.reinplace_with_streams="ordering" keeps those that the order of the streams proves safe',
        FX_PASSES,
        True,
    ),
    Rule(
        "single-stream-with-streams",
        both(MAX_AUTOTUNE, MANY_STREAMS),
        ("ge_config.enable_single_stream",),
        "refused",
        "the graph asks for several streams and the option for one",
        TORCHAIR_IR,
    ),
)
