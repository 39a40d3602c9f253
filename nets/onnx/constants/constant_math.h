// Constants computed from constants element by element, with the results that elements of their
// types have: floats are rounded to 32 or 16 bits after each operation, integers wrap around.
//
//   ASSIGN_OR_RETURN(Constant halves, Cast(thirds, onnx_schema::Tensor::FLOAT16));
//   ASSIGN_OR_RETURN(Constant sum, Elementwise(budget, "Add", {a, b}));
//
// *Errors*: UNIMPLEMENTED for an operator that is not computed, or a type of elements whose values
// are not; INVALID_ARGUMENT for a division of integers by 0 and extents that do not fit; those of
// ConstantBudget::Add().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/nets/onnx/constants/constant_budget.h"
#include "neap/nets/onnx/onnx_tensor.h"

namespace neap::nets {

// UNIMPLEMENTED: "a constant is computed WHAT".
absl::Status NotComputed(const std::string& what);

// ONNX's Cast: integers of floats are truncated, those of integers wrap around, a bool is whether
// the number is not 0. Errors: also UNIMPLEMENTED for floats that no integer of the type is near,
// of which ONNX says nothing.
absl::StatusOr<Constant> Cast(const Constant& values, int64_t type);

// Whether Elementwise() has the operator.
bool IsElementwise(std::string_view op);
// An operator with as many arguments as are given; `Where` has 3. What it computes is added to the
// budget: the elements of each step from one argument to the next.
absl::StatusOr<Constant> Elementwise(ConstantBudget& budget, std::string_view op,
                                     const std::vector<Constant>& arguments);

}  // namespace neap::nets
