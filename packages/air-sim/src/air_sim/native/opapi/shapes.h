// What is known of the shapes that an aclnn function takes.
#pragma once
#include "call.h"

namespace air_sim {
// The check of a function, which throws std::invalid_argument, or none.
ShapeCheck shape_check(const std::string& name);
}  // namespace air_sim
