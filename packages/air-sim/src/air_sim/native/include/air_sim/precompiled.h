// The headers of libtorch that most sources of operators include: the build compiles them once for a folder of sources.
// No source includes this file; each includes what it uses.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorIndexing.h>
