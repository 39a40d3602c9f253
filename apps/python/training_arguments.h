// The optimizer and the learning rate of a session's arguments.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/step/optimizer.h"

namespace neap::python {

// A constant rate, or one that depends on the step.
using Rate = std::variant<float, LearningRate>;
LearningRate ToLearningRate(const Rate& rate);

// Errors: INVALID_ARGUMENT for an unknown name, or an argument of the other optimizer.
absl::StatusOr<Optimizer> ToOptimizer(const std::string& name, std::optional<float> momentum,
                                      bool nesterov,
                                      const std::optional<std::pair<float, float>>& betas,
                                      std::optional<float> epsilon);

}  // namespace neap::python
