#include "neap/core/run/ranks.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/reduce_gradients.h"

namespace neap {
namespace {

using Json = nlohmann::json;

std::string Stand(const absl::Status& own, const Terms& terms) {
  const Json json = {{"code", static_cast<int>(own.code())},
                     {"message", std::string(own.message())},
                     {"terms", terms}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status StatusOf(const Json& stand, size_t rank) {
  const auto code = static_cast<absl::StatusCode>(stand.at("code").get<int>());
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  return absl::Status(code,
                      absl::StrCat("rank ", rank, ": ", stand.at("message").get<std::string>()));
}

absl::Status CheckSame(const Terms& terms, const Terms& other, size_t rank) {
  for (size_t i = 0; i < terms.size(); ++i) {
    if (i < other.size() && terms[i] == other[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("rank %d and rank 0 differ in their %s: %s and %s", rank, terms[i].first,
                        i < other.size() ? other[i].second : "none", terms[i].second));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankShare> ShareOf(int64_t batch, Communicator* communicator) {
  if (communicator == nullptr || communicator->ranks() == 1) return RankShare{};
  ASSIGN_OR_RETURN(const std::vector<std::string> batches,
                   communicator->Exchange(absl::StrCat(batch)));
  RankShare share = {.rank = communicator->rank(), .ranks = communicator->ranks()};
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    int64_t images = 0;
    if (!absl::SimpleAtoi(batches[rank], &images) || images < 1)
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " has no images"));
    if (static_cast<int>(rank) < share.rank) share.first_image += images;
    share.all_images += images;
  }
  return share;
}

Terms TermsOf(const Program& program, const LearningRate& rate, uint64_t seed) {
  const Sgd& sgd = program.options.sgd;
  return {{"seed", absl::StrCat(seed)},
          {"learning rate", absl::StrCat(rate.base, " warmup ", rate.warmup_steps, " decay ",
                                         static_cast<int>(rate.decay), " period ",
                                         rate.period_steps, " factor ", rate.factor)},
          {"momentum and weight decay", absl::StrCat(sgd.momentum, " ", sgd.weight_decay)},
          {"gradients", absl::StrFormat("%016x", HashOfCollectives(program))}};
}

absl::Status Agree(const absl::Status& own, const Terms& terms, Communicator* communicator) {
  if (communicator == nullptr || communicator->ranks() == 1) return own;
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, communicator->Exchange(Stand(own, terms)));
  RETURN_IF_ERROR(own);
  std::vector<Json> stands;
  for (const std::string& text : texts) stands.push_back(Json::parse(text));
  for (size_t rank = 0; rank < stands.size(); ++rank) RETURN_IF_ERROR(StatusOf(stands[rank], rank));
  const auto of_first = stands[0].at("terms").get<Terms>();
  for (size_t rank = 1; rank < stands.size(); ++rank)
    RETURN_IF_ERROR(CheckSame(of_first, stands[rank].at("terms").get<Terms>(), rank));
  return absl::OkStatus();
}

}  // namespace neap
