// Reads the plan file: Plan::FromJson.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/json_fields.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/plan.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFile[] = "plan";  // errors begin with it

absl::StatusOr<Region> ReadRegion(const Json& json, const std::string& where) {
  JsonFields fields(json, kFile, where);
  const Region region = {fields.Integer("offset"), fields.Integer("bytes")};
  RETURN_IF_ERROR(fields.Finish());
  return region;
}

absl::StatusOr<PlanTensor> ReadTensor(const Json& json, const std::string& where) {
  JsonFields fields(json, kFile, where);
  const std::vector<int64_t> dims = fields.Integers("shape");
  PlanTensor tensor = {.id = TensorId(fields.Index("id")),
                       .name = fields.Text("name"),
                       .role = fields.Named("role", ParseRole),
                       .shape = Shape({dims.begin(), dims.end()}),
                       .dtype = fields.Named("dtype", ParseDType),
                       .bytes = fields.Integer("bytes"),
                       .host_offset = fields.OptionalInteger("host_offset"),
                       .is_external = fields.Has("external", true),
                       .own = fields.OptionalSlice("own")};
  RETURN_IF_ERROR(fields.Finish());
  return tensor;
}

absl::StatusOr<PlanStep> ReadStep(const Json& json, const std::string& where) {
  JsonFields fields(json, kFile, where);
  PlanStep step = {.id = StepId(fields.Index("id")),
                   .layer = fields.Text("layer"),
                   .type = fields.Text("type"),
                   .phase = fields.Named("phase", ParsePhase),
                   .reads = fields.Ids("reads"),
                   .writes = fields.Ids("writes"),
                   .accumulates = fields.Ids("accumulates"),
                   .rerun_reads = fields.Ids("rerun_reads"),
                   .in_place = fields.Pairs("in_place"),
                   .slices = fields.SlicesUnlessEmpty("slices")};
  RETURN_IF_ERROR(fields.Finish());
  return step;
}

absl::StatusOr<ComputeAction> ReadCompute(JsonFields& fields, const std::string& where) {
  ComputeAction action = {.step = StepId(fields.Index("step")),
                          .recompute = fields.Boolean("recompute")};
  static const Json none = nullptr;
  const Json& engines = fields.NullOr("engines", &Json::is_array, none);
  if (engines.is_array() && engines.empty())
    fields.Fail("engines is empty; a step without a choice of engines has null");
  for (const Json& json : engines.is_array() ? engines : Json::array()) {
    JsonFields engine(json, kFile, absl::StrCat(where, ".engines"));
    action.engines.push_back(
        {engine.Text("engine"), engine.Integer("batch"), engine.Has("adds", true)});
    RETURN_IF_ERROR(engine.Finish());
  }
  const Json& workspace = fields.NullOr("workspace", &Json::is_object, none);
  if (workspace.is_object()) {
    ASSIGN_OR_RETURN(action.workspace, ReadRegion(workspace, absl::StrCat(where, ".workspace")));
  }
  RETURN_IF_ERROR(fields.Finish());
  return action;
}

absl::StatusOr<Action> ReadAction(const Json& json, const std::string& where) {
  JsonFields fields(json, kFile, where);
  const std::string op = fields.Text("op");
  if (op == "compute") return ReadCompute(fields, where);
  Action action;
  if (op == "wait") {
    action = WaitAction{fields.Named("stream", ParseStream), fields.Integer("on")};
  } else if (op == "collective") {
    action = CollectiveAction{StepId(fields.Index("step"))};
  } else {
    const TensorId tensor(fields.Index("tensor"));
    if (op == "alloc") {
      action = AllocAction{tensor, {fields.Integer("offset"), fields.Integer("bytes")}};
    } else if (op == "free") {
      action = FreeAction{tensor};
    } else if (op == "offload") {
      action = OffloadAction{tensor, fields.Has("pool", "peer") ? Pool::kPeer : Pool::kHost,
                             fields.Integer("offset")};
    } else if (op == "prefetch") {
      action = PrefetchAction{tensor};
    } else {
      fields.Fail(absl::StrCat("unknown op '", op, "'"));
    }
  }
  RETURN_IF_ERROR(fields.Finish());
  return action;
}

// Checks that the plan's ids can be used as indices.
class IdCheck {
 public:
  explicit IdCheck(const Plan& plan) : plan_(plan) {}

