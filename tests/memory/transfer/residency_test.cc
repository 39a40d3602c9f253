#include "neap/memory/transfer/residency.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/policies/superneurons.h"
#include "neap/recompute/recompute.h"
#include "tests/memory/transfer/stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::CheckResidency;
using testing::ConvolutionChain;
using testing::StaysOf;

constexpr int64_t kFourBlocks = 4 * kBlockBytes;  // an activation of the chain

std::vector<int64_t> NoWorkspaces(const ComputeSequence& runs) {
  return std::vector<int64_t>(runs.size(), 0);
}
// Nothing in place.
Residency Decide(const Program& program, const Liveness& liveness,
                 const std::vector<int64_t>& workspaces, const ResidencyRules& rules) {
  Residency residency = DecideResidency(program, liveness, workspaces, rules);
  CheckResidency(program, liveness, workspaces, residency);
  return residency;
}
Residency Decide(const Program& program, const ComputeSequence& runs, const ResidencyRules& rules) {
  return Decide(program, FindLiveness(program, runs, /*in_place=*/false), NoWorkspaces(runs),
                rules);
}

// The chain's runs:
//   0 conv1  1 relu1  2 conv2  3 relu2  4 fc  5 loss | 6 loss'  7 fc' (data)  8 fc' (params)
//   9 fc update  10 relu2'  11 conv2' ...
TEST_CASE("without rules every life is one stay, from its definition to its last use") {
  const Program program = ConvolutionChain(2);
  const ComputeSequence runs = ProgramOrder(program);
  const Residency residency = Decide(program, runs, {});
  const std::vector<Lifetime> lives = Lifetimes(program, runs);
  for (const Stay& stay : residency.stays) {
    CHECK(stay.begin == lives[stay.life].begin);
    CHECK(stay.end == lives[stay.life].end);
    CHECK(!stay.offload_at.has_value());
  }
}

TEST_CASE("kept until the end, everything that is not taken over in place is there last") {
  const Program program = ConvolutionChain(2);
  const ComputeSequence runs = ProgramOrder(program);
  const Residency residency = Decide(program, runs, {.keep_all = true});
  for (const Stay& stay : residency.stays) CHECK(stay.end == static_cast<int>(runs.size()));
}

TEST_CASE(
    "an eager tensor is offloaded after its last forward use and fetched when backward reads it") {
  //   run      0 conv1  1 relu1  2 conv2  3 relu2  4 fc ...  relu2' conv2' relu1'
  //   relu1             [================)                          [============)
  //                        offloaded after 1                        conv2's backward reads it
  const Program program = ConvolutionChain(2);
  const ComputeSequence runs = ProgramOrder(program);
  std::vector<bool> eager(program.tensors.size(), false);
  for (const Tensor& tensor : program.tensors) eager[tensor.id.index()] = tensor.name == "relu1";
  const Residency residency = Decide(program, runs, {.eager = eager});
  CHECK(StaysOf(program, residency, "relu1") == "[1,3) offloaded after 1  [11,15) fetched");
  CHECK(StaysOf(program, residency, "relu2") == "[3,11)");
}

TEST_CASE(
    "if the arena is short, the least recently used tensors are evicted, and no more than needed") {
  //   limit: three activations        run  0 conv1   1 relu1   2 conv2   3 relu2
  //                                        input     conv1     relu1     conv2
  //   operands are locked; the input, used longest ago, is evicted first.
  const Program program = ConvolutionChain(3);
  const ComputeSequence runs = ProgramOrder(program);
  const Residency roomy = Decide(program, runs, {});
  int64_t peak = 0;
  for (const Usage& usage : roomy.usage) peak = std::max(peak, usage.bytes);
  const ResidencyRules rules = {.evictable = Evictable::kAll,
                                .limit = {.bytes = peak - 1, .activation_bytes = kUnlimited}};
  const Residency residency = Decide(program, runs, rules);
  const auto evicted = std::count_if(residency.stays.begin(), residency.stays.end(),
                                     [](const Stay& s) { return s.offload_at.has_value(); });
  CHECK(evicted == 1);
  CHECK(StaysOf(program, residency, "input").find("offloaded at the start") != std::string::npos);
  for (const Usage& usage : residency.usage) CHECK(usage.bytes < peak);
}

