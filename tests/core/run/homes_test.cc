// Persistent tensors with homes of their own: training is that of a session without, bit for bit.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/run/external_memory.h"
#include "tests/core/run/homes_pair.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::homes_test {

using testing::CallersMemory;

namespace {

TEST_CASE("external parameters are trained where they are, by every policy, beside the budget") {
  const auto device = OpenCpu();
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    const PlannerOptions planning = {.policy = std::string(policy.name)};
    Pair pair(BlockNet({.batch_norm = true}), *device, {.external = IsWeight}, planning);
    REQUIRE(pair.external_bytes > 0);
    CHECK(pair.homes->plan().arena_bytes == pair.plain.plan().arena_bytes - pair.external_bytes);
    CHECK(pair.homes->planning().minimum_budget_bytes ==
          pair.plain.planning().minimum_budget_bytes - pair.external_bytes);
    pair.TrainBoth(3);
    CHECK(pair.homes->memory().measured_peak_bytes == pair.homes->plan().peak_bytes);
    CHECK(pair.homes->Evaluate(MakeBatch(9))->loss == pair.plain.Evaluate(MakeBatch(9))->loss);
    REQUIRE(pair.homes->SetBudget(pair.homes->planning().minimum_budget_bytes).ok());
    pair.TrainBoth(2);
  }
}

TEST_CASE("single tensors are on the host between iterations, by every policy and in any budget") {
  const auto device = OpenCpu();
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    const PlannerOptions planning = {.policy = std::string(policy.name)};
    Pair pair(BlockNet({.batch_norm = true}), *device, {.on_host = IsLast}, planning);
    for (const PlanTensor& tensor : pair.homes->plan().tensors)
      CHECK(tensor.on_host() == IsLast(tensor));
    pair.TrainBoth(3);
    CHECK(pair.homes->Evaluate(MakeBatch(9))->loss == pair.plain.Evaluate(MakeBatch(9))->loss);
    REQUIRE(pair.homes->SetBudget(pair.homes->planning().minimum_budget_bytes).ok());
    pair.TrainBoth(2);
  }
}

TEST_CASE("every persistent tensor may be external or on the host, with each optimizer and type") {
  const auto device = OpenCpu();
  const std::vector<Optimizer> optimizers = {
      {.momentum = 0.9F},
      {.rule = Optimizer::Rule::kAdamW, .average_decay = 0.9F},
      {.clip_norm = 0.5F}};
  const auto is_moved = [](const PlanTensor& tensor) { return tensor.id.value % 3 == 0; };
  const std::vector<Chosen> choices = {
      {.external = IsFp32},
      {.on_host = [](const PlanTensor& tensor) { return IsPersistent(tensor.role); }},
      {.external = IsFp32,
       .on_host =
           [&](const auto& tensor) { return IsPersistent(tensor.role) && is_moved(tensor); }},
      {.external = IsWeight}};
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const Optimizer& optimizer : optimizers) {
      for (const Chosen& chosen : choices) {
        for (const char* policy : {"keep-all", "superneurons", "modnn"}) {
          CAPTURE(Name(dtype));
          CAPTURE(policy);
          Pair pair(BlockNet({.dtype = dtype, .batch_norm = true}), *device, chosen,
                    {.policy = policy}, {.optimizer = optimizer});
          pair.TrainBoth(2);
          REQUIRE(pair.homes->SetBudget(pair.homes->planning().minimum_budget_bytes).ok());
          pair.TrainBoth(1);
        }
      }
    }
  }
}

TEST_CASE("the arena may have nothing that lasts") {
  const auto device = OpenCpu();
  Pair pair(BlockNet({.batch_norm = true}), *device, {.external = IsFp32}, {});
  for (const Action& action : pair.homes->plan().actions) {
    const auto* const alloc = std::get_if<AllocAction>(&action);
    if (alloc == nullptr) continue;
    CHECK(!IsPersistent(pair.homes->plan().tensors[alloc->tensor.index()].role));
  }
  pair.TrainBoth(1);
  REQUIRE(pair.homes->SetBudget(kUnlimited).ok());
  pair.TrainBoth(1);
}