  absl::Status Run() {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (plan_.tensors[i].id.index() != i) Fail("tensors", i);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (step.id.index() != i) Fail("steps", i);
      for (const auto* ids : {&step.reads, &step.writes, &step.accumulates, &step.rerun_reads}) {
        for (TensorId id : *ids) Check(id, "steps", i);
      }
      for (const auto& [written, read] : step.in_place) {
        Check(written, "steps", i);
        Check(read, "steps", i);
      }
      for (const auto& [tensor, slice] : step.slices) Check(tensor, "steps", i);
    }
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      std::visit([&](const auto& action) { CheckAction(action, i); }, plan_.actions[i]);
    }
    return status_;
  }

 private:
  template <typename T>
  void CheckAction(const T& action, size_t i) {
    Check(action.tensor, "actions", i);
  }
  void CheckAction(const ComputeAction& action, size_t i) { CheckStep(action.step, i); }
  void CheckAction(const CollectiveAction& action, size_t i) { CheckStep(action.step, i); }
  void CheckAction(const WaitAction& /*wait*/, size_t /*i*/) {}
  void CheckStep(StepId step, size_t i) {
    if (step.index() >= plan_.steps.size()) Fail("actions", i);
  }
  void Check(TensorId id, const char* where, size_t i) {
    if (id.index() >= plan_.tensors.size()) Fail(where, i);
  }
  void Fail(const char* where, size_t i) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("plan: ", where, "[", i, "]: an id is not the position of what it names"));
  }

  const Plan& plan_;
  absl::Status status_;
};

// Checks that sums of sizes, in whole blocks, over all tensors and actions cannot overflow
// (core/plan/plan_memory.h relies on it).
absl::Status CheckSums(const Plan& plan) {
  int64_t largest = std::max(kBlockBytes, std::abs(IncomingBytes(plan)));
  for (const PlanTensor& tensor : plan.tensors)
    largest = std::max(largest, std::abs(tensor.bytes) + kBlockBytes);
  for (const Action& action : plan.actions) {
    if (const auto* alloc = std::get_if<AllocAction>(&action)) {
      largest = std::max(largest, std::abs(alloc->region.bytes));
    } else if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      largest = std::max(largest, std::abs(compute->workspace.value_or(Region{}).bytes));
    }
  }
  const auto count = static_cast<int64_t>(plan.tensors.size() + plan.actions.size() + 1);
  if (largest <= kMaxBytes / count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan: its ", count, " tensors and actions have sizes of up to ", largest,
                   " bytes, the sum of which may exceed 2^60"));
}

// Errors: the format is another one, or is missing.
absl::Status CheckFormat(JsonFields& fields) {
  const int64_t format = fields.Integer("neap_plan");
  RETURN_IF_ERROR(fields.status());
  if (format == kPlanFormat) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: this file is plan format ", format,
                                                 "; this version reads format ", kPlanFormat,
                                                 ": plan again"));
}

template <typename T>
absl::Status ReadAll(JsonFields& fields, const char* key,
                     absl::StatusOr<T> (*read)(const Json&, const std::string&),
                     std::vector<T>& out) {
  for (const Json& json : fields.Array(key)) {
    ASSIGN_OR_RETURN(T item, read(json, absl::StrCat(key, "[", out.size(), "]")));
    out.push_back(std::move(item));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> Plan::FromJson(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text, kFile));
  JsonFields fields(json, kFile, "the plan");
  RETURN_IF_ERROR(CheckFormat(fields));
  Plan plan = {.net = fields.Text("net"),
               .batch = fields.Integer("batch"),
               .sub_batches = fields.IntegerUnless(1, "sub_batches"),
               .batch_norm_in_parts = fields.Has("batch_norm_in_parts", true),
               .dtype = fields.Named("dtype", ParseDType),
               .layout = fields.Named("layout", ParseLayout),
               .policy = fields.Text("policy"),
               .device = fields.Text("device"),
               .device_kind = fields.TextUnlessEmpty("device_kind"),
               .budget_bytes = fields.Integer("budget_bytes"),
               .arena_bytes = fields.Integer("arena_bytes"),
               .peak_bytes = fields.Integer("peak_bytes"),
               .peak_activation_bytes = fields.Integer("peak_activation_bytes"),
               .host_peak_bytes = fields.Integer("host_peak_bytes"),
               .peer_peak_bytes = fields.IntegerUnless(0, "peer_peak_bytes"),
               .host_pool_bytes = fields.Integer("host_pool_bytes"),
               .peer_pool_bytes = fields.IntegerUnless(0, "peer_pool_bytes"),
               .host_resident_bytes = fields.IntegerUnless(0, "host_resident_bytes"),
               .predicted_ms = fields.Number("predicted_ms")};
  RETURN_IF_ERROR(fields.status());
  if (const Json* incoming = fields.Find("incoming_batch")) {
    ASSIGN_OR_RETURN(plan.incoming_batch, ReadRegion(*incoming, "incoming_batch"));
  }
  RETURN_IF_ERROR(ReadAll(fields, "tensors", ReadTensor, plan.tensors));
  RETURN_IF_ERROR(ReadAll(fields, "steps", ReadStep, plan.steps));
  RETURN_IF_ERROR(ReadAll(fields, "actions", ReadAction, plan.actions));
  RETURN_IF_ERROR(fields.Finish());
  RETURN_IF_ERROR(IdCheck(plan).Run());
  RETURN_IF_ERROR(CheckSums(plan));
  return plan;
}

}  // namespace neap
