# ruff: noqa: RUF001  # Chinese has commas of its own
"""The words of the scoreboard in both languages: titles, what is measured, and the reasons of what we lose."""

from __future__ import annotations

from typing import Final, NamedTuple


class Text(NamedTuple):
    """The same in English and in Chinese."""

    en: str
    zh: str


AT_MOST: Final = Text("at most {}", "不超过 {}")
NOT_NPU: Final = "; host time above the ACL boundary, not the performance of an NPU"
NOT_NPU_ZH: Final = "；ACL 边界以上的主机时间，不代表 NPU 的性能"

GROUNDS: Final = {
    "sim": Text("air-sim: host time above the ACL boundary", "air-sim：ACL 边界以上的主机时间"),
    "cpu": Text("CPU", "CPU"),
    "cuda": Text("GPU", "GPU"),
}
TITLES: Final = {
    "host 288": Text("A call of a captured graph, 288 parameters", "调用一次已捕获的图，288 个参数"),
    "host 1000": Text("A call of a captured graph, 1,000 parameters", "调用一次已捕获的图，1,000 个参数"),
    "pinned": Text("A pinned call", "固定后的调用"),
    "lengths": Text("Sequence lengths that grow", "不断增长的序列长度"),
    "training": Text("A training step of a transformer of 8 blocks", "8 层 Transformer 的一个训练步骤"),
    "training memory": Text("Device memory of that training step", "该训练步骤的设备内存"),
    "conversion": Text("Conversion of a Llama to Ascend IR", "把 Llama 转换为 Ascend IR"),
    "memory": Text("Python memory of that conversion", "该转换占用的 Python 内存"),
    "engine call": Text("A call in max-autotune", "max-autotune 的一次调用"),
    "parameters": Text("A call, by the number of parameters", "一次调用，按参数个数"),
    "keys": Text("A call of each key in turn, by the number of keys", "轮流调用每个键，按键的个数"),
    "chain": Text("A chain of 50 elementwise operators", "50 个逐元素算子的链"),
    "mlp": Text("An MLP of 8 layers", "8 层 MLP"),
    "decode": Text("A decode step of a Llama of 4 layers", "4 层 Llama 的一步解码"),
    "zoo": Text("Compile time of models of the zoo", "模型集的编译时间"),
    "first call": Text("The first call of a process", "进程的首次调用"),
    "passes": Text("FX passes over a large graph", "大图上的 FX pass"),
    "nodes": Text("Conversion of one node, by the nodes of the graph", "转换一个节点，按图的节点数"),
    **{
        f"plan {n}": Text(f"Stream plan of one node, {n} streams", f"一个节点的流计划，{n} 条流")
        for n in (2, 8, 32)
    },
    **{
        f"gpu {what} {batch}": Text(f"{en}, batch {batch}", f"{zh}，batch {batch}")
        for what, en, zh in (
            ("latency", "Latency of a decode step", "一步解码的延迟"),
            ("host time", "Host time of a decode step", "一步解码的主机时间"),
        )
        for batch in (1, 8, 64)
    },
    "gpu prefill": Text(
        "Latency of a prefill of 512 tokens, 8 layers", "512 个 token 的 prefill 的延迟，8 层"
    ),
    "gpu vit": Text("Latency of a ViT of 8 layers, 8 images", "8 层 ViT 处理 8 张图像的延迟"),
    "gpu experts": Text("Latency of a mixture of experts, 64 tokens", "混合专家模型处理 64 个 token 的延迟"),
    "gpu generate": Text("`generate`, 64 tokens, 16 layers", "`generate`，64 个 token，16 层"),
    "gpu memory": Text("Memory that nine sizes keep", "九种尺寸所保留的内存"),
    "gpu seconds": Text("Seconds until nine sizes run", "九种尺寸全部可运行所需的秒数"),
    "gpu chain": Text("A chain of 50 elementwise operators on a GPU", "GPU 上 50 个逐元素算子的链"),
    "gpu mlp": Text("An MLP of 8 layers on a GPU", "GPU 上的 8 层 MLP"),
}
_HOST: Final = Text(
    f"1.00 is a bare replay plus Dynamo whose backend does nothing{NOT_NPU}.",
    f"1.00 是一次裸重放加上后端什么都不做的 Dynamo{NOT_NPU_ZH}。",
)
_BESIDE_TORCHAIR: Final = Text(
    f"Both get the same FX graph, on the same engine; 1.00 is TorchAir{NOT_NPU}.",
    f"两者得到同一张 FX 图，使用同一个引擎；1.00 是 TorchAir{NOT_NPU_ZH}。",
)
_EAGER: Final = Text("1.00 is eager, on one thread.", "1.00 是 eager，单线程。")
_PLAN: Final = Text(
    "With all checks; 1.00 is one node of a graph of 5,000.",
    "包含全部检查；1.00 是 5,000 个节点的图中的一个节点。",
)
_REDUCED: Final = Text(
    "Until the call returns, while the device works; 1.00 is Inductor's reduce-overhead.",
    "直到调用返回为止，此时设备仍在工作；1.00 是 Inductor 的 reduce-overhead。",
)
_BARE: Final = Text("1.00 is a bare replay.", "1.00 是一次裸重放。")
ABOUT: Final = {
    "host 288": _HOST,
    "host 1000": _HOST,
    "pinned": Text(
        f"1.00 is one input copy and a bare replay{NOT_NPU}.",
        f"1.00 是一次输入拷贝加一次裸重放{NOT_NPU_ZH}。",
    ),
    "lengths": Text(
        "Each call changes the lengths of 64 requests in 32 captured attention operators; 1.00 is a replay that a "
        f"program patches by hand{NOT_NPU}.",
        f"每次调用更改捕获中 32 个注意力算子的 64 个请求的长度；1.00 是由程序手工更新的重放{NOT_NPU_ZH}。",
    ),
    "training": Text(
        f"Forward and backward; 1.00 is eager{NOT_NPU}.", f"前向和反向；1.00 是 eager{NOT_NPU_ZH}。"
    ),
    "training memory": Text(
        "The most that torch_npu's allocator has given out during a step, after captures were made; 1.00 is eager.",
        "捕获完成之后的一个步骤中，torch_npu 的分配器给出的最大内存；1.00 是 eager。",
    ),
    "conversion": _BESIDE_TORCHAIR,
    "memory": _BESIDE_TORCHAIR,
    "engine call": _BESIDE_TORCHAIR,
    "parameters": _HOST,
    "keys": Text(f"1.00 is a graph with one key{NOT_NPU}.", f"1.00 是只有一个键的图{NOT_NPU_ZH}。"),
    "chain": _EAGER,
    "mlp": _EAGER,
    "decode": _EAGER,
    "zoo": Text(
        "From `torch.compile` to the end of the first call, summed over the models; 1.00 is `aot_eager`.",
        "从 `torch.compile` 到首次调用结束，对各模型求和；1.00 是 `aot_eager`。",
    ),
    "first call": Text(
        "Each in a process of its own, in turn; 1.00 is the call that traces.",
        "各自在单独的进程中轮流运行；1.00 是需要追踪的调用。",
    ),
    "passes": Text(
        "Reinplacing and removing what has no effect; 1.00 is the same work of Inductor's passes.",
        "原地化与去除无效算子；1.00 是 Inductor 的 pass 做同样的工作。",
    ),
    "nodes": Text(
        "With passes and verifier; 1.00 is one node of a graph of 2,500.",
        "包含 pass 与校验；1.00 是 2,500 个节点的图中的一个节点。",
    ),
    **{f"plan {n}": _PLAN for n in (2, 8, 32)},
    **{f"gpu latency {batch}": _BARE for batch in (1, 8, 64)},
    **{f"gpu host time {batch}": _REDUCED for batch in (1, 8, 64)},
    **dict.fromkeys(("gpu prefill", "gpu vit", "gpu experts"), _BARE),
    "gpu generate": Text(
        "A whole request with a static cache, prefill and all; 1.00 is what transformers compiles by itself.",
        "带静态缓存的一次完整请求，包括 prefill；1.00 是 transformers 自行编译的结果。",
    ),
    "gpu memory": Text(
        "Reserved bytes that stay after nine batch sizes of a Llama were captured; 1.00 is Inductor's reduce-overhead.",
        "捕获一个 Llama 的九种批大小之后仍保留的字节；1.00 是 Inductor 的 reduce-overhead。",
    ),
    "gpu seconds": Text(
        "Tracing, compiling and capturing each of nine batch sizes for itself; 1.00 is Inductor's reduce-overhead.",
        "对九种批大小分别追踪、编译和捕获；1.00 是 Inductor 的 reduce-overhead。",
    ),
    "gpu chain": Text("1.00 is eager.", "1.00 是 eager。"),
    "gpu mlp": Text("1.00 is eager.", "1.00 是 eager。"),
}
_OTHER_KERNELS: Final = Text(
    "kernels of ATen: each operator reads and writes memory, which Inductor's fused kernels do not; "
    'set `air.kernels = "inductor"`',
    'ATen 的 kernel：每个算子都要读写内存，Inductor 融合后的 kernel 则不必；可设 `air.kernels = "inductor"`',
)
_COPIES: Final = Text(
    "inputs are copied into the memory of the capture on every call, which `air.adaptive_slots = 0` asks for",
    "每次调用都把输入拷贝到捕获所用的内存，这正是 `air.adaptive_slots = 0` 所要求的",
)
_ON_CPU: Final = Text(
    "on the CPU a captured graph is replayed operator by operator, so that it can be compared with eager",
    "在 CPU 上，捕获的图逐个算子重放，以便与 eager 对照",
)
_MORE_PASSES: Final = Text(
    "all passes run, of which Inductor's side of the comparison has two",
    "运行全部 pass，而对照的 Inductor 一侧只有两个",
)
_AROUND: Final = Text(
    "an input is copied on every call, and what stands around the replay (the wrapper of AOTAutograd, the executor's "
    "own checks) costs more than is wanted",
    "每次调用都拷贝输入，而且重放之外的部分（AOTAutograd 的包装、执行器自身的检查）开销高于目标",
)
_COLD: Final = Text(
    "the key is found by a hash; what is left is believed to be caches of the processor that other keys have emptied, "
    "and was not taken apart",
    "键由散列查找；其余开销估计来自被其他键挤出的处理器缓存，尚未细分",
)
_TRIED_OUT: Final = Text(
    "torch's max-autotune generates the products as well and keeps what it finds fastest; AIR calls the library's",
    "torch 的 max-autotune 连矩阵乘法也自行生成，并保留试出的最快者；AIR 调用库中的乘法",
)
_COMPILED: Final = Text(
    "kernels are generated for each size, which cudagraphs has none of",
    "要为每种尺寸生成 kernel，而 cudagraphs 不生成 kernel",
)
_PLANNED: Final = Text(
    "believed: beside tracing and capturing, passes run over each graph and its memory is planned",
    "估计：除追踪与捕获外，还要对每张图运行 pass 并规划其内存",
)
_RESULTS: Final = Text(
    "AIR gives a program copies of its results; TorchAir's are overwritten by the next step.",
    "AIR 交给程序的是结果的副本；TorchAir 的结果会被下一步覆盖。",
)
REASONS: Final = {
    ("training memory", "AIR reduce-overhead"): _RESULTS,
    ("keys", ""): _COLD,
    ("parameters", ""): _AROUND,
    ("chain", "AIR, kernels of Inductor, inputs copied"): _COPIES,
    ("mlp", "AIR, kernels of Inductor, inputs copied"): _COPIES,
    ("chain", "AIR, kernels of ATen"): _OTHER_KERNELS,
    ("mlp", "AIR, kernels of ATen"): _OTHER_KERNELS,
    **{
        (f"gpu {name}", "AIR, kernels of ATen"): _OTHER_KERNELS
        for name in (
            "chain",
            "mlp",
            "prefill",
            "vit",
            "experts",
            *(f"latency {batch}" for batch in (1, 8, 64)),
        )
    },
    ("gpu generate", "AIR, kernels of ATen"): _OTHER_KERNELS,
    ("gpu latency 1", "AIR, kernels of Inductor"): _TRIED_OUT,
    ("gpu seconds", "AIR, kernels of ATen"): _PLANNED,
    ("gpu seconds", "AIR, kernels of Inductor"): _COMPILED,
    ("decode", "AIR, kernels of ATen"): _ON_CPU,
    ("passes", "AIR, all passes"): _MORE_PASSES,
}
PAGE: Final = {
    "title": Text("Performance", "性能"),
    "intro": Text(
        "Every number is a ratio within one process, made from the records in "
        "[benchmarks/results](../benchmarks/results): less is better, and what is 1.00 each table says. On air-sim "
        "kernels and copies do nothing: what is measured there is host time above the ACL boundary, and no NPU. A row "
        "of ours that is above another compiler's is a loss, and says why. What to do about the speed of your own "
        "program is in [performance tuning](cases/performance.md).",
        "每个数字都是同一进程内的比值，由 [benchmarks/results](../benchmarks/results) 中的记录生成：越小越好，"
        "各表说明什么是 1.00。在 air-sim 上，kernel 与拷贝什么也不做：测到的是 ACL 边界以上的主机时间，不是 NPU。"
        "我们的某一行高于其他编译器时，标为落后，并说明原因。如何优化自己的程序，见[性能调优](cases/performance.zh.md)。",
    ),
    "how": Text("Measure", "测量"),
    "run": Text(
        "This measures what the machine can and writes the records, this page and `build/scoreboard.html`, which has "
        "plots; `-- --quick` takes minutes and keeps nothing. Processor time counts, of short calls the least of "
        "interleaved rounds; only calls of a GPU and of the graph engine are timed by the clock. Do not edit this "
        "page.",
        "测量本机能测的内容，写出记录、本页面以及带图的 `build/scoreboard.html`；`-- --quick` 只需几分钟，不保留结果。"
        "计处理器时间，短调用取交错轮次中的最小值；只有 GPU 与图引擎的调用用时钟计时。请勿手工编辑本页面。",
    ),
    "sum": Text(
        "{held} rows of ours hold, {lost} lose, {open} of {all} tables are open.",
        "我们的 {held} 行达标，{lost} 行落后，{all} 张表中 {open} 张尚无数据。",
    ),
    "facts": Text(
        "Measured on {device}, {date}{form}: {versions}.", "测于 {device}，{date}{form}：{versions}。"
    ),
    "reduced": Text(", in the reduced form", "，精简形式"),
    "unmeasured": Text(
        "Open: nothing is recorded. `nox -s scoreboard` on a machine with such a device fills these tables.",
        "尚无数据：没有记录。在有此类设备的机器上运行 `nox -s scoreboard` 会填入这些表。",
    ),
    "head": Text("| row | ratio | |", "| 行 | 比值 | |"),
    "grows": Text("| {} | ratio | |", "| {} | 比值 | |"),
    "loss": Text("loss to {}: {}", "落后于 {}：{}"),
    "missed": Text("loss: {} was wanted: {}", "落后：要求{}：{}"),
    "unknown": Text("the reason is not known", "原因未知"),
    "open": Text("Open.", "尚无数据。"),
    "of the gpu": Text(
        "`max-autotune` chose its kernels while other benchmarks were compiled on the same GPU, and may choose better "
        "ones on an idle GPU. Chain, MLP and nine sizes are of the day before, the seconds of nine sizes with all ways "
        "at once on 16 cores.",
        "`max-autotune` 选择 kernel 时，同一 GPU 上还在编译其他基准，空闲的 GPU 上可能选得更好。"
        "链、MLP 与九种尺寸测于前一天，"
        "九种尺寸的秒数是在 16 核上同时运行各方式时测得的。",
    ),
}
COUNTED: Final = {
    "parameters": Text("parameters", "参数"),
    "keys": Text("keys", "键"),
    "nodes": Text("nodes", "节点"),
}
