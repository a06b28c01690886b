"""Prototypes: parameter updates of optimizers."""

from __future__ import annotations

ROWS = r"""
AdamApplyOne(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x, add2_y) -> (output0,
    output1, output2)
AdamApplyOneAssign(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x, add2_y) ->
    (input1, input2, input3)
AdamApplyOneWithDecay(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x, mul4_x,
    add2_y) -> (output0, output1, output2)
AdamApplyOneWithDecayAssign(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x,
    mul4_x, add2_y) -> (input1, input2, input3)
ApplyAdadelta(var, accum, accum_update, lr, rho, epsilon, grad) -> var {use_locking: bool = False}
ApplyAdadeltaD(var, accum, accum_update, lr, rho, epsilon, grad) -> (var, accum, accum_update)
    {use_locking: bool = False}
ApplyAdagrad(var, accum, lr, grad) -> var {update_slots: bool = True; use_locking: bool = False}
ApplyAdagradD(var, accum, lr, grad) -> (var, accum) {update_slots: bool = True; use_locking: bool = False}
ApplyAdagradDA(var, gradient_accumulator, gradient_squared_accumulator, grad, lr, l1, l2, global_step) ->
    var {use_locking: bool = False}
ApplyAdagradDAD(var, gradient_accumulator, gradient_squared_accumulator, grad, lr, l1, l2, global_step) ->
    (var, gradient_accumulator, gradient_squared_accumulator) {use_locking: bool = False}
ApplyAdagradV2(var, accum, lr, epsilon, grad) -> var {update_slots: bool = True; use_locking: bool =
    False}
ApplyAdagradV2D(var, accum, lr, grad) -> (var, accum) {epsilon: float; update_slots: bool = True;
    use_locking: bool = False}
ApplyAdam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) -> var {use_locking: bool
    = False; use_nesterov: bool = False}
ApplyAdaMax(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad) -> var {use_locking: bool = False}
ApplyAdaMaxD(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad) -> (var, m, v) {use_locking: bool =
    False}
ApplyAdamD(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) -> (var, m, v)
    {use_locking: bool = False; use_nesterov: bool = False}
ApplyAdamV2(var, m, v, lr, beta1, beta2, epsilon, grad, max_grad_norm?, global_grad_norm, weight_decay,
    step_size?) -> (var, m, v) {adam_mode: str = "adam"}
ApplyAdamW(var, m, v, beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad,
    max_grad_norm?) -> (var, m, v) {amsgrad: bool = False; maximize: bool = False}
ApplyAdamWithAmsgrad(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) -> var
    {use_locking: bool = False}
ApplyAdamWithAmsgradD(var, m, v, vhat, beta1_power, beta2_power, lr, grad) -> (var, m, v, vhat) {beta1:
    float; beta2: float; epsilon: float; use_locking: bool = False}
ApplyAdamWithAmsgradV2(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad) ->
    (var, m, v, vhat) {use_locking: bool = False}
ApplyAddSign(var, m, lr, alpha, sign_decay, beta, grad) -> var {use_locking: bool = False}
ApplyAddSignD(var, m, lr, alpha, sign_decay, beta, grad) -> (var, m) {use_locking: bool = False}
ApplyCenteredRMSProp(var, mg, ms, mom, lr, rho, momentum, epsilon, grad) -> var {use_locking: bool =
    False}
ApplyCenteredRMSPropD(var, mg, ms, mom, lr, rho, momentum, epsilon, grad) -> (var, mg, ms, mom)
    {use_locking: bool = False}
ApplyFtrl(var, accum, linear, grad, lr, l1, l2, lr_power) -> var {use_locking: bool = False}
ApplyFtrlD(var, accum, linear, grad, lr, l1, l2, lr_power) -> (var, accum, linear) {use_locking: bool =
    False}
ApplyFtrlV2(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power) -> var {use_locking: bool =
    False}
ApplyFtrlV2D(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power) -> (var, accum, linear)
    {use_locking: bool = False}
ApplyGradientDescent(var, alpha, delta) -> var {use_locking: bool = False}
ApplyKerasMomentum(var, accum, lr, grad, momentum) -> var {use_locking: bool = False; use_nesterov: bool =
    False}
ApplyKerasMomentumD(var, accum, lr, grad, momentum) -> (var, accum) {use_locking: bool = False;
    use_nesterov: bool = False}
ApplyMomentum(var, accum, lr, grad, momentum) -> var {use_nesterov: bool = False; use_locking: bool =
    False}
ApplyMomentumD(var, accum, lr, grad, momentum) -> (var, accum) {use_nesterov: bool = False; use_locking:
    bool = False}
ApplyPowerSign(var, m, lr, logbase, sign_decay, beta, grad) -> var {use_locking: bool = False}
ApplyPowerSignD(var, m, lr, logbase, sign_decay, beta, grad) -> (var, m) {use_locking: bool = False}
ApplyProximalAdagrad(var, accum, lr, l1, l2, grad) -> var {use_locking: bool = False}
ApplyProximalAdagradD(var, accum, lr, l1, l2, grad) -> (var, accum) {use_locking: bool = False}
ApplyProximalGradientDescent(var, alpha, l1, l2, delta) -> var {use_locking: bool = False}
ApplyRMSProp(var, ms, mom, lr, rho, momentum, epsilon, grad) -> var {use_locking: bool = False}
ApplyRMSPropD(var, ms, mom, lr, grad) -> (var, ms, mom) {rho: float; momentum: float; epsilon: float;
    use_locking: bool = False}
EmbeddingApplyAdam(var_handle, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, keys,
    global_step) -> var_handle {embedding_dim: int}
EmbeddingApplyAdamW(var_handle, beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad,
    keys, max_grad_norm?) -> var_handle {embedding_dim: int; amsgrad: bool = False; maximize: bool =
    False}
FusedMulApplyKerasMomentum(var, accum, lr, x1, momentum, x2) -> (var, accum) {use_locking: bool = False;
    use_nesterov: bool = False}
FusedMulApplyMomentum(var, accum, lr, x1, momentum, x2) -> (var, accum) {use_nesterov: bool = False;
    use_locking: bool = False}
FusedMulApplyMomentumExtern(var, accum, lr, x1, momentum, x2, var_copy) -> (var, var_copy, accum)
    {use_nesterov: bool = False; use_locking: bool = False}
LambApplyOptimizerAssign(grad, inputv, inputm, input3, mul0_x, mul1_x, mul2_x, mul3_x, add2_y, steps,
    do_use_weight, weight_decay_rate) -> (output0, inputv, inputm)
LambApplyWeightAssign(input0, input1, input2, input3, input_param) -> input_param
LambNextMV(input_mul3, input_mul2, input_realdiv1, input_mul1, input_mul0, input_realdiv0, input_mul4,
    mul0_x, mul1_sub, mul2_x, mul3_sub1, mul4_x, add2_y) -> (y1, y2, y3, y4)
LambNextMVWithDecay(input_mul3, input_mul2, input_realdiv1, input_mul1, input_mul0, input_realdiv0,
    input_mul4, mul0_x, mul1_sub, mul2_x, mul3_sub1, mul4_x, add2_y) -> (y1, y2, y3, y4)
LambNextRight(input_square, input_mul2, mul2_x, mul3_x, truediv1_recip, add2_y) -> (y1, y2)
LambUpdateWithLr(input_greater1, input_greater_realdiv, input_realdiv, input_mul0, input_mul1, input_sub,
    greater_y, select_e, minimum_y) -> y
LambUpdateWithLrV2(x1, x2, x3, x4, x5, greater_y, select_e) -> y
LarsV2(w, g, weight_decay, learning_rate) -> g_new {hyperpara: float = 0.001; epsilon: float = 1e-05;
    use_clip: bool = False}
LarsV2Update(w, g, w_square_sum, g_square_sum, weight_decay, learning_rate) -> g_new {hyperpara: float =
    0.001; epsilon: float = 1e-05; use_clip: bool = False}
ResourceAccumulatorApplyGradient(handle, local_step, gradient) -> ()
ResourceAccumulatorTakeGradient(handle, num_required) -> average {dtype: dtype}
SGD(parameters, gradient, learning_rate, accum, momentum, stat) -> parameters {dampening: float = 0.0;
    weight_decay: float = 0.0; nesterov: bool = False}
SparseApplyAdadelta(var, accum, accum_update, lr, rho, epsilon, grad, indices) -> (var, accum,
    accum_update) {use_locking: bool = False}
SparseApplyAdadeltaD(var, accum, accum_update, lr, rho, grad, indices) -> (var, accum, accum_update)
    {epsilon: float; use_locking: bool = False}
SparseApplyAdagrad(var, accum, lr, grad, indices) -> (var, accum) {use_locking: bool = False;
    update_slots: bool = True}
SparseApplyAdagradD(var, accum, grad, indices) -> (var, accum) {lr: float; use_locking: bool = False;
    update_slots: bool = True}
SparseApplyAdagradV2(var, accum, lr, epsilon, grad, indices) -> (var, accum) {use_locking: bool = False;
    update_slots: bool = True}
SparseApplyAdagradV2D(var, accum, grad, indices) -> (var, accum) {lr: float; epsilon: float; use_locking:
    bool = False; update_slots: bool = True}
SparseApplyFtrl(var, accum, linear, grad, indices, lr, l1, l2, lr_power) -> (var, accum, linear)
    {use_locking: bool = False}
SparseApplyFtrlD(var, accum, linear, grad, indices) -> (var, accum, linear) {lr: float; l1: float; l2:
    float; lr_power: float; use_locking: bool = False}
SparseApplyFtrlV2(var, accum, linear, grad, indices, lr, l1, l2, l2_shrinkage, lr_power) -> (var, accum,
    linear) {use_locking: bool = False}
SparseApplyFtrlV2D(var, accum, linear, grad, indices) -> (var, accum, linear) {lr: float; l1: float; l2:
    float; l2_shrinkage: float; lr_power: float; use_locking: bool = False}
SparseApplyProximalAdagrad(var, accum, lr, l1, l2, grad, indices) -> (var, accum) {use_locking: bool =
    False}
SparseApplyProximalAdagradD(var, accum, lr, l1, l2, grad, indices) -> (var, accum) {use_locking: bool =
    False}
SparseApplyRMSProp(var, ms, mom, lr, rho, momentum, epsilon, grad, indices) -> (var, ms, mom)
    {use_locking: bool = False}
SparseApplyRMSPropD(var, ms, mom, lr, grad, indices) -> (var, ms, mom) {rho: float; momentum: float;
    epsilon: float; use_locking: bool = False}
"""
