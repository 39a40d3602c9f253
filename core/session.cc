#include "neap/core/session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/checkpoint.h"
#include "neap/core/executor.h"
#include "neap/core/initialize.h"
#include "neap/core/layout.h"
#include "neap/core/program.h"
#include "neap/core/status_macros.h"
#include "neap/core/verifier.h"
#include "neap/memory/host_pool.h"

namespace neap {
namespace {

constexpr int kMaxInFlight = 2;

// A program with its plan, and the executor that replays it in the session's arena.
struct Runtime {
  Program program;
  PlanResult planned;
  std::optional<Executor> executor;
};

absl::StatusOr<PlanResult> PlanAndVerify(const Program& program, const SessionOptions& options,
                                         Device& device) {
  const PlannerOptions planner = {.budget_bytes = options.budget_bytes,
                                  .host_budget_bytes = options.host_budget_bytes,
                                  .policy = options.policy,
                                  .placement = options.placement,
                                  .offload_params = options.offload_params,
                                  .eviction = options.eviction,
                                  .in_place = options.in_place,
                                  .strict = options.strict || device.description().kind == "cpu"};
  ASSIGN_OR_RETURN(PlanResult result,
                   MakePlan(program, planner, device.description(), device.backend()));
  RETURN_IF_ERROR(Verify(result.plan));
  RETURN_IF_ERROR(MatchesProgram(result.plan, program));
  return result;
}

struct Plans {
  PlanResult training, inference;
};

// Plans both programs. The budget must suit both, so the one that needs more speaks for them.
absl::StatusOr<Plans> PlanBoth(const Program& training, const Program& inference,
                               const SessionOptions& options, Device& device) {
  absl::StatusOr<PlanResult> first = PlanAndVerify(training, options, device);
  absl::StatusOr<PlanResult> second = PlanAndVerify(inference, options, device);
  if (first.ok() && second.ok()) {
    int64_t& minimum = first->stats.minimum_budget_bytes;
    minimum = std::max(minimum, second->stats.minimum_budget_bytes);
    return Plans{*std::move(first), *std::move(second)};
  }
  if (!absl::IsResourceExhausted(first.status()) || !absl::IsResourceExhausted(second.status())) {
    return first.ok() ? second.status() : first.status();
  }
  SessionOptions unlimited = options;
  unlimited.budget_bytes = kUnlimited;
  ASSIGN_OR_RETURN(const PlanResult most, PlanAndVerify(training, unlimited, device));
  ASSIGN_OR_RETURN(const PlanResult least, PlanAndVerify(inference, unlimited, device));
  const bool training_binds = most.stats.minimum_budget_bytes >= least.stats.minimum_budget_bytes;
  return training_binds ? first.status() : second.status();
}

// Host memory for what one step sends and receives.
struct Staging {
  Buffer images, labels, iteration, metrics;
  Event done;
  int64_t step = 0;
};

}  // namespace

class Session::Impl {
 public:
  Impl(Device& device, SessionOptions options) : device_(device), options_(std::move(options)) {}
  ~Impl() { device_.Synchronize().IgnoreError(); }  // kernels may still be using the arena

  absl::Status Create(const Graph& graph) {
    ASSIGN_OR_RETURN(training_.program,
                     BuildProgram(graph, {.mode = Mode::kTraining, .sgd = options_.sgd}));
    ASSIGN_OR_RETURN(inference_.program,
                     BuildProgram(graph, {.mode = Mode::kInference, .sgd = options_.sgd}));
    for (Staging& staging : staging_) RETURN_IF_ERROR(AllocateStaging(staging));
    RETURN_IF_ERROR(PlanAndReserve());
    for (const Tensor& tensor : training_.program.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      RETURN_IF_ERROR(WriteTensor(tensor, InitialValues(tensor, options_.seed)));
    }
    return absl::OkStatus();
  }

  const PlanResult& planned() const { return training_.planned; }
  int64_t step() const { return step_; }
  uint64_t seed() const { return options_.seed; }
  MemoryUse memory() const {
    return {.predicted_peak_bytes = training_.planned.plan.peak_bytes,
            .measured_peak_bytes =
                training_.executor.has_value() ? training_.executor->measured_peak_bytes() : 0,
            .arena_bytes = arena_.size_bytes()};
  }

