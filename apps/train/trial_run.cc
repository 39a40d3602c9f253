#include "apps/train/trial_run.h"

#include <memory>
#include <utility>

#include "apps/train/batch_source.h"
#include "apps/train/training_loop.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/memory/create_session.h"

namespace neap::apps {
namespace {

absl::StatusOr<Batch> SyntheticBatch(const Program& program) {
  ASSIGN_OR_RETURN(const NetInput input, InputOf(program));
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                   OpenDataset("synthetic", {.shape = input.image,
                                             .label_pixels = input.labels > 1,
                                             .tokens = input.reads_tokens,
                                             .classes = input.classes,
                                             .size = input.batch}));
  return BatchOfStep(*dataset, {.batch = input.batch, .shuffle = false}, 0);
}

}  // namespace

absl::StatusOr<TrialRun> RunTrial(const Graph& graph, Device& device, const PlannerOptions& options,
                                  int64_t steps, const Optimizer& optimizer) {
  ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
  // Any other rate may diverge.
  const TrainingOptions steady = {.optimizer = optimizer, .learning_rate = {.base = 0}};
  ASSIGN_OR_RETURN(Session session, CreateSession(graph, device, options, steady));
  ASSIGN_OR_RETURN(Batch batch, SyntheticBatch(program));
  RepeatedBatch batches(std::move(batch));
  ASSIGN_OR_RETURN(const TrainingEnd end,
                   Train(session, batches, {.last_step = steps},
                         [](const StepResult& /*result*/, const StepTimes& /*times*/) {}));
  const double seconds = end.times.MedianSeconds();
  const auto images = static_cast<double>(program.net.batch);
  return TrialRun{.batch = program.net.batch,
                  .steps = end.steps,
                  .images_per_second = seconds > 0 ? images / seconds : 0,
                  .memory = session.memory()};
}

}  // namespace neap::apps
