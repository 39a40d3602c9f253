// The items of SuperNeurons (Wang et al., "SuperNeurons: Dynamic GPU Memory Management for Training
// Deep Neural Networks", PPoPP 2018).
//
//   ASSIGN_OR_RETURN(const PaperReport report, Table1({.small = true}));
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "apps/paper/paper_item.h"
#include "neap/core/base/units.h"

namespace neap::apps::superneurons {

// The memory of the paper's K40c.
inline constexpr int64_t kBudget = 12 * kGiB;

// superneurons_memory.cc: what a plan alone shows.
absl::StatusOr<PaperReport> Table1(const PaperRun& run);
absl::StatusOr<PaperReport> Figure8(const PaperRun& run);
absl::StatusOr<PaperReport> Figure10(const PaperRun& run);

// superneurons_sizes.cc: how large networks can be.
absl::StatusOr<PaperReport> Table4(const PaperRun& run);
absl::StatusOr<PaperReport> Table5(const PaperRun& run);
absl::StatusOr<PaperReport> Figure13(const PaperRun& run);

// superneurons_speed.cc: what moves, and how fast it is.
absl::StatusOr<PaperReport> Table2(const PaperRun& run);
absl::StatusOr<PaperReport> Table3(const PaperRun& run);
absl::StatusOr<PaperReport> Figure2(const PaperRun& run);
absl::StatusOr<PaperReport> Figure11(const PaperRun& run);
absl::StatusOr<PaperReport> Figure12(const PaperRun& run);
absl::StatusOr<PaperReport> Figure14(const PaperRun& run);

}  // namespace neap::apps::superneurons
