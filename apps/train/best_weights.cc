#include "apps/train/best_weights.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/output.h"
#include "apps/train/averages.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap::apps {
namespace {

constexpr const char* kValidationKey = "neap.validation";

}  // namespace

absl::Status BestWeights::Continue() {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(path_);
  if (absl::IsNotFound(reader.status())) return absl::OkStatus();
  RETURN_IF_ERROR(reader.status());
  const auto found = reader->metadata().find(kValidationKey);
  if (found == reader->metadata().end()) return absl::OkStatus();
  const Json json = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  const auto number = [&json](const char* key) {
    return json.is_object() && json.contains(key) && json.at(key).is_number();
  };
  if (!number("accuracy") || !number("loss"))
    return absl::DataLossError(absl::StrCat(path_, ": the metadata have no valid validation"));
  const double accuracy = json.at("accuracy");
  best_ = {.accuracy = accuracy,
           .score = number("score") ? json.at("score").get<double>() : accuracy,
           .loss = json.at("loss")};
  return absl::OkStatus();
}

bool BestWeights::IsBetter(const Accuracy& validation) const {
  if (!std::isfinite(validation.loss)) return false;
  if (!best_.has_value() || validation.score() > best_->score) return true;
  return validation.score() == best_->score && validation.loss < best_->loss;
}

absl::StatusOr<bool> BestWeights::Offer(const Accuracy& validation, const FileMetadata& metadata,
                                        Session& session, Communicator* communicator) {
  bool is_best = IsBetter(validation);
  if (communicator != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<std::string> ranks,
                     communicator->Exchange(is_best ? "best" : ""));
    is_best = ranks.front() == "best";
  }
  if (!is_best) return false;
  best_ = {.accuracy = validation.fraction(), .score = validation.score(), .loss = validation.loss};
  const absl::Status saved = Save(metadata, session, communicator);
  if (communicator != nullptr) {  // the others must not take rank 0 for dead meanwhile
    RETURN_IF_ERROR(communicator->Exchange("saved", Communicator::Patience::kForFiles).status());
  }
  RETURN_IF_ERROR(saved);
  return true;
}

absl::Status BestWeights::Save(const FileMetadata& metadata, Session& session,
                               const Communicator* communicator) const {
  const bool writes = communicator == nullptr || communicator->rank() == 0;
  if (!writes && !session.is_sharded()) return absl::OkStatus();
  FileMetadata with_validation = metadata;
  with_validation[kValidationKey] = Json{
      {"accuracy", best_->accuracy},
      {"score", best_->score},
      {"loss", best_->loss},
      {"step", session.step()}}.dump();
  session.SetMetadata(with_validation);
  const absl::Status saved =
      WithAverages(session, [&] { return session.SaveWeights(path_, dtype_); });
  session.SetMetadata(metadata);
  return saved;
}

}  // namespace neap::apps
