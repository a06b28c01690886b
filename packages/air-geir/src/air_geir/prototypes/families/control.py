"""Prototypes: graph inputs and outputs, control flow and side effects."""

from __future__ import annotations

ROWS = r"""
Assert(input_condition, input_data*) -> () {summarize: int = 3}
Assign(ref, value) -> ref {validate_shape: bool = True; use_locking: bool = False}
AssignAdd(ref, value) -> ref {use_locking: bool = False}
AssignSub(var, value) -> var {use_locking: bool = False}
AsString(x) -> y {precision: int = -1; scientific: bool = False; shortest: bool = False; width: int = -1;
    fill: str = ""}
Case(branch_index, input*) -> output* [branches]
CaseCondition(x) -> y {algorithm: str = "LU"}
Cmo(src) -> () {max_size: int; type: int = 6; offset: int = 0}
ControlTrigger() -> ()
Data(x) -> y {index: int = 0}
Enter(x) -> y {frame_name: str; is_constant: bool}
Exit(x) -> y
GuaranteeConst(x) -> y
If(cond, input*) -> output* [then_branch, else_branch]
LoopCond(x) -> y
Merge(x*) -> (y, value_index)
MultiMerge(input_proposal) -> (output_proposal, output_index) {k_num: int; include_index: bool = False;
    largest: bool = True}
NetOutput(input*) -> ()
NextIteration(x) -> y
NoOp() -> ()
PartitionedCall(args*) -> output* {config: str = ""; config_proto: str = ""; executor_type: str = ""} [f]
Print(x*) -> ()
PrintV2(x) -> () {output_stream: str = "stderr"}
PrintV3(x, data*) -> y {message: str = ""; first_n: int = -1; summarize: int = 3}
RefData(x) -> y {index: int = 0}
RefEnter(x) -> y {frame_name: str; is_constant: bool}
RefExit(x) -> y
RefMerge(x*) -> (y, value_index)
RefNextIteration(x) -> y
RefSwitch(data, pred) -> (output_false, output_true)
Save(tensors*) -> ()
SingleMerge(input_proposal) -> (output_data, output_index) {k_num: int; largest: bool = True}
StringFormat(x*) -> y {template: str = "%s"; placeholder: str = "%s"; summarize: int = 3}
Switch(data, pred) -> (output_false, output_true)
SwitchN(data, pred_value) -> output*
Timestamp() -> y
While(input*) -> output* {parallel_iterations: int = 10} [cond, body]
"""