TEST_CASE("a tensor that has not changed since it was copied to the host is not copied again") {
  // With room for the operands alone, the input is evicted again and again.
  const Program program = ConvolutionChain(4);
  const ComputeSequence runs = ProgramOrder(program);
  const Residency residency =
      Decide(program, runs, {.evictable = Evictable::kAll, .limit = {0, kUnlimited}});
  for (size_t life = 0; life < Lifetimes(program, runs).size(); ++life) {
    std::vector<int> copied;
    for (const Stay& stay : residency.stays) {
      if (stay.life == life && stay.offload_at.has_value()) copied.push_back(*stay.offload_at);
    }
    CHECK(std::adjacent_find(copied.begin(), copied.end()) == copied.end());
  }
}

TEST_CASE("if only tensors with a copy on the host may be evicted, nothing more is copied") {
  const Program program = ConvolutionChain(3);
  const ComputeSequence runs = ProgramOrder(program);
  const std::vector<bool> eager = ConvolutionResults(program, {});
  const Residency before = Decide(program, runs, {.eager = eager});
  const Residency residency =
      Decide(program, runs, {.eager = eager, .evictable = Evictable::kOnlyCopied, .limit = {0, 0}});
  const auto copies = [](const Residency& r) {
    return std::count_if(r.stays.begin(), r.stays.end(),
                         [](const Stay& stay) { return stay.offload_at.has_value(); });
  };
  CHECK(copies(residency) == copies(before));
}

TEST_CASE("both limits count: whole blocks with workspaces, exact activations without") {
  const Program program = ConvolutionChain(2);
  const ComputeSequence runs = ProgramOrder(program);
  std::vector<int64_t> workspaces = NoWorkspaces(runs);
  workspaces[2] = 100 * kBlockBytes;
  const ResidencyRules rules = {.evictable = Evictable::kAll,
                                .limit = {100 * kBlockBytes, kUnlimited}};
  const Residency residency =
      Decide(program, FindLiveness(program, runs, /*in_place=*/false), workspaces, rules);
  // conv2's own operands, its workspace, and two blocks that stay: labels and iteration number.
  CHECK(residency.usage[2].bytes == 100 * kBlockBytes + 2 * kFourBlocks + 2 * kBlockBytes);
  const Residency exact =
      Decide(program, runs, {.evictable = Evictable::kAll, .limit = {kUnlimited, 2 * kFourBlocks}});
  for (size_t i = 0; i < 5; ++i) CHECK(exact.usage[i].activation_bytes <= 2 * kFourBlocks);
}

// SuperNeurons' Alg. 2 with plain lists: which lives are in the arena at each run.
class NaiveResidency {
 public:
  NaiveResidency(const Program& program, const std::vector<Lifetime>& lives,
                 const ResidencyRules& rules)
      : program_(program), lives_(lives), rules_(rules), is_there_(lives.size(), false) {}

