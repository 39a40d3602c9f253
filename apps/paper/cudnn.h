// The items of the cuDNN paper (Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning",
// 2014, sections 3.2 and 4).
//
//   ASSIGN_OR_RETURN(const PaperReport table, cudnn::Table3({.device = "cuda:0"}));
#pragma once

#include "absl/status/statusor.h"
#include "apps/paper/paper_item.h"

namespace neap::apps::cudnn {

absl::StatusOr<PaperReport> Figure2(const PaperRun& run);
absl::StatusOr<PaperReport> Table2(const PaperRun& run);
absl::StatusOr<PaperReport> Table3(const PaperRun& run);
absl::StatusOr<PaperReport> Table4(const PaperRun& run);

}  // namespace neap::apps::cudnn
