#include "apps/train/epoch_end.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/train/averages.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/input/image_folder.h"

namespace neap::apps {
namespace {

// With other classes, the numbers of classes would stand for others.
absl::Status CheckSameClasses(const std::string& trained, const std::string& validated) {
  ASSIGN_OR_RETURN(const std::vector<std::string> a, ImageClassesOf(trained));
  ASSIGN_OR_RETURN(const std::vector<std::string> b, ImageClassesOf(validated));
  std::vector<std::string> different;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(),
                                std::back_inserter(different));
  if (different.empty()) return absl::OkStatus();
  const bool is_trained = std::binary_search(a.begin(), a.end(), different.front());
  return absl::InvalidArgumentError(absl::StrCat("--val: ", validated, " has other classes than ",
                                                 trained, ": '", different.front(), "' is only in ",
                                                 is_trained ? trained : validated));
}

}  // namespace

absl::StatusOr<EpochEnd> EpochEnd::Open(const TrainFlags& flags, const NetInput& input,
                                        BadFiles* bad_files) {
  EpochEnd end(input.batch, flags.batches.reading.workers, bad_files);
  const std::string& directory = flags.batches.validation;
  if (directory.empty()) return end;
  if (!flags.files.save_best.empty()) {
    ASSIGN_OR_RETURN(const DType dtype, ParseDType(flags.files.weights_dtype));
    end.best_.emplace(flags.files.save_best, dtype);
    if (!flags.files.resume.empty()) RETURN_IF_ERROR(end.best_->Continue());
  }
  absl::string_view trained = flags.batches.data;
  if (absl::ConsumePrefix(&trained, kImageFolderPrefix))
    RETURN_IF_ERROR(CheckSameClasses(std::string(trained), directory));
  ASSIGN_OR_RETURN(end.validation_, OpenSplit(absl::StrCat(kImageFolderPrefix, directory), input,
                                              Split::kTest, bad_files));
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
