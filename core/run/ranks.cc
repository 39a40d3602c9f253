#include "neap/core/run/ranks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/reduce_gradients.h"

namespace neap {
namespace {

using Json = nlohmann::json;

std::string Stand(const absl::Status& own, const Terms& terms) {
  const Json json = {{"code", static_cast<int>(own.code())},
                     {"of_another", IsOfAnotherRank(own)},
                     {"message", std::string(own.message())},
                     {"terms", terms}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr char kOfAnotherRank[] = "neap/of-another-rank";

absl::Status OfAnotherRank(absl::Status error) {
  error.SetPayload(kOfAnotherRank, absl::Cord());
  return error;
}

absl::StatusOr<std::vector<Json>> Parse(const std::vector<std::string>& texts) {
  std::vector<Json> stands;
  for (const std::string& text : texts) {
    stands.push_back(Json::parse(text, nullptr, /*allow_exceptions=*/false));
    const Json& stand = stands.back();
    if (stand.is_object() && stand.contains("code") && stand.contains("terms") &&
        stand.contains("of_another"))
      continue;
    return absl::InternalError(
        absl::StrCat("rank ", stands.size() - 1, " does not call the same functions as this one"));
  }
  return stands;
}

// The first rank with an error, one of its own that is not ABORTED if there is any.
std::optional<size_t> Failed(const std::vector<Json>& stands) {
  std::optional<size_t> other;
  for (size_t rank = 0; rank < stands.size(); ++rank) {
    const auto code = static_cast<absl::StatusCode>(stands[rank].at("code").get<int>());
    if (code == absl::StatusCode::kOk) continue;
    if (code != absl::StatusCode::kAborted && !stands[rank].at("of_another")) return rank;
    if (!other.has_value()) other = rank;
  }
  return other;
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

absl::StatusOr<RankShare> ShareOf(int64_t batch, TextExchange* group) {
  if (group == nullptr || group->ranks() == 1) return RankShare{};
  ASSIGN_OR_RETURN(const std::vector<std::string> batches, group->Exchange(absl::StrCat(batch)));
  RankShare share = {.rank = group->rank(), .ranks = group->ranks()};
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
  const Optimizer& optimizer = program.options.optimizer;
  return {{"seed", absl::StrCat(seed)},
          {"learning rate", ToString(rate)},
          {"optimizer",
           absl::StrFormat("rule %d momentum %.9g nesterov %d beta1 %.9g beta2 %.9g epsilon %.9g "
                           "weight decay %.9g clip norm %.9g average decay %.9g",
                           static_cast<int>(optimizer.rule), optimizer.momentum,
                           static_cast<int>(optimizer.nesterov), optimizer.beta1, optimizer.beta2,
                           optimizer.epsilon, optimizer.weight_decay, optimizer.clip_norm,
                           optimizer.average_decay)},
          {"sharding of the optimizer", program.options.shard.ranks > 1 ? "on" : "off"},
          {"gradients", absl::StrFormat("%016x", HashOfCollectives(program))}};
}

Terms TermsOf(const LoadedCheckpoint& loaded) {
  const TrainingPosition position = loaded.position.value_or(TrainingPosition{});
  uint64_t hash = 0;
  for (const auto& [id, values] : loaded.tensors) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                 values.size() * sizeof(float));
    hash = StableHash(absl::StrCat(hash, id.value, StableHash(bytes)));
  }
  return {{"step in the file", absl::StrCat(position.step)},
          {"seed in the file", absl::StrCat(position.seed)},
          {"learning rate in the file", position.learning_rate},
          {"values in the file", absl::StrFormat("%016x", hash)}};
}

absl::Status Agree(const absl::Status& own, const Terms& terms, TextExchange* group) {
  if (group == nullptr || group->ranks() == 1) return own;
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   group->Exchange(Stand(own, terms), TextExchange::Patience::kForFiles));
  ASSIGN_OR_RETURN(const std::vector<Json> stands, Parse(texts));
  const auto this_rank = static_cast<size_t>(group->rank());
  if (const std::optional<size_t> failed = Failed(stands)) {
    if (*failed == this_rank) return own;
    const Json& stand = stands[*failed];
    return OfAnotherRank(
        absl::Status(static_cast<absl::StatusCode>(stand.at("code").get<int>()),
                     absl::StrCat("rank ", *failed, ": ", stand.at("message").get<std::string>())));
  }
  const auto of_first = stands[0].at("terms").get<Terms>();
  for (size_t rank = 1; rank < stands.size(); ++rank) {
    const absl::Status same = CheckSame(of_first, stands[rank].at("terms").get<Terms>(), rank);
    if (!same.ok()) return this_rank == 0 ? same : OfAnotherRank(same);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> OfFirstRank(int64_t own, TextExchange* group) {
  if (group == nullptr || group->ranks() == 1) return own;
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, group->Exchange(absl::StrCat(own)));
  int64_t first = 0;
  if (absl::SimpleAtoi(texts[0], &first)) return first;
  return absl::InternalError("rank 0 does not call the same functions as this one");
}

absl::StatusOr<bool> OnAllRanks(bool own, TextExchange* group) {
  if (group == nullptr || group->ranks() == 1) return own;
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   group->Exchange(own ? "1" : "0", TextExchange::Patience::kForFiles));
  bool all = true;
  for (const std::string& text : texts) {
    if (text != "0" && text != "1")
      return absl::InternalError("a rank does not call the same functions as this one");
    all = all && text == "1";
  }
  return all;
}

bool IsOfAnotherRank(const absl::Status& error) {
  return error.GetPayload(kOfAnotherRank).has_value();
}

}  // namespace neap
