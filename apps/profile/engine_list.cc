#include "apps/profile/engine_list.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/profile_steps.h"

namespace neap::apps {
namespace {

using KernelKey = std::pair<std::string, int64_t>;  // operation and batch

KernelKey KeyOf(const StepSignature& signature) {
  return {SignatureText(signature), BatchOf(signature)};
}

bool HasTime(const ListedEngine& engine) {
  return engine.measured.has_value() && !engine.measured->failed();
}

bool Precedes(const ListedEngine& a, const ListedEngine& b) {
  if (!HasTime(a) || !HasTime(b)) return HasTime(a) && !HasTime(b);
  return a.measured->median_seconds < b.measured->median_seconds;
}

absl::StatusOr<std::vector<ListedEngine>> EnginesOf(const StepSignature& signature,
                                                    const EngineSource& source) {
  std::vector<ListedEngine> listed;
  if (source.catalog != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, source.catalog->Engines(signature));
    for (const Engine& engine : engines)
      listed.push_back({.engine = engine, .place = std::ssize(listed)});
  }
  std::vector<Measurement> rows;
  if (source.database != nullptr) {
    ASSIGN_OR_RETURN(rows, source.database->Measurements(SignatureText(signature)));
  }
  for (const Measurement& row : rows) {
    if (row.batch != BatchOf(signature)) continue;
    if (row.engine.accumulates_in_half && !source.options.half_accumulation) continue;
    auto known = std::find_if(listed.begin(), listed.end(), [&](const ListedEngine& engine) {
      return engine.engine.id == row.engine.id;
    });
    if (known == listed.end())
      known = listed.insert(listed.end(), {.engine = row.engine,
                                           .is_listed = source.catalog == nullptr,
                                           .place = std::ssize(listed)});
    known->measured = row;
  }
  std::stable_sort(listed.begin(), listed.end(), Precedes);
  return listed;
}

// The name of a kernel that belongs to no step: a rerun, or an addition of gradients.
std::string NameOf(const StepSignature& signature) {
  return absl::StrCat(std::string(signature.layer.type()), " ", std::string(Name(signature.phase)),
                      signature.rerun ? " rerun" : "");
}

// The steps that run each kernel.
struct KernelSteps {
  ListedKernel kernel;
  double flops = 0;  // of one of them
};
absl::flat_hash_map<KernelKey, KernelSteps> StepsOf(const Program& program) {
  absl::flat_hash_map<KernelKey, KernelSteps> kernels;
  for (const Step& step : program.steps) {
    const auto [known, is_new] = kernels.try_emplace(
        KeyOf(program.Signature(step)), KernelSteps{{.name = program.StepName(step)}, step.flops});
    if (!is_new) ++known->second.kernel.count;
    const StepSignature rerun = program.Signature(step, /*rerun=*/true);
    kernels.try_emplace(KeyOf(rerun), KernelSteps{{.name = NameOf(rerun)}, step.flops});
  }
  return kernels;
}

std::string Notes(const ListedEngine& engine) {
  if (engine.measured.has_value() && engine.measured->failed())
    return absl::StrCat("failed: ", engine.measured->failure);
  if (!engine.is_listed) return "not among the library's engines";
  return engine.engine.notes.empty() ? kNothing : engine.engine.notes;
}

std::string Row(const ListedEngine& listed) {
  const Engine& engine = listed.engine;
  const bool has_time = HasTime(listed);
  return absl::StrFormat(
      "  %-36s %14s %12s %7s  %-13s  %s\n", engine.id, FormatBytes(engine.workspace_bytes),
      has_time ? absl::StrFormat("%.4f", listed.measured->median_seconds * 1e3) : kNothing,
      has_time ? absl::StrFormat("%.1f%%", listed.measured->spread * 100) : kNothing,
      engine.deterministic ? "yes" : "no", Notes(listed));
}

Json ToJson(const ListedEngine& listed) {
  const bool has_time = HasTime(listed);
  const bool failed = listed.measured.has_value() && listed.measured->failed();
  return {{"engine", listed.engine.id},
          {"workspace_bytes", listed.engine.workspace_bytes},
          {"deterministic", listed.engine.deterministic},
          {"notes", listed.engine.notes},
          {"listed", listed.is_listed},
          {"place", listed.place},
          {"median_ms", has_time ? Json(listed.measured->median_seconds * 1e3) : Json()},
          {"spread", has_time ? Json(listed.measured->spread) : Json()},
          {"failure", failed ? Json(listed.measured->failure) : Json()}};
}

}  // namespace

