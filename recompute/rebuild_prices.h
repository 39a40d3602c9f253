// The prices of rebuilding results, and of moving them to the host and back.
#pragma once

#include <limits>
#include <vector>

namespace neap {

struct RebuildPrices {
  std::vector<double> run_seconds;  // by StepId: of the first run
  // By StepId; those of backward steps do not count.
  std::vector<double> rerun_seconds;  // of one rerun; infinite for a step that is not rerun
  // The time by which the first run takes longer if the step is rerun, however often: all of its
  // runs have the same engine.
  std::vector<double> first_run_seconds;
  // To the host, and as much back again; infinite if nothing is moved.
  double copy_seconds_per_byte = std::numeric_limits<double>::infinity();
  double slowdown_by_copies_out = 0;  // as in DeviceDescription
  double slowdown_by_copies_back = 0;
};

}  // namespace neap
