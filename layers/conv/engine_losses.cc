#include "neap/layers/conv/engine_losses.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

namespace neap {
namespace {

struct LossRow {
  std::string_view group;
  std::string_view family;  // of engines
  double logarithm;         // of the time over that of the first engine
};

// The table, in order of group, then family.
constexpr LossRow kRows[] = {
#include "neap/layers/conv/engine_losses.inc"
};

// The two rows of a group for engines that have none of their own.
constexpr std::string_view kOfTensorCores = "*tensor-core";
constexpr std::string_view kOthers = "*";

constexpr double kSlowerPerPlace = 0.1;
// The least slowdown per place: equal losses do not change the library's order.
constexpr double kMinSlowerPerPlace = 0.01;
// Measured with oneDNN's plain loops: 230 to 390 times for gradients of weights, 900 to 1900 else.
constexpr double kSlowdownOfReference = 700;
constexpr double kMuch = 1.4;  // the logarithm of four times the time
// The device's rate in fp32 over that of the slowest engine without matrix units. Measured on an
// H200 with cuDNN's "eng0" for 16 bits: up to 900.
constexpr double kSlowestArithmetic = 1000;

std::optional<double> FindLoss(std::string_view group, std::string_view family) {
  const auto* const found = std::lower_bound(
      std::begin(kRows), std::end(kRows), std::pair(group, family),
      [](const LossRow& row, const auto& key) { return std::pair(row.group, row.family) < key; });
  if (found == std::end(kRows) || found->group != group || found->family != family)
    return std::nullopt;
  return found->logarithm;
}

double SlowdownOf(const Engine& engine, const Engine& first, size_t place, std::string_view group,
                  double most) {
  if (engine.slowdown > 0) return std::max(engine.slowdown, 1.0);
  if (engine.is_reference && !first.is_reference) return kSlowdownOfReference;
  const auto distance = static_cast<double>(place);
  std::optional<double> loss = FindLoss(group, FamilyOf(engine.id));
  if (!loss.has_value() && engine.uses_tensor_cores != first.uses_tensor_cores)
    loss = FindLoss(group, engine.uses_tensor_cores ? kOfTensorCores : kOthers);
  if (!loss.has_value()) return 1 + kSlowerPerPlace * distance;
  const bool lacks_units = first.uses_tensor_cores && !engine.uses_tensor_cores;
  const double slower = lacks_units ? std::min(std::exp(*loss), most) : std::exp(*loss);
  return std::max(slower, 1 + kMinSlowerPerPlace * distance);
}

}  // namespace

std::string_view FamilyOf(std::string_view engine) { return engine.substr(0, engine.find('_')); }

bool AllLoseMuch(absl::Span<const Engine> engines, std::string_view group) {
  bool any = false;
  for (const Engine& engine : engines) {
    if (!engine.deterministic) continue;
    const double known = engine.slowdown > 0 ? std::log(engine.slowdown) : 0;
    if (FindLoss(group, FamilyOf(engine.id)).value_or(known) < kMuch) return false;
    any = true;
  }
  return any;
}

double MostLossOf(double flops, double seconds, const DeviceDescription& device) {
  if (flops <= 0 || seconds <= 0 || device.fp32_flops <= 0)
    return std::numeric_limits<double>::infinity();
  return std::max(std::exp(kMuch), kSlowestArithmetic * flops / device.fp32_flops / seconds);
}

std::vector<double> SlowdownsOf(absl::Span<const Engine> engines, std::string_view group,
                                double most) {
  std::vector<double> slowdowns;
  const Engine* firsts[2] = {};
  size_t seen[2] = {};
  const bool all_lose_much = AllLoseMuch(engines, group);
  for (const Engine& engine : engines) {
    if (!engine.deterministic) {
      slowdowns.push_back(1);
      continue;
    }
    const bool kind = engine.computes_relu;
    if (firsts[kind] == nullptr) firsts[kind] = &engine;
    const size_t place = seen[kind]++;
    const bool is_usual_first = place == 0 && !all_lose_much && engine.slowdown == 0;
    slowdowns.push_back(is_usual_first ? 1 : SlowdownOf(engine, *firsts[kind], place, group, most));
  }
  return slowdowns;
}

}  // namespace neap
