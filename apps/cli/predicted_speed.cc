#include "apps/cli/predicted_speed.h"

namespace neap::apps {

double PredictedImagesPerSecond(const PlanResult& result) {
  const Plan& plan = result.plan;
  return 1e3 * static_cast<double>(plan.batch) / (result.stats.batch_copy_ms + plan.predicted_ms);
}

}  // namespace neap::apps
