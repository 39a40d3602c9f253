#include "neap/core/program/lifetimes.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

using Span = std::pair<int, int>;  // begin, end

// The latest lifetime of each tensor that has one.
std::map<std::string, Span> ByName(const Program& program, const ComputeSequence& runs) {
  std::map<std::string, Span> by_name;
  for (const Lifetime& life : Lifetimes(program, runs))
    by_name[program.tensor(life.tensor).name] = {life.begin, life.end};
  return by_name;
}

Graph Mlp() {
  Graph net({.name = "mlp", .batch = 2});
  std::string x = net.Input({1, 2, 2});
  x = net.Add("fc", FullyConnected{.out_features = 3, .bias = false}, {x});
  net.Loss(net.Add("relu", Relu{}, {x}), SoftmaxCrossEntropy{});
  return net;
}

TEST_CASE("a tensor lives from the step that defines it to one past its last use") {
  //                  fc   relu  loss | loss  relu  fc     fc
  //                  fwd  fwd   fwd  | data  data  params update
  //    step          0    1     2      3     4     5      6
  //    input         [=================================)
  //    labels        [===================)
  //    fc            [=========)
  //    relu               [===========================)         (backward needs its sign)
  //    loss                     [========)
  //    relu.grad                       [===========)
  //    fc.grad                               [=========)
  //    fc.weight.grad                              [=========)
  //    fc.weight     [=====================================)    persistent
  const Program program = BuildProgram(Mlp(), {}).value();
  const std::map<std::string, Span> lives = ByName(program, ProgramOrder(program));
  CHECK(lives.at("input") == Span{0, 6});
  CHECK(lives.at("labels") == Span{0, 4});
  CHECK(lives.at("iteration") == Span{0, 7});
  CHECK(lives.at("fc") == Span{0, 2});
  CHECK(lives.at("relu") == Span{1, 5});
  CHECK(lives.at("loss") == Span{2, 4});
  CHECK(lives.at("relu.grad") == Span{3, 5});
  CHECK(lives.at("fc.grad") == Span{4, 6});
  CHECK(lives.at("fc.weight.grad") == Span{5, 7});
  CHECK(lives.at("fc.weight") == Span{0, 7});
  CHECK(lives.at("fc.weight.momentum") == Span{0, 7});
}

TEST_CASE("in inference an unused output lives for its own step, and an unused input not at all") {
  const Program program = BuildProgram(Mlp(), {.mode = Mode::kInference}).value();
  const std::map<std::string, Span> lives = ByName(program, ProgramOrder(program));
  CHECK(lives.at("loss") == Span{2, 3});
  CHECK(!lives.contains("iteration"));
  CHECK(lives.at("fc.weight") == Span{0, 3});
  CHECK(lives.at("fc.weight.momentum") == Span{0, 3});
}

TEST_CASE("a recomputed tensor has two lifetimes, and its sources live until the recomputation") {
  //                  fc   relu  loss | loss  relu   relu  fc     fc
  //                  fwd  fwd   fwd  | data  again  data  params update
  //    run           0    1     2      3     4      5     6      7
  //    fc            [============================)
  //    relu               [=========)        [==========)
  const Program program = BuildProgram(Mlp(), {}).value();
  ComputeSequence runs = ProgramOrder(program);
  runs.insert(runs.begin() + 4, Run{.step = StepId(1), .recompute = true});
  std::vector<Span> relu;
  std::vector<int> fc_uses;
  for (const Lifetime& life : Lifetimes(program, runs)) {
    const std::string& name = program.tensor(life.tensor).name;
    if (name == "relu") relu.emplace_back(life.begin, life.end);
    if (name == "fc") fc_uses = life.uses;
  }
  CHECK(relu == std::vector<Span>{{1, 3}, {4, 6}});
  CHECK(fc_uses == std::vector<int>{0, 1, 4});
}

}  // namespace
}  // namespace neap
