#include "apps/train/epoch_end.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/train/averages.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {

absl::StatusOr<EpochEnd> EpochEnd::Open(const TrainFlags& flags, const NetInput& input,
                                        const std::vector<std::string>& classes,
                                        BadFiles* bad_files) {
  EpochEnd end(input.batch, flags.batches.reading.workers, bad_files);
  const std::string& data = flags.batches.validation;
  if (data.empty()) return end;
  if (!flags.files.save_best.empty()) {
    ASSIGN_OR_RETURN(const DType dtype, ParseDType(flags.files.weights_dtype));
    end.best_.emplace(flags.files.save_best, dtype);
    if (!flags.files.resume.empty()) RETURN_IF_ERROR(end.best_->Continue());
  }
  const std::string name = absl::StrCat("--val ", data);
  ASSIGN_OR_RETURN(end.validation_,
                   OpenSplit(data, input, Split::kValidation, flags.batches.reading, bad_files));
  end.notes_ = end.validation_->notices();
  ASSIGN_OR_RETURN(MatchedClasses matched, MatchSplit(name, std::move(end.validation_), classes));
  for (std::string& note : AbsentNotes(name, matched)) end.notes_.push_back(std::move(note));
  end.validation_ = std::move(matched.dataset);
  return end;
}

absl::Status EpochEnd::Validate(Session& session, const FileMetadata& metadata,
                                Communicator* communicator, EpochResult& result) {
  if (validation_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(result.validation, WithAverages(session, [&] {
                     return Evaluate(session, *validation_, batch_, communicator, workers_);
                   }));
  result.interrupted = !result.validation.has_value();
  if (result.interrupted || !best_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(result.is_best,
                   best_->Offer(*result.validation, metadata, session, communicator));
  return absl::OkStatus();
}

absl::StatusOr<EpochResult> EpochEnd::Run(Session& session, const FileMetadata& metadata,
                                          Communicator* communicator) {
  EpochResult result = {.step = session.step()};
  result.failure = Validate(session, metadata, communicator, result);
  if (bad_files_ != nullptr) {
    ASSIGN_OR_RETURN(result.bad_files, bad_files_->TakeNew(communicator));
    result.all_bad_files = bad_files_->taken();
  }
  return result;
}

}  // namespace neap::apps
