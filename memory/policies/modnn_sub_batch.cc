#include "neap/memory/policies/modnn_sub_batch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr int64_t kRegularImages = 64;

bool IsWeight(Role role) { return IsPersistent(role) || role == Role::kParamGrad; }

std::vector<TensorId> TensorsOf(const Step& step) {
  std::vector<TensorId> tensors;
  for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
    for (const Use& use : *uses) tensors.push_back(use.tensor);
  }
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

// The data of consecutive tasks, in which a tensor that several of them use counts once.
class Window {
 public:
  explicit Window(const Program& program) : program_(program) {}

  void Add(const Step& step) {
    for (const TensorId tensor : TensorsOf(step)) {
      if (count_[tensor]++ == 0) Change(tensor, +1);
    }
  }
  void Remove(const Step& step) {
    for (const TensorId tensor : TensorsOf(step)) {
      if (--count_[tensor] == 0) Change(tensor, -1);
    }
  }
  ModnnMemory::Tasks Get(int64_t workspace_bytes) const {
    const auto images = static_cast<double>(program_.net.batch);
    return {static_cast<double>(data_bytes_) / images, workspace_bytes, weight_bytes_};
  }

 private:
  void Change(TensorId id, int64_t sign) {
    const Tensor& tensor = program_.tensor(id);
    (IsWeight(tensor.role) ? weight_bytes_ : data_bytes_) += sign * tensor.spec.size_bytes();
  }

  const Program& program_;
  std::map<TensorId, int> count_;
  int64_t data_bytes_ = 0;
  int64_t weight_bytes_ = 0;
};

int64_t MostBytes(const std::vector<ModnnMemory::Tasks>& tasks, int64_t images, bool weights) {
  double most = 0;
  for (const ModnnMemory::Tasks& each : tasks) {
    const double data = each.image_bytes * static_cast<double>(images);
    most = std::max(most, data + static_cast<double>(each.workspace_bytes) +
                              (weights ? static_cast<double>(each.weight_bytes) : 0));
  }
  return static_cast<int64_t>(std::llround(most));
}

}  // namespace

int64_t ModnnMemory::LeastBytes(int64_t images) const {
  return weight_bytes + MostBytes(single, images, /*weights=*/false);
}

int64_t ModnnMemory::LeastBytesWithoutWeights(int64_t images) const {
  return MostBytes(single, images, /*weights=*/true);
}

int64_t ModnnMemory::SelectionBytes(int64_t images) const {
  return weight_bytes + MostBytes(windows, images, /*weights=*/false);
}

ModnnMemory ModnnMemoryOf(const Program& program, const std::vector<int64_t>& workspaces) {
  ModnnMemory memory;
  for (const Tensor& tensor : program.tensors)
    memory.weight_bytes += IsWeight(tensor.role) ? tensor.spec.size_bytes() : 0;
  std::vector<const Step*> tasks;
  for (const Step& step : program.steps) {
    if (IsOfLayer(step.phase)) tasks.push_back(&step);
  }
  const auto length = std::max<size_t>(
      1, static_cast<size_t>(std::llround(kModnnShare * static_cast<double>(tasks.size()))));
  Window window(program);
  for (size_t i = 0; i < tasks.size(); ++i) {
    Window alone(program);
    alone.Add(*tasks[i]);
    memory.single.push_back(alone.Get(0));
    window.Add(*tasks[i]);
    if (i + 1 < length) continue;
    int64_t workspace_bytes = 0;
    for (size_t k = i + 1 - length; k <= i; ++k)
      workspace_bytes = std::max(workspace_bytes, workspaces[tasks[k]->id.index()]);
    memory.windows.push_back(window.Get(workspace_bytes));
    window.Remove(*tasks[i + 1 - length]);
  }
  return memory;
}

std::vector<int64_t> WithoutWorkspaces(const Program& program) {
  return std::vector<int64_t>(program.steps.size(), 0);
}

int64_t RegularSubBatch(int64_t images) {
  if (images > kRegularImages) return images / kRegularImages * kRegularImages;
  int64_t power = 1;
  while (2 * power <= images) power *= 2;
  return power;
}

absl::StatusOr<ModnnSubBatch> SelectSubBatch(
    int64_t batch, int64_t budget_bytes,
    absl::FunctionRef<absl::StatusOr<ModnnMemory>(int64_t images)> profile) {
  ModnnSubBatch selected = {.images = batch};
  std::vector<int64_t> tried;
  while (std::find(tried.begin(), tried.end(), selected.images) == tried.end()) {
    tried.push_back(selected.images);
    ASSIGN_OR_RETURN(const ModnnMemory memory, profile(selected.images));
    ++selected.profiles;
    int64_t fits = 0, exceeds = batch + 1;  // by bisection
    while (exceeds - fits > 1) {
      const int64_t middle = fits + (exceeds - fits) / 2;
      (memory.SelectionBytes(middle) <= budget_bytes ? fits : exceeds) = middle;
    }
    const int64_t images = fits == batch ? batch : RegularSubBatch(std::max<int64_t>(fits, 1));
    // Where it goes back and forth between two, the smaller one.
    const bool is_known = std::find(tried.begin(), tried.end(), images) != tried.end();
    selected.images = is_known ? std::min(images, selected.images) : images;
  }
  return selected;
}

}  // namespace neap
