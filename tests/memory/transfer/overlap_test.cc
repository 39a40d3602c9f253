#include "neap/memory/transfer/overlap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/policies/superneurons.h"
#include "tests/memory/transfer/stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::CheckResidency;
using testing::ConvolutionChain;
using testing::StaysOf;

constexpr Usage kAnything = {kUnlimited, kUnlimited};
constexpr double kFour = 4 * kBlockBytes;  // an activation of the chain

struct Eagerly {
  explicit Eagerly(const Program& program)
      : liveness(FindLiveness(program, ProgramOrder(program), /*in_place=*/false)),
        workspaces(liveness.runs.size(), 0),
        residency(DecideResidency(program, liveness, workspaces,
                                  {.eager = ConvolutionResults(program, {})})) {}
  TransferTimes Times(double runs_per_copy) const {
    return {.run_seconds = std::vector<double>(liveness.runs.size(), 1),
            .bytes_per_second = kFour / runs_per_copy};
  }
  Liveness liveness;
  std::vector<int64_t> workspaces;
  Residency residency;
};

TEST_CASE("a convolution's output is fetched when the backward of the next convolution begins") {
  //   paper accounting: ReLU's backward reads x, so conv1 is offloaded, and read by relu1'
  //   run      8 loss' ...  12 relu2'  13 conv2'  14 relu1'  15 conv1'
  //   conv1                                       [=====) read
  //                                    (==========[=====) fetched
  const Program program = ConvolutionChain(3, Accounting::kPaper);
  Eagerly chain(program);
  CHECK(StaysOf(program, chain.residency, "conv1") == "[0,2) offloaded after 0  [14,15) fetched");
  FetchOneConvolutionAhead(program, chain.liveness, kAnything, chain.residency);
  CheckResidency(program, chain.liveness, chain.workspaces, chain.residency);
  CHECK(StaysOf(program, chain.residency, "conv1") == "[0,2) offloaded after 0  [13,15) fetched");
}

// Exact accounting: relu1 and relu2 are offloaded (ReLU's backward reads y, which is no larger than
// the convolution's output, so it is what is kept).
//   0 conv1  1 relu1  2 conv2  3 relu2  4 conv3  5 relu3  6 fc  7 loss | 8 loss' ...
//   13 conv3' reads relu2 ... 17 conv2' reads relu1
TEST_CASE(
    "an offloaded tensor is kept until its copy is done, a fetched one has its bytes as early as "
    "its copy takes") {
  //   a run takes a second, a copy one and a half
  //   runs     1     2     3     4     5           copies of relu1 and relu2, made by 1 and 3
  //   d2h            |relu1  |   |relu2  |         done within 3 and 5
  //   before   [==========)                        the last forward use of relu1 is 2, of relu2 4
  //   after    [================)
  const Program program = ConvolutionChain(3);
  Eagerly chain(program);
  CHECK(StaysOf(program, chain.residency, "relu1") == "[1,3) offloaded after 1  [17,21) fetched");
  CHECK(StaysOf(program, chain.residency, "relu2") == "[3,5) offloaded after 3  [13,17) fetched");
  OverlapTransfers(program, chain.Times(1.5), kAnything, chain.residency);
  CheckResidency(program, chain.liveness, chain.workspaces, chain.residency);
  CHECK(StaysOf(program, chain.residency, "relu1") == "[1,4) offloaded after 1  [15,21) fetched");
  CHECK(StaysOf(program, chain.residency, "relu2") == "[3,6) offloaded after 3  [11,17) fetched");
}

TEST_CASE("without a byte to spare nothing is shifted, and without a bandwidth neither") {
  const Program program = ConvolutionChain(3);
  Eagerly chain(program);
  const std::string before = StaysOf(program, chain.residency, "relu1");
  OverlapTransfers(program, chain.Times(1.5), {0, 0}, chain.residency);
  CHECK(StaysOf(program, chain.residency, "relu1") == before);
  OverlapTransfers(program, {.run_seconds = chain.Times(1).run_seconds}, kAnything,
                   chain.residency);
  CHECK(StaysOf(program, chain.residency, "relu1") == before);
}

using Spans = std::map<std::pair<size_t, int>, std::pair<int, int>>;  // by life and number

Spans SpansOf(const Residency& residency) {
  Spans spans;
  std::map<size_t, int> number;
  for (const Stay& stay : residency.stays)
    spans[{stay.life, number[stay.life]++}] = {stay.begin, stay.end};
  return spans;
}

TEST_CASE("random networks: stays only grow, within the limit, and stay sound") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    const Policy& policy = Policies()[seed % Policies().size()];
    CAPTURE(std::string(policy.name));
    const RunOrder order = policy.order_runs(program).back();
    const ComputeSequence& runs = order.runs;
    const Liveness liveness = FindLiveness(program, runs, /*in_place=*/seed % 2 == 0);
    const std::vector<int64_t> workspaces(runs.size(), 0);
    const Residency before = DecideResidency(program, liveness, workspaces,
                                             {.eager = policy.eager_tensors(program, order),
                                              .evictable = policy.evictable,
                                              .limit = {0, kUnlimited}});
    int64_t peak = 0;
    for (const Usage& usage : before.usage) peak = std::max(peak, usage.bytes);
    const Usage limit = {peak * static_cast<int64_t>(2 + random() % 4) / 4, kUnlimited};
    TransferTimes times = {.bytes_per_second = 1024.0 * static_cast<double>(1 + random() % 16)};
    for (size_t i = 0; i < runs.size(); ++i)
      times.run_seconds.push_back(static_cast<double>(random() % 3));

    Residency after = before;
    if (seed % 2 == 0) FetchOneConvolutionAhead(program, liveness, limit, after);
    OverlapTransfers(program, times, limit, after);
    CheckResidency(program, liveness, workspaces, after);
    const Spans grown = SpansOf(after);
    for (const auto& [stay, span] : SpansOf(before)) {
      REQUIRE(grown.at(stay).first <= span.first);
      REQUIRE(grown.at(stay).second >= span.second);
    }
    for (size_t i = 0; i < runs.size(); ++i)
      REQUIRE(after.usage[i].bytes <= std::max(limit.bytes, before.usage[i].bytes));
  }
}

}  // namespace
}  // namespace neap
