#include "tests/memory/transfer/stays.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {
namespace {

bool Covers(const Stay& stay, int position) {
  return stay.begin <= position && position < stay.end;
}

// One past the last run before `position` that changes the life's value; 0 if it was given.
int CompleteAt(const Program& program, const Lifetime& life, int position) {
  int complete_at = IsGiven(program.tensor(life.tensor).role) ? 0 : life.begin + 1;
  for (int change : life.changes) {
    if (change < position) complete_at = std::max(complete_at, change + 1);
  }
  return complete_at;
}

void CheckUsage(const Program& program, const std::vector<int64_t>& workspaces,
                const Residency& residency) {
  for (size_t i = 0; i < residency.usage.size(); ++i) {
    const int position = static_cast<int>(i);
    Usage sum = {.bytes = workspaces[i]};
    std::vector<bool> is_taken_over(residency.stays.size(), false);
    for (const Stay& stay : residency.stays) {
      if (stay.replaces.has_value() && Covers(stay, position)) is_taken_over[*stay.replaces] = true;
    }
    for (size_t j = 0; j < residency.stays.size(); ++j) {
      if (!Covers(residency.stays[j], position) || is_taken_over[j]) continue;
      sum += UsageOf(program.tensor(residency.stays[j].tensor));
    }
    REQUIRE(residency.usage[i] == sum);
  }
}

}  // namespace

Program ConvolutionChain(int convolutions, Accounting accounting) {
  Graph net({.name = "chain", .batch = 2});
  std::string x = net.Input({8, 8, 8});
  for (int i = 1; i <= convolutions; ++i) {
    x = net.Add(absl::StrCat("conv", i), Convolution{.out_channels = 8, .kernel = 3, .padding = 1},
                {x});
    x = net.Add(absl::StrCat("relu", i), Relu{}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return BuildProgram(net, {.accounting = accounting}).value();
}

std::string StaysOf(const Program& program, const Residency& residency, std::string_view tensor) {
  std::string text;
  for (const Stay& stay : residency.stays) {
    if (program.tensor(stay.tensor).name != tensor) continue;
    absl::StrAppend(&text, text.empty() ? "" : "  ", "[", stay.begin, ",", stay.end, ")",
                    stay.fetched ? " fetched" : "");
    if (stay.offload_at == 0) absl::StrAppend(&text, " offloaded at the start");
    if (stay.offload_at > 0) absl::StrAppend(&text, " offloaded after ", *stay.offload_at - 1);
  }
  return text;
}

void CheckResidency(const Program& program, const Liveness& liveness,
                    const std::vector<int64_t>& workspaces, const Residency& residency) {
  REQUIRE(residency.usage.size() == liveness.runs.size());
  std::vector<std::vector<const Stay*>> of_life(liveness.lives.size());
  for (const Stay& stay : residency.stays) of_life[stay.life].push_back(&stay);
  for (size_t i = 0; i < liveness.lives.size(); ++i) {
    const Lifetime& life = liveness.lives[i];
    if (IsPersistent(program.tensor(life.tensor).role)) continue;
    CAPTURE(program.tensor(life.tensor).name);
    for (int use : life.uses) {
      REQUIRE(std::any_of(of_life[i].begin(), of_life[i].end(),
                          [&](const Stay* stay) { return Covers(*stay, use); }));
    }
    for (size_t j = 0; j < of_life[i].size(); ++j) {
      const Stay& stay = *of_life[i][j];
      REQUIRE(stay.fetched == (j > 0));
      if (j == 0) continue;
      REQUIRE(of_life[i][j - 1]->end <= stay.begin);
      const int complete_at = CompleteAt(program, life, stay.begin);
      REQUIRE(std::any_of(of_life[i].begin(), of_life[i].begin() + static_cast<std::ptrdiff_t>(j),
                          [&](const Stay* s) { return s->offload_at == complete_at; }));
    }
  }
  CheckUsage(program, workspaces, residency);
}

}  // namespace neap::testing
