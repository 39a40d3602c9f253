// A plan that was written to a file is run unchanged, and refused if it does not fit.
#include "neap/core/run/file_planner.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "neap/core/program/homes.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/session.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/own_memory_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

const std::shared_ptr<const Planner> kEvaluation = PlannerFor({.policy = "superneurons"});

// A plan of SmallNet() for the CPU in which tensors are offloaded.
struct Written {
  std::unique_ptr<CpuDevice> device = OpenCpu();
  PlannerOptions options = Tight(*device, "tensor-cache");
  Plan plan = MakeSession(*device, options).plan();
  ScratchDirectory directory;
  std::string file = directory.File("plan.json");

  Written() { WriteText(file, plan.ToJson()); }

  // The file with a change.
  absl::StatusOr<std::shared_ptr<const Planner>> Read(const std::function<void(Plan&)>& change =
                                                          [](Plan&) {}) const {
    Plan changed = plan;
    change(changed);
    WriteText(file, changed.ToJson());
    return PlannerFromFile(file, kEvaluation);
  }
  Program Lowered(const Graph& graph, Mode mode = Mode::kTraining) const {
    return Lower(graph, {.mode = mode}, device->description()).value();
  }
  absl::StatusOr<PlanResult> PlanWith(const Planner& planner, const Program& program,
                                      const PlanRequest& request = {}) const {
    return planner.Plan(program, request, device->description(), device->backend());
  }
};

std::string Message(const absl::Status& status, absl::StatusCode code) {
  CHECK(status.code() == code);
  return std::string(status.message());
}

}  // namespace

TEST_CASE("a plan from a file trains and evaluates to the bits of the session that planned it") {
  const Written written;
  Session planned = MakeSession(*written.device, written.options);
  absl::StatusOr<Session> read =
      Session::Create(SmallNet(), *written.device, written.Read().value());
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->plan() == planned.plan());
  CHECK(Train(*read, 4) == Train(planned, 4));
  CHECK(read->Evaluate(MakeBatch(9))->loss == planned.Evaluate(MakeBatch(9))->loss);
  CheckSameState(*read, planned);
  CHECK(read->memory().measured_peak_bytes == written.plan.peak_bytes);
  CHECK(read->predicted().actions.size() == written.plan.actions.size());
}

// A network for SmallNet()'s batches with a parameter that is large enough to be offloaded.
Graph WideNet() {
  Graph net({.name = "wide", .batch = 8});
  const std::string wide =
      net.Add("fc1", FullyConnected{.out_features = 512}, {net.Input({3, 8, 8})});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 4}, {wide}), SoftmaxCrossEntropy{});
  return net;
}

TEST_CASE("a file's updates are of one layer or several, as it was planned") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  for (const Graph& net : {SmallNet(), WideNet()}) {  // SmallNet() has no parameter to offload
    for (const bool offload_params : {false, true}) {
      CAPTURE(offload_params);
      const PlannerOptions options = {.policy = "superneurons", .offload_params = offload_params};
      Session planned = CreateSession(net, device, options).value();
      WriteText(file, planned.plan().ToJson());
      const auto planner = PlannerFromFile(file, kEvaluation).value();
      const auto lower = [&](const ProgramChoice& choice) {
        return Lower(net, {.offload_params = choice.offload_params}, device.description());
      };
      CHECK(planner->Choose(lower, {}, device.description(), device.backend()).value().choice ==
            ProgramChoice{.offload_params = offload_params});
      Session read = Session::Create(net, device, planner).value();
      CHECK(Train(read, 2) == Train(planned, 2));
      CheckSameState(read, planned);
    }
  }
}

// Keeps parameters on the device, whatever the program says.
class ResidentPlanner final : public Planner {
 public:
  int64_t budget_bytes() const override { return kUnlimited; }
  absl::StatusOr<ChosenProgram> Choose(LowerWith /*lower*/, const PlanRequest& /*request*/,
                                       const DeviceDescription& /*device*/,
                                       EngineCatalog& /*catalog*/) const override {
    return ChosenProgram{};
  }
  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    return kEvaluation->Plan(Resident(program), request, device, catalog);
  }
  absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                        const DeviceDescription& device,
                                        EngineCatalog& catalog) const override {
    return kEvaluation->MinimumBudget(Resident(program), request, device, catalog);
  }

 private:
  static Program Resident(const Program& program) { return WithOffloadedParams(program, false); }
};