  std::vector<bool> At(int position, int64_t workspace) {
    const std::vector<size_t> touched = Touched(position);
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (position == 0 && IsGiven(TensorOf(i).role))
        is_there_[i] = !IsPersistent(TensorOf(i).role);
    }
    while (position > 0 && Needed(touched) + workspace > rules_.limit.bytes) {
      if (!EvictOne(position, touched)) break;
    }
    for (size_t i : touched) is_there_[i] = true;
    std::vector<bool> there = is_there_;
    for (size_t i : touched) AfterUse(i, position);
    return there;
  }

 private:
  const Tensor& TensorOf(size_t i) const { return program_.tensor(lives_[i].tensor); }
  bool Uses(size_t i, int position) const {
    return std::find(lives_[i].uses.begin(), lives_[i].uses.end(), position) !=
           lives_[i].uses.end();
  }
  std::vector<size_t> Touched(int position) const {
    std::vector<size_t> touched;
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (Uses(i, position) && !IsPersistent(TensorOf(i).role)) touched.push_back(i);
    }
    return touched;
  }
  int64_t Needed(const std::vector<size_t>& touched) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < lives_.size(); ++i) {
      const bool is_touched = std::find(touched.begin(), touched.end(), i) != touched.end();
      if (is_there_[i] || is_touched) bytes += UsageOf(TensorOf(i)).bytes;
    }
    return bytes;
  }
  int NextUse(size_t i, int position) const {
    for (int use : lives_[i].uses) {
      if (use >= position) return use;
    }
    return 0;
  }
  bool EvictOne(int position, const std::vector<size_t>& touched) {
    auto victim = list_.rend();
    for (auto it = list_.rbegin(); it != list_.rend(); ++it) {  // the tail first
      if (std::find(touched.begin(), touched.end(), *it) != touched.end()) continue;
      if (victim == list_.rend()) victim = it;
      if (rules_.eviction == EvictionRule::kLru) break;
      const int a = NextUse(*it, position);
      const int b = NextUse(*victim, position);
      if (a > b || (a == b && *it > *victim)) victim = it;
    }
    if (victim == list_.rend()) return false;
    is_there_[*victim] = false;
    list_.erase(std::next(victim).base());
    return true;
  }
  // After the run, operands that have had their last use are freed, the others move to the front.
  void AfterUse(size_t i, int position) {
    std::erase(list_, i);
    if (lives_[i].end == position + 1) {
      is_there_[i] = false;
    } else if (UsageOf(TensorOf(i)).activation_bytes > 0 || TensorOf(i).role == Role::kInput) {
      list_.insert(list_.begin(), i);
    }
  }

  const Program& program_;
  const std::vector<Lifetime>& lives_;
  const ResidencyRules& rules_;
  std::vector<bool> is_there_;  // by life
  std::vector<size_t> list_;    // front = most recently used
};

void CheckAgainstNaive(const Program& program, const Liveness& liveness,
                       const std::vector<int64_t>& workspaces, const ResidencyRules& rules) {
  const Residency residency = Decide(program, liveness, workspaces, rules);
  NaiveResidency naive(program, liveness.lives, rules);
  for (size_t i = 0; i < liveness.runs.size(); ++i) {
    const int position = static_cast<int>(i);
    std::vector<bool> there(liveness.lives.size(), false);
    for (const Stay& stay : residency.stays) {
      if (stay.begin <= position && position < stay.end) there[stay.life] = true;
    }
    REQUIRE(there == naive.At(position, workspaces[i]));
  }
}

TEST_CASE("random networks: the arena holds the same tensors as Alg. 2 with plain lists") {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    std::mt19937 random(seed);
    const ComputeSequence runs = seed % 3 == 0 ? CostAware(program).runs : ProgramOrder(program);
    const Liveness liveness = FindLiveness(program, runs, /*in_place=*/false);
    std::vector<int64_t> workspaces = NoWorkspaces(runs);
    for (int64_t& bytes : workspaces) bytes = static_cast<int64_t>(random() % 3) * kBlockBytes;
    int64_t peak = 0;
    for (const Usage& usage : DecideResidency(program, liveness, workspaces, {}).usage)
      peak = std::max(peak, usage.bytes);
    for (const EvictionRule rule : {EvictionRule::kLru, EvictionRule::kBelady}) {
      for (const int64_t part : {0, 1, 2, 3, 4}) {
        CAPTURE(part);
        CheckAgainstNaive(program, liveness, workspaces,
                          {.evictable = Evictable::kAll,
                           .eviction = rule,
                           .limit = {peak * part / 4, kUnlimited}});
      }
    }
  }
}

TEST_CASE("random networks under the rules of every policy, in place or not: stays are sound") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    for (const Policy& policy : Policies()) {
      CAPTURE(std::string(policy.name));
      const RunOrder order = policy.order_runs(program).back();
      const Liveness liveness = FindLiveness(program, order.runs, /*in_place=*/seed % 2 == 0);
      for (const int64_t limit : {int64_t{0}, 16 * kBlockBytes, kUnlimited}) {
        CAPTURE(limit);
        Decide(program, liveness, NoWorkspaces(order.runs),
               {.keep_all = policy.keep_all,
                .eager = policy.eager_tensors(program, order),
                .evictable = policy.evictable,
                .limit = {limit, limit}});
      }
    }
  }
}

}  // namespace
}  // namespace neap
