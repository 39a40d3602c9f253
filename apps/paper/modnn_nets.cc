// moDNN: its six networks, and how a batch of them is planned.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/paper/modnn.h"
#include "apps/paper/paper_planning.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/lifetimes.h"
#include "neap/core/program/passes.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/nets/registry.h"

namespace neap::apps::modnn {
namespace {

// FCN-8s pads images by 100, so these need 230 by 230 maps. The paper does not state its images; at
// 500 by 500 the ideal case would take far more than the 24 GB that its Figure 9 stays below.
constexpr int64_t kFcnImage = 32;

}  // namespace

std::vector<Net> NetsOf(const PaperRun& run) {
  if (run.small) return {{"ResNet-20", "resnet20", 64}};
  return {{"VGG-16", "vgg16", 256},         {"VGG-19", "vgg19", 256},
          {"VGG-101", "vgg101", 128},       {"ResNet-34", "resnet34", 256},
          {"ResNet-152", "resnet152", 256}, {"FCN", "fcn8s", 128, kFcnImage}};
}

std::string TitleOf(const Net& net) { return absl::StrCat(net.name, ", batch ", net.batch); }

absl::StatusOr<Graph> BuildAt(const Net& net, int64_t images) {
  return nets::Build(net.known, {.batch = images, .image = net.image});
}

ProgramOptions Lowering() { return {.optimizer = {.momentum = 0}}; }

absl::StatusOr<ModnnMemory> MemoryAt(const Net& net, int64_t images, const PlanTarget& target) {
  ASSIGN_OR_RETURN(const Graph graph, BuildAt(net, images));
  ASSIGN_OR_RETURN(const Program program, Lower(graph, Lowering(), target.description));
  ASSIGN_OR_RETURN(const EngineTable engines,
                   EngineTable::List(program, target.kernels, /*strict=*/false, target.description,
                                     target.engines()));
  const EngineTable table = engines.For(ProgramOrder(program));
  std::vector<int64_t> workspaces(program.steps.size(), 0);
  for (const Step& step : program.steps)
    workspaces[step.id.index()] =
        table.Of({.step = step.id}).configurations.front().workspace_bytes;
  return ModnnMemoryOf(program, workspaces);
}

absl::StatusOr<int64_t> SelectedImages(const Net& net, int64_t budget_bytes,
                                       const PlanTarget& target) {
  const auto profile = [&](int64_t images) { return MemoryAt(net, images, target); };
  ASSIGN_OR_RETURN(const ModnnSubBatch selected, SelectSubBatch(net.batch, budget_bytes, profile));
  const int64_t rounds = (net.batch + selected.images - 1) / selected.images;
  return (net.batch + rounds - 1) / rounds;
}

absl::StatusOr<std::optional<Rounds>> PlanRounds(const Net& net, int64_t images,
                                                 const PlannerOptions& options,
                                                 const PlanTarget& target) {
  ASSIGN_OR_RETURN(const Graph graph, BuildAt(net, images));
  ASSIGN_OR_RETURN(const std::optional<Planned> planned,
                   PlanIfItFits(graph, Lowering(), options, target));
  if (!planned.has_value()) return std::nullopt;
  const Plan& plan = planned->result.plan;
  const Movement movement = TotalMovement(plan);
  Rounds rounds = {
      .images = images, .rounds = (net.batch + images - 1) / images, .peak_bytes = plan.peak_bytes};
  const auto count = static_cast<double>(rounds.rounds);
  rounds.seconds = count * plan.predicted_ms / 1e3;
  rounds.moved_bytes =
      count * static_cast<double>(movement.offloaded_bytes + movement.prefetched_bytes);
  return rounds;
}

absl::StatusOr<Rounds> Ideal(const Net& net, const PlanTarget& target) {
  ASSIGN_OR_RETURN(const std::optional<Rounds> rounds,
                   PlanRounds(net, net.batch, {.policy = "liveness"}, target));
  if (!rounds.has_value()) return absl::InternalError("a plan without a budget does not fit");
  return *rounds;
}

absl::StatusOr<std::optional<Rounds>> Vdnn(const Net& net, int64_t images, int64_t budget_bytes,
                                           const PlanTarget& target) {
  std::optional<Rounds> fastest;
  for (const char* policy : {"liveness", "vdnn-conv", "vdnn-all"}) {
    ASSIGN_OR_RETURN(
        const std::optional<Rounds> rounds,
        PlanRounds(net, images, {.budget_bytes = budget_bytes, .policy = policy}, target));
    if (!rounds.has_value()) continue;
    if (!fastest.has_value() || rounds->seconds < fastest->seconds) fastest = rounds;
  }
  return fastest;
}

}  // namespace neap::apps::modnn

namespace neap::apps {

std::vector<PaperItem> ModnnItems() {
  const std::string paper = "moDNN";
  const PaperNeeds planned = PaperNeeds::kNothing;
  return {
      {"modnn-fig9", paper, "Figure 9", "memory of the ideal case and the lower bound", planned,
       modnn::Figure9},
      {"modnn-fig10", paper, "Figure 10", "time of moDNN and vDNN in 12 GB", planned,
       modnn::Figure10},
      {"modnn-fig11", paper, "Figure 11", "bytes moved by moDNN and vDNN in 12 GB", planned,
       modnn::Figure11},
      {"modnn-fig12", paper, "Figure 12", "time of moDNN and vDNN+ in smaller budgets", planned,
       modnn::Figure12},
      {"modnn-fig13", paper, "Figure 13", "memory by each technique alone", planned,
       modnn::Figure13},
      {"modnn-fig14", paper, "Figure 14", "time by each technique alone", planned, modnn::Figure14},
      {"modnn-fig17", paper, "Figure 17", "speedup on four GPUs", planned, modnn::Figure17},
      {"modnn-fig18", paper, "Figure 18", "speedup on four GPUs with 6 and 3 GB each", planned,
       modnn::Figure18},
      {"modnn-fig19", paper, "Figure 19", "four GPUs with 3 GB each against one with 12 GB",
       planned, modnn::Figure19}};
}

}  // namespace neap::apps