TEST_CASE("parameters on the host are where both training and evaluation look for them") {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  const PlannerOptions options = {.policy = "superneurons", .offload_params = true};
  Session planned = CreateSession(WideNet(), *device, options).value();
  REQUIRE(planned.plan().host_resident_bytes > 0);
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  WriteText(file, planned.plan().ToJson());
  Session read =
      Session::Create(WideNet(), *device, PlannerFromFile(file, kEvaluation).value()).value();
  for (int step = 0; step < 3; ++step) {
    CHECK(Train(read, 1) == Train(planned, 1));
    CHECK(read.Evaluate(MakeBatch(9))->loss == planned.Evaluate(MakeBatch(9))->loss);
  }
  REQUIRE(read.SetBudget(kUnlimited).ok());
  CheckSameState(read, planned);

  // An evaluation that keeps them on the device would not find them.
  const auto elsewhere = PlannerFromFile(file, std::make_shared<ResidentPlanner>()).value();
  const std::string refusal = Message(Session::Create(WideNet(), *device, elsewhere).status(),
                                      absl::StatusCode::kInvalidArgument);
  CHECK(refusal.find("'fc1.weight', is arena, but the program's is host") != std::string::npos);
  CHECK(Session::Create(WideNet(), *device, elsewhere, {.training_only = true}).ok());
}

TEST_CASE("a plan that keeps the parameters at other places can train, but not evaluate") {
  const Written written;
  const int64_t arena = written.plan.arena_bytes;
  // The same plan, upside down.
  const auto mirror = [arena](Region& region) {
    region.offset = arena - region.offset - RoundUp(region.bytes, kBlockBytes);
  };
  const auto planner = written.Read([&](Plan& plan) {
    for (Action& action : plan.actions) {
      if (auto* const alloc = std::get_if<AllocAction>(&action)) mirror(alloc->region);
      auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute != nullptr && compute->workspace.has_value()) mirror(*compute->workspace);
    }
    plan.peak_bytes = arena;
  });
  REQUIRE_MESSAGE(planner.ok(), planner.status().ToString());
  const std::string refusal =
      Message(Session::Create(SmallNet(), *written.device, *planner).status(),
              absl::StatusCode::kInvalidArgument);
  CHECK(refusal.find("of the arena in one") != std::string::npos);

  Session planned = MakeSession(*written.device, written.options);
  Session mirrored =
      Session::Create(SmallNet(), *written.device, *planner, {.training_only = true}).value();
  Train(planned, 2);
  Train(mirrored, 2);
  REQUIRE(mirrored.SetBudget(kUnlimited).ok());
  Train(planned, 1);
  Train(mirrored, 1);
  CheckSameState(mirrored, planned);
}

TEST_CASE("a plan that takes more memory of the host than its budget there is refused") {
  const Written written;
  const int64_t bytes = written.plan.host_pool_bytes;
  REQUIRE(bytes > 0);
  CHECK(PlannerFromFile(written.file, kEvaluation, {.host_budget_bytes = bytes}).ok());
  const absl::Status refused =
      PlannerFromFile(written.file, kEvaluation, {.host_budget_bytes = bytes - 1}).status();
  CHECK(Message(refused, absl::StatusCode::kResourceExhausted)
            .starts_with(written.file + ": the plan takes " + std::to_string(bytes)));
}

TEST_CASE("training is the file's plan, evaluation another planner's") {
  const Written written;
  const std::shared_ptr<const Planner> planner = written.Read().value();
  CHECK(planner->budget_bytes() == written.plan.budget_bytes);
  const Program training = written.Lowered(SmallNet());
  const PlanResult result = written.PlanWith(*planner, training).value();
  CHECK(result.plan == written.plan);
  CHECK(result.stats.minimum_budget_bytes == written.plan.arena_bytes);
  CHECK(result.stats.runs == static_cast<int64_t>(result.costs.compute_seconds.size()));
  CHECK(result.stats.runs == static_cast<int64_t>(result.sources.size()));
  CHECK(result.stats.batch_copy_ms > 0);
  const Program inference = written.Lowered(SmallNet(), Mode::kInference);
  const PlanRequest request = {.budget_bytes = written.plan.budget_bytes, .strict = true};
  CHECK(written.PlanWith(*planner, inference, request)->plan ==
        written.PlanWith(*kEvaluation, inference, request)->plan);
  const absl::Status tight = written.PlanWith(*planner, inference, {.budget_bytes = 1}).status();
  CHECK(Message(tight, absl::StatusCode::kResourceExhausted)
            .starts_with("evaluation beside the plan in " + written.file + ": "));
}

