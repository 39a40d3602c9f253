// Stochastic depth (Huang et al., 2016): in every iteration each residual block is left out with a
// probability that grows with its depth, so the graph changes from iteration to iteration. neap
// plans each new graph in milliseconds, within one budget and one arena. Plan and kernels of a
// graph that it has seen before are still there. examples/changing_graphs.cc measures the speed.
//
// At test time the paper scales every block by its survival probability; this example evaluates
// the whole network unscaled.
#include <neap/neap.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>

constexpr int kSteps = 120;
constexpr int64_t kBlocks = 9;         // of ResNet-20
constexpr double kLastSurvives = 0.5;  // the paper's p_L; it falls linearly from the first block

neap::Graph ResNet20(std::vector<int64_t> dropped) {
  return neap::nets::CifarResNet(
      {.n = 3, .image = 8, .batch = 32, .channels = 1, .dropped = std::move(dropped)});
}

std::vector<int64_t> DrawDropped(std::mt19937& random) {
  std::vector<int64_t> dropped;
  for (int64_t block = 0; block < kBlocks; ++block) {
    const double depth = static_cast<double>(block + 1) / kBlocks;
    const double survives = 1 - depth * (1 - kLastSurvives);
    if (std::generate_canonical<double, 32>(random) >= survives) dropped.push_back(block);
  }
  return dropped;
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto device, neap::CpuDevice::Open());  // or neap::CudaDevice::Open(0)
  ASSIGN_OR_RETURN(auto session,
                   neap::CreateSession(ResNet20({}), *device, {.budget_bytes = 5 * neap::kMiB},
                                       {.learning_rate = {.base = 0.05F}}));
  ASSIGN_OR_RETURN(auto digits, neap::OpenDataset("idx:examples/data/digits", {}));
  ASSIGN_OR_RETURN(auto loader, neap::Loader::Create(*digits, {.batch = 32}));
  std::mt19937 random(1);
  double planned_ms = 0;  // new graphs
  double resumed_ms = 0;  // graphs of before
  float loss = 0;
  int64_t planned = session.plan_cache().misses;
  for (int step = 1; step <= kSteps; ++step) {
    const neap::Graph graph = ResNet20(DrawDropped(random));
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(session.SetTrainingGraph(graph));
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    const bool is_planned = session.plan_cache().misses > planned;
    (is_planned ? planned_ms : resumed_ms) += ms.count();
    planned = session.plan_cache().misses;
    ASSIGN_OR_RETURN(neap::Batch batch, loader->Next());
    ASSIGN_OR_RETURN(const float step_loss, session.TrainStep(batch));
    loss += step_loss / 10;
    if (step % 10 != 0) continue;
    const int64_t made = planned - 2;  // without the whole network's, and that for evaluation
    std::cout << "step " << step << "  loss " << loss << "  " << planned
              << " plans made  ms to change the graph: "
              << planned_ms / static_cast<double>(std::max<int64_t>(made, 1)) << " planned, "
              << resumed_ms / static_cast<double>(std::max<int64_t>(step - made, 1))
              << " resumed  arena " << session.memory().arena_bytes << " bytes\n";
    loss = 0;
  }
  ASSIGN_OR_RETURN(neap::Batch batch, loader->Next());
  ASSIGN_OR_RETURN(const neap::StepResult whole, session.Evaluate(batch));
  std::cout << "the whole network: " << whole.correct << " of " << batch.size << " correct\n";
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Train();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