  absl::Status Begin(const Batch& batch) {
    RETURN_IF_ERROR(CheckArena());
    if (in_flight_ == kMaxInFlight)
      return absl::FailedPreconditionError("two steps are in flight; Finish() one");
    const IterationScalars scalars = {.learning_rate = options_.learning_rate.At(step_),
                                      .step = static_cast<uint32_t>(step_),
                                      .seed = options_.seed};
    Staging& staging = staging_[static_cast<size_t>(step_ % kMaxInFlight)];
    staging.step = step_;
    RETURN_IF_ERROR(Launch(training_, batch, scalars, staging));
    ++step_;
    ++in_flight_;
    return absl::OkStatus();
  }

  absl::StatusOr<StepResult> Finish() {
    if (in_flight_ == 0) return absl::FailedPreconditionError("no step is in flight");
    const int64_t step = step_ - in_flight_;
    --in_flight_;
    return Await(staging_[static_cast<size_t>(step % kMaxInFlight)]);
  }

  absl::StatusOr<StepResult> Evaluate(const Batch& batch) {
    RETURN_IF_ERROR(CheckReady());
    staging_[0].step = 0;
    RETURN_IF_ERROR(Launch(inference_, batch, {}, staging_[0]));
    return Await(staging_[0]);
  }

  absl::Status Save(const std::string& path, CheckpointContents contents) {
    RETURN_IF_ERROR(CheckReady());
    return SaveCheckpoint(path, training_.program, contents, {.step = step_, .seed = options_.seed},
                          [this](const Tensor& tensor) { return ReadTensor(tensor); });
  }

  absl::Status Load(const std::string& path) {
    RETURN_IF_ERROR(CheckReady());
    ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadCheckpoint(path, training_.program));
    for (const Tensor& tensor : training_.program.tensors) {
      if (tensor.role == Role::kOptimizer)
        RETURN_IF_ERROR(WriteTensor(tensor, InitialValues(tensor, 0)));
    }
    for (const auto& [id, values] : loaded.tensors) {
      RETURN_IF_ERROR(WriteTensor(training_.program.tensor(id), values));
    }
    step_ = loaded.position.has_value() ? loaded.position->step : 0;
    if (loaded.position.has_value()) options_.seed = loaded.position->seed;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> Values(std::string_view name) {
    RETURN_IF_ERROR(CheckReady());
    for (const Tensor& tensor : training_.program.tensors) {
      if (tensor.name == name && IsPersistent(tensor.role)) return ReadTensor(tensor);
    }
    return absl::NotFoundError(absl::StrFormat("the network has no persistent tensor '%s'", name));
  }

  absl::Status SetBudget(int64_t budget_bytes) {
    RETURN_IF_ERROR(CheckIdle());
    SessionOptions options = options_;
    options.budget_bytes = budget_bytes;
    ASSIGN_OR_RETURN(Plans plans,
                     PlanBoth(training_.program, inference_.program, options, device_));
    RETURN_IF_ERROR(Evacuate());
    SwapPlans(plans);
    if (const absl::Status refused = ReserveArena(); !refused.ok()) {
      SwapPlans(plans);  // back to the arena that it had
      RETURN_IF_ERROR(ReserveArena());
      RETURN_IF_ERROR(Return());
      return absl::IsAborted(refused) ? SetBudget(budget_bytes) : refused;
    }
    options_ = std::move(options);
    return Return();
  }

 private:
  absl::Status CheckIdle() const {
    if (in_flight_ == 0) return absl::OkStatus();
    return absl::FailedPreconditionError("a step is in flight; Finish() it first");
  }
  absl::Status CheckArena() const {
    if (training_.executor.has_value() && inference_.executor.has_value()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the device has refused the arena; the parameters are on the host until SetBudget() finds "
        "room");
  }
  absl::Status CheckReady() const {
    RETURN_IF_ERROR(CheckIdle());
    return CheckArena();
  }

  absl::StatusOr<Buffer> Pinned(int64_t bytes) {
    return device_.Allocate(MemoryKind::kPinnedHost, bytes);
  }

  absl::Status AllocateStaging(Staging& staging) {
    const Program& program = training_.program;
    ASSIGN_OR_RETURN(staging.images, Pinned(program.tensor(program.images).spec.size_bytes()));
    ASSIGN_OR_RETURN(staging.labels, Pinned(program.tensor(program.labels).spec.size_bytes()));
    ASSIGN_OR_RETURN(staging.iteration, Pinned(kIterationScalarsBytes));
    ASSIGN_OR_RETURN(staging.metrics, Pinned(program.tensor(program.metrics).spec.size_bytes()));
    return absl::OkStatus();
  }