TEST_CASE("every budget that holds the plan is accepted, and changes nothing") {
  const Written written;
  Session steady = MakeSession(*written.device, written.options);
  Session session = Session::Create(SmallNet(), *written.device, written.Read().value()).value();
  Train(steady, 3);
  Train(session, 1);
  REQUIRE(session.SetBudget(kUnlimited).ok());
  CHECK(session.plan() == written.plan);
  Train(session, 1);
  const int64_t arena = written.plan.arena_bytes;
  const std::string refusal =
      Message(session.SetBudget(arena - kBlockBytes), absl::StatusCode::kResourceExhausted);
  CHECK(refusal.find("the plan in " + written.file + ", which takes " + std::to_string(arena)) !=
        std::string::npos);
  CHECK(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  Train(session, 1);
  CheckSameState(session, steady);
}

TEST_CASE("a part of the network is refused, and training continues with the whole") {
  const Written written;
  Session session = Session::Create(SmallNet(), *written.device, written.Read().value()).value();
  const absl::Status refused =
      session.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, /*with_block=*/false));
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(session.plan() == written.plan);
  Train(session, 1);
}

TEST_CASE("a plan for something else is refused with the first difference") {
  const Written written;
  const Program program = written.Lowered(SmallNet());
  const auto refusal = [&](const std::function<void(Plan&)>& change) {
    const std::shared_ptr<const Planner> planner = written.Read(change).value();
    return Message(written.PlanWith(*planner, program).status(),
                   absl::StatusCode::kInvalidArgument);
  };
  const std::string begin = written.file + ": the plan is for ";
  CHECK(refusal([](Plan& p) { p.net = "lenet"; }) == begin + "network lenet, not for small");
  CHECK(refusal([](Plan& p) { p.dtype = DType::kTf32; }) == begin + "dtype tf32, not for fp32");
  CHECK(refusal([](Plan& p) { p.layout = Layout::kChannelsLast; }) ==
        begin + "layout nhwc, not for nchw");
  CHECK(refusal([](Plan& p) { p.device_kind = "cuda"; }) ==
        begin + "device kind cuda, not for cpu");
  CHECK(refusal([](Plan& p) {
          p.tensors[0].name = "other";
        }).starts_with(written.file + ": plan fault [wrong-program]: "));
  const auto silent = written.Read([](Plan& p) { p.device_kind.clear(); });
  CHECK(written.PlanWith(**silent, program).ok());

  Graph larger({.name = "small", .batch = 16});
  larger.Loss(larger.Add("fc", FullyConnected{.out_features = 4}, {larger.Input({3, 8, 8})}),
              SoftmaxCrossEntropy{});
  const auto planner = written.Read();
  CHECK(Message(written.PlanWith(**planner, written.Lowered(larger)).status(),
                absl::StatusCode::kInvalidArgument) == begin + "batch 8, not for 16");
}

TEST_CASE("a file that is not a plan, or that the verifier refuses, is not read") {
  const Written written;
  const auto fault = written.Read([](Plan& p) {
    for (Action& action : p.actions) {
      if (auto* const alloc = std::get_if<AllocAction>(&action)) alloc->region.offset = 0;
    }
  });
  CHECK(Message(fault.status(), absl::StatusCode::kInvalidArgument)
            .starts_with(written.file + ": plan fault [overlap]: action "));
  WriteText(written.file, "not JSON");
  CHECK(Message(PlannerFromFile(written.file, kEvaluation).status(),
                absl::StatusCode::kInvalidArgument)
            .starts_with(written.file + ": plan: "));
  const std::string missing = written.directory.File("missing.json");
  CHECK(Message(PlannerFromFile(missing, kEvaluation).status(), absl::StatusCode::kNotFound)
            .find(missing) != std::string::npos);
}

TEST_CASE("an engine that this device lacks is named") {
  const Written written;
  const auto foreign = written.Read([](Plan& p) {
    for (Action& action : p.actions) {
      auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute == nullptr || compute->engines.empty()) continue;
      compute->engines.front().engine = "eng999";
      return;
    }
  });
  const absl::Status refused =
      Session::Create(SmallNet(), *written.device, foreign.value()).status();
  CHECK(Message(refused, absl::StatusCode::kNotFound).find("'eng999'") != std::string::npos);
}

}  // namespace neap
