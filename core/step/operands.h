// Short names for operands, as used in the layers' tables, in Specify() and in the kernels.
#pragma once

#include "neap/core/step/layer.h"

namespace neap::operands {

constexpr Operand X(int i = 0) { return {Slot::kInput, i}; }
constexpr Operand Y(int i = 0) { return {Slot::kOutput, i}; }
constexpr Operand Dx(int i = 0) { return {Slot::kInputGrad, i}; }
constexpr Operand Addend(int i = 0) { return {Slot::kAddend, i}; }
constexpr Operand Dy(int i = 0) { return {Slot::kOutputGrad, i}; }
constexpr Operand Dz() { return {Slot::kLinearGrad, 0}; }
constexpr Operand Param(int i) { return {Slot::kParam, i}; }
constexpr Operand ParamGrad(int i) { return {Slot::kParamGrad, i}; }
constexpr Operand Saved(int i) { return {Slot::kSaved, i}; }
constexpr Operand State(int i) { return {Slot::kState, i}; }
constexpr Operand Moment(int i) { return {Slot::kOptimizer, i}; }
constexpr Operand SecondMoment(int i) { return {Slot::kSecondMoment, i}; }
constexpr Operand Average(int i) { return {Slot::kAverage, i}; }
constexpr Operand Master(int i) { return {Slot::kMaster, i}; }
constexpr Operand Backup(int i) { return {Slot::kBackup, i}; }
constexpr Operand LossScaling() { return {Slot::kLossScale, 0}; }
constexpr Operand GradientNorm() { return {Slot::kGradientNorm, 0}; }
constexpr Operand Iteration() { return {Slot::kIteration, 0}; }

}  // namespace neap::operands
