#include "neap/memory/budget_bound.h"

#include <algorithm>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/program/liveness.h"
#include "neap/memory/search/action_writer.h"
#include "neap/memory/transfer/residency.h"

namespace neap {
namespace {

struct Uses {
  size_t first = 0, last = 0;  // steps
  bool any = false;
};

// Calls `visit` for each operand of the step, maybe several times for one.
template <typename Visit>
void VisitOperands(const Step& step, const Visit& visit) {
  for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
    for (const Use& use : *uses) visit(use.tensor);
  }
}

std::vector<Uses> UsesOf(const Program& program) {
  std::vector<Uses> uses(program.tensors.size());
  for (const Step& step : program.steps) {
    VisitOperands(step, [&](TensorId tensor) {
      Uses& of_tensor = uses[tensor.index()];
      const size_t at = step.id.index();
      of_tensor = {of_tensor.any ? of_tensor.first : at, at, true};
    });
  }
  return uses;
}

class Bound {
 public:
  Bound(const Program& program, const PlannerOptions& options)
      : program_(program),
        options_(options),
        stays_(program.tensors.size(), false),
        counted_(program.tensors.size(), 0) {
    for (const Tensor& tensor : program.tensors) stays_[tensor.id.index()] = Stays(tensor);
  }

  int64_t Bytes() {
    const std::vector<int64_t> staying = StayingBytes();
    int64_t most = 0;
    for (const Step& step : program_.steps)
      most = std::max(most, staying[step.id.index()] + OperandBytes(step));
    return PersistentBytes(program_) + most;
  }

 private:
  // From its first use, or from the beginning if it is given, to its last.
  static bool Stays(const Tensor& tensor) {
    return tensor.role == Role::kParamGrad || tensor.role == Role::kLabel;
  }
  bool IsFixed(TensorId tensor) const {
    return IsPersistent(program_.tensor(tensor).role) &&
           program_.tensor(tensor).home != Home::kHost;
  }
  int64_t BytesOf(TensorId tensor) const {
    return RoundUp(program_.tensor(tensor).spec.size_bytes(), kBlockBytes);
  }

  // By step.
  std::vector<int64_t> StayingBytes() const {
    std::vector<int64_t> bytes(program_.steps.size() + 1, 0);
    const std::vector<Uses> uses = UsesOf(program_);
    for (const Tensor& tensor : program_.tensors) {
      const Uses& of_tensor = uses[tensor.id.index()];
      if (!stays_[tensor.id.index()] || !of_tensor.any) continue;
      bytes[tensor.role == Role::kLabel ? 0 : of_tensor.first] += BytesOf(tensor.id);
      bytes[of_tensor.last + 1] -= BytesOf(tensor.id);
    }
    for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
    return bytes;
  }

  // The bytes of a step's operands that do not stay. All inputs are there at the first step.
  int64_t OperandBytes(const Step& step) {
    const int64_t mark = step.id.value + 1;
    int64_t bytes = 0;
    const auto count = [&](TensorId tensor) {
      const bool is_known =
          stays_[tensor.index()] || IsFixed(tensor) || counted_[tensor.index()] == mark;
      if (is_known) return;
      counted_[tensor.index()] = mark;
      bytes += BytesOf(tensor);
    };
    VisitOperands(step, count);
    if (step.id.value == 0) {
      for (const Port& feed : program_.feeds) {
        for (TensorId part : feed.parts) {
          if (program_.tensor(part).role == Role::kInput) count(part);
        }
      }
    }
    return bytes - SharedBytes(step);
  }

  // The bytes of a step's results that overwrite an operand.
  int64_t SharedBytes(const Step& step) const {
    if (!options_.in_place) return 0;
    std::vector<TensorId> written;
    for (const auto& [result, operand] : step.in_place) written.push_back(result);
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    int64_t bytes = 0;
    for (TensorId result : written) bytes += IsFixed(result) ? 0 : BytesOf(result);
    return bytes;
  }

  const Program& program_;
  const PlannerOptions& options_;
  std::vector<bool> stays_;       // by TensorId
  std::vector<int64_t> counted_;  // by TensorId: the last step that has counted it, from 1
};

}  // namespace

int64_t BudgetBound(const Program& program, const PlannerOptions& options) {
  if (program.options.accounting == Accounting::kPaper) return 0;
  return Bound(program, options).Bytes();
}

int64_t UnmovedBytes(const Program& program, const PlannerOptions& options) {
  const Liveness liveness = FindLiveness(program, ProgramOrder(program), options.in_place);
  const std::vector<int64_t> no_workspaces(liveness.runs.size(), 0);
  const Residency residency = DecideResidency(program, liveness, no_workspaces, {});
  int64_t most = 0;
  for (const Usage& usage : residency.usage) most = std::max(most, usage.bytes);
  return PersistentBytes(program) + most;
}

}  // namespace neap