TEST_CASE("sums of gradients may be external or on the host") {
  const auto device = OpenCpu();
  const auto is_sum = [](const PlanTensor& tensor) {
    return tensor.role == Role::kOptimizer && tensor.name.ends_with(".grad");
  };
  for (const Chosen& chosen : {Chosen{.external = IsFp32, .on_host = is_sum}, Chosen{is_sum}}) {
    Pair pair(BlockNet(), *device, chosen, {.policy = "superneurons"}, {.accumulate = 2});
    for (uint64_t batch = 0; batch < 4; ++batch) {
      CHECK(pair.homes->Accumulate(MakeBatch(batch))->loss ==
            pair.plain.Accumulate(MakeBatch(batch))->loss);
      if (batch % 2 == 0) continue;
      REQUIRE(pair.homes->Update().ok());
      REQUIRE(pair.plain.Update().ok());
    }
    pair.CheckSame();
  }
}

TEST_CASE("graphs that leave out layers, and checkpoints, use the same memory") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  Pair pair(SmallNet(), *device, {.external = IsWeight, .on_host = IsLast},
            {.policy = "superneurons"});
  pair.TrainBoth(1);
  const Graph without = SmallNet(Layout::kChannelsFirst, /*with_block=*/false);
  REQUIRE(pair.homes->SetTrainingGraph(without).ok());
  REQUIRE(pair.plain.SetTrainingGraph(without).ok());
  pair.TrainBoth(2);
  const std::string file = directory.File("model.safetensors");
  REQUIRE(pair.homes->Save(file).ok());
  pair.TrainBoth(2);
  REQUIRE(pair.homes->Load(file).ok());
  REQUIRE(pair.plain.Load(file).ok());
  pair.CheckSame();
  pair.TrainBoth(1);
}

TEST_CASE("all sizes of a network use the same homes") {
  const auto device = OpenCpu();
  Graph net({.name = "sized", .batch = 8});
  std::string x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1},
                          {net.Input({3, 12, 12})});
  x = net.Add("pool", GlobalAveragePool{}, {net.Add("bn", BatchNorm{}, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  net.Sizes({{.extents = {8, 8}}});
  Pair pair(net, *device, {.external = IsFp32, .on_host = IsLast}, {.policy = "superneurons"});
  for (const int64_t extent : {8, 12, 8}) {
    Batch batch = MakeBatch(static_cast<uint64_t>(extent));
    batch.height = batch.width = extent;
    batch.images.resize(static_cast<size_t>(8 * 3 * extent * extent), 0.5F);
    CHECK(pair.homes->TrainStep(batch).value() == pair.plain.TrainStep(batch).value());
    pair.CheckSame();
  }
}

TEST_CASE("averages are exchanged with external parameters in place") {
  const auto device = OpenCpu();
  Pair pair(BlockNet({.dtype = DType::kBf16}), *device, {.external = IsWeight}, {},
            {.optimizer = {.average_decay = 0.5F}});
  pair.TrainBoth(2);
  REQUIRE(pair.homes->ExchangeAverages().ok());
  REQUIRE(pair.plain.ExchangeAverages().ok());
  pair.CheckSame();
}

TEST_CASE("an external tensor begins with the caller's values, and its copies with those") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const Graph net = BlockNet({.dtype = dtype});
    CallersMemory memory(*device);
    Session random = Opened(net, *device);
    std::vector<float> mine = random.Values("fc.weight").value();
    for (float& value : mine) value *= 0.5F;
    memory.Add("fc.weight", mine);
    Session session = Opened(net, *device, {}, {.external = memory.tensors()});
    CHECK(SameBits(session.Values("fc.weight").value(), mine));
    CHECK(session.Evaluate(MakeBatch(1))->loss != random.Evaluate(MakeBatch(1))->loss);

    // The caller may change them later.
    memory.Write("fc.weight", random.Values("fc.weight").value());
    REQUIRE(session.Refresh().ok());
    CHECK(session.Evaluate(MakeBatch(1))->loss == random.Evaluate(MakeBatch(1))->loss);
    CHECK(Train(session, 2) == Train(random, 2));
  }
}

