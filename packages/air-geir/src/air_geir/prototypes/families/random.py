"""Prototypes: random numbers and dropout."""

from __future__ import annotations

ROWS = r"""
AxpyWithSoftmaxAndDropOutDoMask(x1, x2, mask) -> (y1, y2) {alpha: float; input_keep_prob: float; axis:
    ints = [-1]}
Dropout(x) -> y {dropout_ratio: float = 0.5; scale_train: bool = True; alpha: float = 1.0; beta: float =
    0.0}
DropOutDoMask(x, mask, keep_prob) -> y
DropOutDoMaskV3(x, mask, keep_prob) -> y
DropOutDoMaskV3D(x, mask) -> y {keep_prob: float}
DropOutGenMask(shape, prob) -> y {seed: int = 0; seed2: int = 0}
DropOutGenMaskV3(shape, prob) -> y {seed: int = 0; seed2: int = 0}
DropOutGenMaskV4(shape, prob) -> y {seed: int = 0; seed2: int = 0; dtype: dtype = BOOL}
DropoutV2(x, seed) -> (y, mask, seed) {p: float}
DSARandomNormal(count, seed, mean, stdev) -> out {random_algorithm: str = "Philox"}
DSARandomTruncatedNormal(count, seed, mean, stdev) -> out {random_algorithm: str = "Philox"}
DSARandomUniform(count, seed, low, high) -> out {random_algorithm: str = "Philox"}
DSAStatelessRandomNormal(count, seed, mean, stdev, counter) -> out {random_algorithm: str = "Philox"}
DSAStatelessRandomTruncatedNormal(count, seed, mean, stdev, counter) -> out {random_algorithm: str =
    "Philox"}
DSAStatelessRandomUniform(count, seed, low, high, counter) -> out {random_algorithm: str = "Philox"}
Multinomial(logits, num_samples) -> y {dtype: dtype = INT64; seed: int = 0; seed2: int = 0}
MultinomialAliasDraw(q, j) -> y {num_samples: int; seed: int = 0}
MultinomialAliasSetup(probs) -> (j, q)
MultinomialFuss(x) -> y {dtype: int = 6; sample_size: int = 1; seed: float = 0.0}
MultinomialWithReplacement(x, seed, offset) -> y {numsamples: int; replacement: bool = False}
RandomChoiceWithMask(x) -> (y, mask) {count: int = 0; seed: int = 0; seed2: int = 0}
RandomGamma(shape, alpha) -> y {seed: int = 0; seed2: int = 0}
RandomPoisson(shape, rate) -> y {dtype: dtype = INT64; seed: int = 0; seed2: int = 0}
RandomShuffle(x) -> y {seed: int = 0; seed2: int = 0}
RandomShuffleQueue() -> handle {component_types: dtypes; shapes: intss = []; capacity: int = -1;
    min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0; container: str = ""; shared_name: str = ""}
RandomStandardNormal(shape) -> y {dtype: dtype; seed: int = 0; seed2: int = 0}
RandomUniform(shape) -> y {dtype: dtype; seed: int = 0; seed2: int = 0}
RandomUniformInt(shape, min, max) -> y {seed: int = 0; seed2: int = 0}
Randperm() -> out {n: int; layout: int = 0; dtype: dtype = INT64}
RngReadAndSkipV2(value, algorithm, delta) -> value
RngSkip(x, algorithm, delta) -> ()
SoftmaxV2WithDropOutDoMaskV3D(x, mask) -> (y1, y2) {keep_prob: float; axes: ints = [-1]}
StatefulRandomBinomial(x, algorithm, shape, counts, probs) -> y {dtype: dtype}
StatelessBernoulli(shape, prob, seed, offset) -> y {dtype: dtype = FLOAT}
StatelessBernoulliV2(x, seed, offset) -> y {dtype: dtype = UNDEFINED}
StatelessDropOutGenMask(shape, prob, seed, seed1, offset?) -> y
StatelessMultinomial(logits, num_samples, seed) -> y {output_dtype: dtype = INT64}
StatelessParameterizedTruncatedNormal(shape, seed, means, stdevs, min, max) -> y
StatelessRandomBinomial(shape, seed, counts, probs) -> y {dtype: dtype = INT32}
StatelessRandomGammaV2(shape, seed, alpha) -> y
StatelessRandomGetAlg() -> alg
StatelessRandomGetKeyCounter(seed) -> (key, counter)
StatelessRandomGetKeyCounterAlg(seed) -> (key, counter, alg)
StatelessRandomNormalV2(shape, key, counter, alg) -> y {dtype: dtype = FLOAT}
StatelessRandomPoisson(shape, seed, lam) -> y {dtype: dtype}
StatelessRandomUniformFullInt(shape, seed) -> y {dtype: dtype = INT32}
StatelessRandomUniformFullIntV2(shape, key, counter, alg) -> y {dtype: dtype = INT32}
StatelessRandomUniformInt(shape, seed, minval, maxval) -> y
StatelessRandomUniformIntV2(shape, key, counter, alg, minval, maxval) -> y
StatelessRandomUniformV2(shape, key, counter, alg) -> y {dtype: dtype = FLOAT}
StatelessRandperm(n, seed, offset) -> y {layout: int = 0; dtype: dtype = INT64}
StatelessSampleDistortedBoundingBox(image_size, bounding_boxes, min_object_covered, seed) -> (begin, size,
    bboxes) {aspect_ratio_range: floats = [ 0.75, 1.33 ]; area_range: floats = [ 0.05, 1.0 ];
    max_attempts: int = 100; use_image_if_no_bounding_boxes: bool = False}
StatelessTruncatedNormalV2(shape, key, counter, alg) -> y {dtype: dtype = FLOAT}
"""
