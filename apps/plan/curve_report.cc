#include "apps/plan/curve_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

// The largest unit in which the smallest budget is at least 1.
std::pair<int64_t, const char*> UnitOf(const SpeedCurve& curve) {
  for (const auto& [bytes, name] : {std::pair(kGiB, "GiB"), {kMiB, "MiB"}}) {
    if (curve.budgets.front() >= bytes) return {bytes, name};
  }
  return {kKiB, "KiB"};
}

std::string SpeedText(const std::optional<SpeedPoint>& point) {
  if (!point.has_value()) return "-";
  const double speed = point->images_per_second;
  return absl::StrFormat("%.*f", speed >= 1000 ? 0 : speed >= 100 ? 1 : 2, speed);
}

Json PointJson(int64_t budget, const std::optional<SpeedPoint>& point) {
  Json json = {{"budget_bytes", budget}};
  json["peak_bytes"] = point.has_value() ? Json(point->peak_bytes) : Json();
  json["predicted_ms"] = point.has_value() ? Json(point->predicted_ms) : Json();
  json["batch_copy_ms"] = point.has_value() ? Json(point->batch_copy_ms) : Json();
  json["images_per_second"] = point.has_value() ? Json(point->images_per_second) : Json();
  return json;
}

Json PolicyJson(const SpeedCurve& curve, const PolicyCurve& policy) {
  Json points = Json::array();
  for (size_t i = 0; i < curve.budgets.size(); ++i)
    points.push_back(PointJson(curve.budgets[i], policy.points[i]));
  return {{"policy", policy.policy},
          {"minimum_budget_bytes", policy.minimum_budget_bytes},
          {"points", std::move(points)}};
}

}  // namespace

std::string ToText(const SpeedCurve& curve, const GraphOptions& net) {
  const auto [unit, unit_name] = UnitOf(curve);
  std::string text =
      absl::StrFormat("predicted images/s of %s at batch %d, %s %s, on %s\n", net.name, net.batch,
                      Name(net.dtype), Name(net.layout), curve.device);
  absl::StrAppendFormat(&text, "  natural peak %s\n", FormatBytes(curve.natural_peak_bytes));
  if (!curve.measured_with.empty())
    absl::StrAppendFormat(&text, "  kernel times measured with %s\n", curve.measured_with);
  if (!curve.placeholder_engines.empty())
    absl::StrAppendFormat(&text, "  engines are %s\n", curve.placeholder_engines);
  absl::StrAppendFormat(&text, "  %-16s", absl::StrCat("budget, ", unit_name));
  for (const int64_t budget : curve.budgets) {
    absl::StrAppendFormat(&text, " %7.10g",
                          static_cast<double>(budget) / static_cast<double>(unit));
  }
  for (const PolicyCurve& policy : curve.policies) {
    absl::StrAppendFormat(&text, "\n  %-16s", policy.policy);
    for (const auto& point : policy.points) absl::StrAppendFormat(&text, " %7s", SpeedText(point));
  }
  return text + "\n";
}

Json ToJson(const SpeedCurve& curve, const GraphOptions& net) {
  Json policies = Json::array();
  for (const PolicyCurve& policy : curve.policies) policies.push_back(PolicyJson(curve, policy));
  return {{"net", net.name},
          {"batch", net.batch},
          {"dtype", Name(net.dtype)},
          {"layout", Name(net.layout)},
          {"device", curve.device},
          {"natural_peak_bytes", curve.natural_peak_bytes},
          {"measured_with", curve.measured_with.empty() ? Json() : Json(curve.measured_with)},
          {"engines_known", curve.placeholder_engines.empty()},
          {"verified", true},
          {"budgets_bytes", curve.budgets},
          {"policies", std::move(policies)}};
}

}  // namespace neap::apps
