// The parts of a batch, by the names that docs/plan-format.md gives to their layers and tensors.
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {
namespace {

// The images of all parts but the last, as few as suffice.
int64_t ImagesOfEach(const Plan& plan) {
  return plan.batch / plan.sub_batches + (plan.batch % plan.sub_batches == 0 ? 0 : 1);
}

int64_t ImagesOfLast(const Plan& plan) {
  return plan.batch - (plan.sub_batches - 1) * ImagesOfEach(plan);
}

// The part of the batch, from 1, to which a layer or a tensor with this name belongs: 2 for
// "conv1[2/4]", if there are 4 parts.
std::optional<int64_t> PartOf(const Plan& plan, std::string_view name) {
  const size_t bracket = name.rfind('['), slash = name.rfind('/');
  if (bracket == name.npos || slash == name.npos || slash < bracket) return std::nullopt;
  int64_t part = 0;
  std::from_chars(name.data() + bracket + 1, name.data() + slash, part);
  const bool is_part = 1 <= part && part <= plan.sub_batches &&
                       name.substr(bracket) == absl::StrCat("[", part, "/", plan.sub_batches, "]");
  return is_part ? std::optional(part) : std::nullopt;
}

std::optional<int64_t> ImagesOfPart(const Plan& plan, std::string_view name) {
  const std::optional<int64_t> part = PartOf(plan, name);
  if (!part.has_value()) return std::nullopt;
  return *part == plan.sub_batches ? ImagesOfLast(plan) : ImagesOfEach(plan);
}

}  // namespace

absl::Status CheckParts(const Plan& plan, const Site& site) {
  const bool divides =
      plan.sub_batches >= 1 && plan.sub_batches <= plan.batch && ImagesOfLast(plan) >= 1;
  if (!divides) {
    return site.Fault(PlanFault::kHeader, absl::StrFormat("it runs its batch of %d in %d parts",
                                                          plan.batch, plan.sub_batches));
  }
  if (plan.sub_batches > 1) return absl::OkStatus();
  if (!plan.batch_norm_in_parts) return absl::OkStatus();
  return site.Fault(PlanFault::kHeader, "its batch norms have statistics of parts, but it has one");
}

absl::Status CheckPart(const Plan& plan, const Site& site, const PlanTensor& tensor) {
  const bool is_of_batch = tensor.role == Role::kInput || tensor.role == Role::kLabel;
  if (plan.sub_batches == 1 || !is_of_batch || tensor.shape.rank() == 0) return absl::OkStatus();
  const std::optional<int64_t> images = ImagesOfPart(plan, tensor.name);
  if (!images.has_value() || tensor.shape.n() == *images) return absl::OkStatus();
  return site.Fault(PlanFault::kTensor,
                    absl::StrFormat("%s has %d images, but its part of the batch has %d",
                                    site.Describe(tensor.id), tensor.shape.n(), *images));
}

absl::Status CheckPart(const Plan& plan, const Site& site, const PlanStep& step) {
  if (plan.sub_batches == 1 || !IsOfLayer(step.phase)) return absl::OkStatus();
  if (PartOf(plan, step.layer).has_value()) return absl::OkStatus();
  return site.Fault(PlanFault::kStep, absl::StrFormat("%s is of none of the %d parts of the batch",
                                                      site.Describe(step.id), plan.sub_batches));
}

int64_t ImagesOf(const Plan& plan, const PlanStep& step) {
  if (plan.sub_batches == 1) return plan.batch;
  const std::optional<int64_t> images =
      IsOfLayer(step.phase) ? ImagesOfPart(plan, step.layer) : std::nullopt;
  return images.value_or(ImagesOfEach(plan));
}

}  // namespace neap::verifier