  // Persistent tensors lie at the bottom of the arena, the same in both plans, but for those that
  // are on the host.
  int64_t PersistentBytes() const {
    int64_t bytes = 0;
    for (const PlanTensor& tensor : training_.planned.plan.tensors) {
      if (IsPersistent(tensor.role) && !tensor.on_host) bytes += RoundUp(tensor.bytes, kBlockBytes);
    }
    return bytes;
  }

  // Persistent tensors to the host, where they stay until Return(). Nothing to do if they are
  // there.
  absl::Status Evacuate() {
    if (evacuated_.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(Buffer snapshot, Pinned(PersistentBytes()));
    RETURN_IF_ERROR(
        device_.Copy(Stream::kCompute, snapshot.data(), arena_.data(), snapshot.size_bytes()));
    RETURN_IF_ERROR(device_.Synchronize());
    evacuated_ = std::move(snapshot);
    return absl::OkStatus();
  }
  absl::Status Return() {
    RETURN_IF_ERROR(device_.Copy(Stream::kCompute, arena_.data(), evacuated_->data(),
                                 evacuated_->size_bytes()));
    RETURN_IF_ERROR(device_.Synchronize());
    evacuated_.reset();
    return absl::OkStatus();
  }
  void SwapPlans(Plans& plans) {
    std::swap(training_.planned, plans.training);
    std::swap(inference_.planned, plans.inference);
  }

  // Plans anew while an engine turns out not to build: it is listed no more then.
  absl::Status PlanAndReserve() {
    absl::Status reserved;
    do {
      ASSIGN_OR_RETURN(Plans plans,
                       PlanBoth(training_.program, inference_.program, options_, device_));
      SwapPlans(plans);
      reserved = ReserveArena();
    } while (absl::IsAborted(reserved));
    return reserved;
  }

  absl::Status ReserveArena() {
    training_.executor.reset();
    inference_.executor.reset();
    arena_ = Buffer();
    const int64_t homes_bytes = LayOutHostHomes(training_.planned.plan).bytes;
    if (homes_.size_bytes() < homes_bytes) {
      ASSIGN_OR_RETURN(homes_, device_.Allocate(MemoryKind::kPinnedHost, homes_bytes));
    }
    const int64_t bytes =
        std::max(training_.planned.plan.arena_bytes, inference_.planned.plan.arena_bytes);
    ASSIGN_OR_RETURN(arena_, device_.Allocate(MemoryKind::kDevice, bytes));
    for (Runtime* runtime : {&training_, &inference_}) {
      ASSIGN_OR_RETURN(runtime->executor, Executor::Create(runtime->program, runtime->planned.plan,
                                                           device_, arena_.data(), homes_.data()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBatch(const Batch& batch) const {
    const Program& program = training_.program;
    const TensorSpec& images = program.tensor(program.images).spec;
    const TensorSpec& labels = program.tensor(program.labels).spec;
    const bool fits = static_cast<int64_t>(batch.images.size()) == images.elements() &&
                      static_cast<int64_t>(batch.labels.size()) == labels.elements();
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the batch has ", batch.labels.size(), " labels and ", batch.images.size(),
                     " image values; the network's input is ", images.shape.ToString(),
                     ", its labels ", labels.shape.ToString()));
  }

  absl::Status CopyIn(std::byte* destination, const Buffer& source) {
    if (destination == nullptr) return absl::OkStatus();  // the plan has no use for it
    return device_.Copy(Stream::kCompute, destination, source.data(), source.size_bytes());
  }

  // Enqueues a whole iteration.
  absl::Status Launch(Runtime& runtime, const Batch& batch, const IterationScalars& scalars,
                      Staging& staging) {
    RETURN_IF_ERROR(CheckBatch(batch));
    const Program& program = runtime.program;
    FromNchw(batch.images, program.tensor(program.images).spec,
             absl::MakeSpan(reinterpret_cast<float*>(staging.images.data()), batch.images.size()));
    std::memcpy(staging.labels.data(), batch.labels.data(), batch.labels.size() * sizeof(int32_t));
    std::memcpy(staging.iteration.data(), &scalars, sizeof(scalars));

    Executor& executor = *runtime.executor;
    RETURN_IF_ERROR(CopyIn(executor.Address(program.images), staging.images));
    RETURN_IF_ERROR(CopyIn(executor.Address(program.labels), staging.labels));
    RETURN_IF_ERROR(CopyIn(executor.Address(program.iteration), staging.iteration));
    RETURN_IF_ERROR(executor.Run());
    RETURN_IF_ERROR(device_.Copy(Stream::kCompute, staging.metrics.data(),
                                 executor.Address(program.metrics), staging.metrics.size_bytes()));
    ASSIGN_OR_RETURN(staging.done, device_.Record(Stream::kCompute));
    return absl::OkStatus();
  }

  absl::StatusOr<StepResult> Await(Staging& staging) {
    RETURN_IF_ERROR(device_.Await(staging.done));
    std::array<float, 2> metrics = {};
    std::memcpy(metrics.data(), staging.metrics.data(), sizeof(metrics));
    return StepResult{
        .step = staging.step, .loss = metrics[0], .correct = static_cast<int64_t>(metrics[1])};
  }

  absl::StatusOr<std::vector<float>> ReadTensor(const Tensor& tensor) {
    ASSIGN_OR_RETURN(const Buffer buffer, Pinned(tensor.spec.size_bytes()));
    RETURN_IF_ERROR(device_.Copy(Stream::kCompute, buffer.data(),
                                 training_.executor->Address(tensor.id), buffer.size_bytes()));
    RETURN_IF_ERROR(device_.Synchronize());
    std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
    ToNchw(absl::MakeConstSpan(reinterpret_cast<const float*>(buffer.data()), values.size()),
           tensor.spec, absl::MakeSpan(values));
    return values;
  }

  absl::Status WriteTensor(const Tensor& tensor, const std::vector<float>& values) {
    ASSIGN_OR_RETURN(const Buffer buffer, Pinned(tensor.spec.size_bytes()));
    FromNchw(values, tensor.spec,
             absl::MakeSpan(reinterpret_cast<float*>(buffer.data()), values.size()));
    RETURN_IF_ERROR(CopyIn(training_.executor->Address(tensor.id), buffer));
    return device_.Synchronize();
  }

  Device& device_;
  SessionOptions options_;
  Buffer arena_;
  Buffer homes_;  // of the persistent tensors that are on the host between iterations
  std::optional<Buffer> evacuated_;  // persistent tensors, while there is no arena for them
  Runtime training_;
  Runtime inference_;
  std::array<Staging, kMaxInFlight> staging_;
  int64_t step_ = 0;  // the next to begin
  int64_t in_flight_ = 0;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

absl::StatusOr<Session> Session::Create(const Graph& graph, Device& device,
                                        SessionOptions options) {
  auto impl = std::make_unique<Impl>(device, std::move(options));
  RETURN_IF_ERROR(impl->Create(graph));
  return Session(std::move(impl));
}

const Plan& Session::plan() const { return impl_->planned().plan; }
const PlanningStats& Session::planning() const { return impl_->planned().stats; }
MemoryUse Session::memory() const { return impl_->memory(); }
int64_t Session::step() const { return impl_->step(); }
uint64_t Session::seed() const { return impl_->seed(); }

absl::StatusOr<float> Session::TrainStep(const Batch& batch) {
  RETURN_IF_ERROR(impl_->Begin(batch));
  ASSIGN_OR_RETURN(const StepResult result, impl_->Finish());
  return result.loss;
}
absl::Status Session::Begin(const Batch& batch) { return impl_->Begin(batch); }
absl::StatusOr<StepResult> Session::Finish() { return impl_->Finish(); }
absl::StatusOr<StepResult> Session::Evaluate(const Batch& batch) { return impl_->Evaluate(batch); }

absl::Status Session::Save(const std::string& path) {
  return impl_->Save(path, CheckpointContents::kEverything);
}
absl::Status Session::SaveWeights(const std::string& path) {
  return impl_->Save(path, CheckpointContents::kWeights);
}
absl::Status Session::Load(const std::string& path) { return impl_->Load(path); }
absl::StatusOr<std::vector<float>> Session::Values(std::string_view tensor) {
  return impl_->Values(tensor);
}
absl::Status Session::SetBudget(int64_t budget_bytes) { return impl_->SetBudget(budget_bytes); }

}  // namespace neap