TEST_CASE("homes go with offload_params, which leaves the tensors that they name") {
  const auto device = OpenCpu();
  Graph net({.name = "wide", .batch = 8});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 128}, {net.Input({3, 8, 8})});
  x = net.Add("fc2", FullyConnected{.out_features = 128}, {net.Add("relu", Relu{}, {x})});
  net.Loss(net.Add("fc3", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const PlannerOptions planning = {.policy = "superneurons", .offload_params = true};
  Session session = Opened(net, *device, planning, {.homes = {{"fc1.weight", Home::kArena}}});
  Session plain = Opened(net, *device, {.policy = "superneurons"});
  std::string on_host;
  for (const PlanTensor& tensor : session.plan().tensors) {
    if (tensor.on_host()) on_host += tensor.name + " ";
  }
  CHECK(on_host == "fc1.weight.momentum fc2.weight fc2.weight.momentum ");
  CHECK(Train(session, 2) == Train(plain, 2));
}

TEST_CASE("a plan file is one of a session with the same homes") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  Pair pair(BlockNet(), *device, {.external = IsWeight, .on_host = IsLast}, {.policy = "auto"});
  {
    std::ofstream out(file);
    out << pair.homes->plan().ToJson();
  }
  const auto planner = PlannerFromFile(file, PlannerFor({})).value();
  TrainingOptions training = pair.options;
  pair.homes.emplace(Session::Create(BlockNet(), *device, planner, training).value());
  pair.TrainBoth(2);
  training.homes.clear();
  const absl::Status refused = Session::Create(BlockNet(), *device, planner, training).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message().find("'fc.weight', is host, but the program's is arena") !=
        std::string_view::npos);
}

TEST_CASE("homes and memory that do not fit the network are refused by name") {
  const auto device = OpenCpu();
  const auto error = [&](const TrainingOptions& training) {
    const absl::Status status = CreateSession(BlockNet(), *device, {}, training).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  const Buffer buffer = device->Allocate(MemoryKind::kDevice, 4096).value();
  CHECK(error({.homes = {{"fc.weihgt", Home::kHost}}}) ==
        "net has no persistent tensor 'fc.weihgt' that could have a home");
  CHECK(error({.homes = {{"fc", Home::kHost}}}) ==
        "net has no persistent tensor 'fc' that could have a home");
  CHECK(error({.homes = {{"fc.bias", Home::kHost}, {"fc.bias", Home::kArena}}}) ==
        "the home of 'fc.bias' is given twice");
  CHECK(
      error({.homes = {{"fc.bias", Home::kHost}}, .external = {{"fc.bias", buffer.data(), 16}}}) ==
      "the home of 'fc.bias' is given twice");
  CHECK(error({.homes = {{"fc.bias", Home::kExternal}}}) ==
        "the external tensor 'fc.bias' is given no memory");
  const std::string of_bias = "the memory of the external tensor 'fc.bias' ";
  CHECK(error({.external = {{"fc.bias", nullptr, 16}}}) == of_bias + "is null");
  CHECK(error({.external = {{"fc.bias", buffer.data() + 4, 16}}}) ==
        of_bias + "is not aligned to 16 bytes");
  CHECK(error({.external = {{"fc.bias", buffer.data(), 20}}}) ==
        of_bias + "has 20 bytes, but the tensor, 4 fp32 nchw, has 16");
  CHECK(
      error({.external = {{"fc.bias", buffer.data(), 16}, {"fc.bias.momentum", buffer.data(), 16}}})
          .find("overlaps") != std::string::npos);
}

TEST_CASE("the loss scale, with which the session counts, is not external") {
  const auto device = OpenCpu();
  const Buffer buffer = device->Allocate(MemoryKind::kDevice, 4096).value();
  const TrainingOptions training = {.external = {{"loss_scale", buffer.data(), 16}}};
  const absl::Status status =
      CreateSession(BlockNet({.dtype = DType::kFp16}), *device, {}, training).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() ==
        "'loss_scale' cannot be external: the session itself counts with its values");
}

TEST_CASE("a copy is not external, but what it is a copy of may be") {
  const auto device = OpenCpu();
  const Buffer buffer = device->Allocate(MemoryKind::kDevice, 4096).value();
  const Graph net = BlockNet({.dtype = DType::kFp16, .batch_norm = true});
  const Program program = Lower(net, {}, device->description()).value();
  for (const Tensor& tensor : program.tensors) {
    if (!IsPersistent(tensor.role) || !tensor.copy_of.has_value()) continue;
    const ExternalTensor given = {tensor.name, buffer.data(), tensor.spec.size_bytes()};
    const absl::Status status = CreateSession(net, *device, {}, {.external = {given}}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message())
              .find("'" + tensor.name + "' cannot be external: it is a copy of '") == 0);
  }
}

}  // namespace
}  // namespace neap::homes_test
