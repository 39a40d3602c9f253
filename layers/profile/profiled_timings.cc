#include "neap/layers/profile/profiled_timings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/step/signature_text.h"

namespace neap {

std::string SumOperation(int ranks) { return absl::StrCat("all_reduce over ", ranks, " ranks"); }

const ProfiledTimings::Known* ProfiledTimings::Find(const std::string& operation) const {
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(operation); known != known_.end()) return &known->second;
  const size_t notices = database_.notices().size();
  const absl::StatusOr<std::vector<Measurement>> rows = database_.Measurements(operation);
  absl::Status error = rows.status();
  if (error.ok() && database_.notices().size() > notices)
    error = absl::DataLossError(database_.notices().back());
  if (!error.ok()) {
    if (const OnError on_error = std::exchange(on_error_, nullptr)) on_error(error);
  }
  if (!rows.ok()) return nullptr;
  Known known;
  for (const Measurement& row : *rows) {
    if (row.failed()) {
      known.failed.push_back({row.engine.id, row.batch});
      continue;
    }
    known.engines.push_back(WithTime(row.engine, row.batch, row.median_seconds));
  }
  return &known_.emplace(operation, std::move(known)).first->second;
}

std::vector<TimedEngine> ProfiledTimings::Of(const StepSignature& signature) const {
  const Known* const known = Find(SignatureText(signature));
  if (known == nullptr) return {};
  return known->engines;
}

std::vector<std::string> ProfiledTimings::FailedOn(const StepSignature& signature) const {
  std::vector<std::string> failed;
  const Known* const known = Find(SignatureText(signature));
  if (known == nullptr) return failed;
  for (const EngineUse& use : known->failed) {
    if (use.batch == BatchOf(signature)) failed.push_back(use.engine);
  }
  return failed;
}

std::vector<TimedSum> ProfiledTimings::Sums(int ranks) const {
  std::vector<TimedSum> sums;
  const Known* const known = Find(SumOperation(ranks));
  if (known == nullptr) return sums;
  for (const TimedEngine& engine : known->engines) sums.push_back({engine.batch, engine.seconds});
  return sums;
}

}  // namespace neap