absl::StatusOr<std::vector<ListedKernel>> ListKernels(absl::Span<const Program> programs,
                                                      const DeviceDescription& device,
                                                      const EngineSource& source) {
  absl::flat_hash_set<KernelKey> seen;
  std::vector<ListedKernel> kernels;
  for (const Program& program : programs) {
    const absl::flat_hash_map<KernelKey, KernelSteps> steps = StepsOf(program);
    for (const StepSignature& signature : KernelsOf(program)) {
      const KernelKey key = KeyOf(signature);
      if (!seen.insert(key).second) continue;
      const auto known = steps.find(key);
      KernelSteps named =
          known != steps.end() ? known->second : KernelSteps{{.name = NameOf(signature)}};
      ListedKernel kernel = std::move(named.kernel);
      kernel.cost = FeaturesOf(signature, named.flops, device);
      kernel.predicted_seconds = PredictSeconds(signature, named.flops, device);
      kernel.operation = key.first;
      kernel.batch = key.second;
      ASSIGN_OR_RETURN(kernel.engines, EnginesOf(signature, source));
      kernels.push_back(std::move(kernel));
    }
  }
  return kernels;
}

std::string ToText(const EngineList& list) {
  std::string text = absl::StrCat(
      "engines of ", list.net, " on ", list.device.name,
      list.device.versions.empty() ? "" : absl::StrCat(" (", list.device.versions, ")"), ", ",
      list.database.empty() ? "no times" : absl::StrCat("times of ", list.database), "\n");
  if (!list.engines_are_known())
    absl::StrAppend(&text, "engines are ", list.placeholder_engines, "\n");
  absl::StrAppend(&text, "\n");
  absl::StrAppendFormat(&text, "  %-36s %14s %12s %7s  %-13s  %s\n", "engine", "workspace", "ms",
                        "spread", "deterministic", "notes");
  for (const ListedKernel& kernel : list.kernels) {
    absl::StrAppend(&text, kernel.name, ", batch ", kernel.batch,
                    kernel.count > 1 ? absl::StrCat(", ", kernel.count, " of them") : "", ": ",
                    kernel.operation, "\n");
    for (const ListedEngine& engine : kernel.engines) text += Row(engine);
    if (kernel.engines.empty()) absl::StrAppend(&text, "  ", kNothing, "\n");
  }
  return text;
}

Json ToJson(const EngineList& list) {
  Json kernels = Json::array();
  for (const ListedKernel& kernel : list.kernels) {
    Json engines = Json::array();
    for (const ListedEngine& engine : kernel.engines) engines.push_back(ToJson(engine));
    kernels.push_back({{"name", kernel.name},
                       {"count", kernel.count},
                       {"batch", kernel.batch},
                       {"operation", kernel.operation},
                       {"kind", kernel.cost.kind},
                       {"group", kernel.cost.group},
                       {"family", kernel.cost.family},
                       {"bound_ms", kernel.cost.bound_seconds * 1e3},
                       {"features", kernel.cost.values},
                       {"predicted_ms", kernel.predicted_seconds * 1e3},
                       {"engines", std::move(engines)}});
  }
  return {{"net", list.net},
          {"device", list.device.name},
          {"versions", list.device.versions},
          {"engines_known", list.engines_are_known()},
          {"database", list.database.empty() ? Json() : Json(list.database)},
          {"kernels", std::move(kernels)}};
}

std::string ToCsv(const EngineList& list) {
  std::string csv =
      "name,count,batch,operation,engine,workspace_bytes,deterministic,notes,median_ms,spread\n";
  for (const ListedKernel& kernel : list.kernels) {
    for (const ListedEngine& listed : kernel.engines) {
      const bool has_time = HasTime(listed);
      absl::StrAppend(
          &csv, CsvField(kernel.name), ",", kernel.count, ",", kernel.batch, ",",
          CsvField(kernel.operation), ",", CsvField(listed.engine.id), ",",
          listed.engine.workspace_bytes, ",", listed.engine.deterministic ? 1 : 0, ",",
          CsvField(Notes(listed)), ",",
          has_time ? absl::StrFormat("%.6f", listed.measured->median_seconds * 1e3) : "", ",",
          has_time ? absl::StrFormat("%.4f", listed.measured->spread) : "", "\n");
    }
  }
  return csv;
}

}  // namespace neap::apps
