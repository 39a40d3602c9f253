// Prices of reruns by the cost model, for tests.
#pragma once

#include "neap/core/plan/cost_model.h"
#include "neap/core/program/program.h"
#include "neap/layers/devices/device_description.h"
#include "neap/recompute/rebuild_prices.h"

namespace neap::testing {

// On an H200. First runs lose nothing, and nothing is moved.
inline RebuildPrices RerunPrices(const Program& program) {
  const DeviceDescription device = DescribedDevice("h200").value();
  RebuildPrices prices;
  for (const Step& step : program.steps) {
    prices.run_seconds.push_back(PredictSeconds(program, step, device));
    prices.rerun_seconds.push_back(PredictSeconds(program, step, device, /*rerun=*/true));
  }
  prices.first_run_seconds.resize(program.steps.size(), 0);
  return prices;
}

}  // namespace neap::testing
