#include "neap/core/lifetimes.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"

namespace neap {
namespace {

std::map<std::string, Lifetime> ByName(const Program& program) {
  const std::vector<Lifetime> lifetimes = Lifetimes(program);
  std::map<std::string, Lifetime> by_name;
  for (const Tensor& tensor : program.tensors) by_name[tensor.name] = lifetimes[tensor.id.index()];
  return by_name;
}

Graph Mlp() {
  Graph net({.name = "mlp", .batch = 2});
  std::string x = net.Input({1, 2, 2});
  x = net.Add("fc", FullyConnected{.out_features = 3, .bias = false}, {x});
  net.Loss(net.Add("relu", Relu{}, {x}));
  return net;
}

TEST_CASE("a tensor lives from the step that defines it to one past its last use") {
  //                  fc   relu  loss | loss  relu  fc     fc
  //                  fwd  fwd   fwd  | data  data  params update
  //    step          0    1     2      3     4     5      6
  //    input         [=================================)
  //    labels        [===================)
  //    fc            [=========)
  //    relu               [===========================)         (its sign is what backward needs)
  //    loss                     [========)
  //    relu.grad                       [===========)
  //    fc.grad                               [=========)
  //    fc.weight.grad                              [=========)
  //    fc.weight     [=====================================)    persistent
  const std::map<std::string, Lifetime> lives = ByName(BuildProgram(Mlp(), {}).value());
  CHECK(lives.at("input") == Lifetime{0, 6});
  CHECK(lives.at("labels") == Lifetime{0, 4});
  CHECK(lives.at("iteration") == Lifetime{0, 7});
  CHECK(lives.at("fc") == Lifetime{0, 2});
  CHECK(lives.at("relu") == Lifetime{1, 5});
  CHECK(lives.at("loss") == Lifetime{2, 4});
  CHECK(lives.at("relu.grad") == Lifetime{3, 5});
  CHECK(lives.at("fc.grad") == Lifetime{4, 6});
  CHECK(lives.at("fc.weight.grad") == Lifetime{5, 7});
  CHECK(lives.at("fc.weight") == Lifetime{0, 7});
  CHECK(lives.at("fc.weight.momentum") == Lifetime{0, 7});
}

TEST_CASE(
    "in inference an output nobody reads lives for its own step, an unused input not at all") {
  const std::map<std::string, Lifetime> lives =
      ByName(BuildProgram(Mlp(), {.mode = Mode::kInference}).value());
  CHECK(lives.at("loss") == Lifetime{2, 3});
  CHECK(lives.at("iteration").begin == lives.at("iteration").end);
  CHECK(lives.at("fc.weight") == Lifetime{0, 3});
  CHECK(lives.at("fc.weight.momentum") == Lifetime{0, 3});
}

}  // namespace
}  // namespace neap
