// neap train --sizes: images of another size in every step.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/loader.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

Args WithSizes(const Args& flags) {
  return Joined(Joined(kTiny, {"--data", "idx:" + Digits(), "--steps", "12", "--log-every", "1"}),
                flags);
}

TEST_CASE("the network's own size alone gives the bits of a training without sizes") {
  CHECK(LossesOf(RunForJson(WithSizes({"--sizes", "8"}))) == LossesOf(RunForJson(WithSizes({}))));
}

TEST_CASE("sizes train with the same bits in every budget, and after a resumption") {
  const ScratchDirectory directory;
  const std::string file = directory.File("state");
  const auto train = [](const Args& flags) {
    return LossesOf(RunForJson(WithSizes(Joined({"--sizes", "6,8,12"}, flags))));
  };
  const std::vector<std::string> all = train({});
  CHECK(all.size() == 12);
  CHECK(train({"--budget", "80%"}) == all);
  CHECK(train(kMoving) == all);
  std::vector<std::string> parts = train({"--steps", "5", "--save", file});
  for (const std::string& loss : train({"--resume", file})) parts.push_back(loss);
  CHECK(parts == all);
}

TEST_CASE("the command trains what a program does with a loader of several sizes") {
  nets::NetOptions options = {.batch = 16, .image = 8, .channels = 1, .classes = 10};
  options.depth = 8;
  Graph net = nets::Build("resnet-cifar", options).value();
  net.Sizes({{.extents = {6, 6}}, {.extents = {12, 12}}});
  std::vector<std::unique_ptr<Dataset>> datasets;
  std::vector<LoaderSize> sizes;
  for (const int64_t size : {6, 12}) {
    datasets.push_back(OpenDataset("idx:" + Digits(), {.shape = {{1, size, size}}}).value());
    sizes.push_back({datasets.back().get()});
  }
  const auto device = CpuDevice::Open().value();
  Session session = CreateSession(net, *device, {}, {.seed = 1}).value();
  const auto loader = Loader::Create(sizes, {.batch = 16, .seed = 1}).value();
  std::vector<float> losses;
  for (int step = 0; step < 6; ++step)
    losses.push_back(session.TrainStep(loader->Next().value()).value());
  const std::vector<std::string> of_command =
      LossesOf(RunForJson(WithSizes({"--sizes", "6,12", "--steps", "6"})));
  REQUIRE(of_command.size() == losses.size());
  for (size_t i = 0; i < losses.size(); ++i) CHECK(std::stof(of_command[i]) == losses[i]);
}

TEST_CASE("flags of one size are refused with --sizes") {
  for (const Args& flags : {Args{"--accumulate", "2"}, Args{"--repeat-batch"},
                            Args{"--plan", "p.json"}, Args{"--trace-out", "t.json"}}) {
    CheckRefused(WithSizes(Joined({"--sizes", "6,8"}, flags)), 2, {"--sizes", flags[0]});
  }
}

}  // namespace
}  // namespace neap::testing
