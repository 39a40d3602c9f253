// Reads the plan file: Plan::FromJson.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/plan.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

// The largest number in a plan, and the largest sum of its sizes.
constexpr int64_t kMostBytes = int64_t{1} << 60;

// Reads the fields of one JSON object and keeps the first fault, so callers need not check each
// field.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }

  int64_t Integer(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !IsInteger(*value)) {
      return Fail(absl::StrCat(key, " is not an integer from -2^60 to 2^60")), 0;
    }
    return value->get<int64_t>();
  }
  // nullopt if the object has no such field.
  std::optional<int64_t> OptionalInteger(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) return std::nullopt;
    return Integer(key);
  }
  int32_t Index(const char* key) { return ToIndex(Integer(key), key); }
  double Number(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_number())
      return Fail(absl::StrCat(key, " is not a number")), 0.0;
    return value->get<double>();
  }
  bool Boolean(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_boolean())
      return Fail(absl::StrCat(key, " is not a boolean")), false;
    return value->get<bool>();
  }
  std::string Text(const char* key) {
    const Json* value = Find(key);
    if (value == nullptr || !value->is_string())
      return Fail(absl::StrCat(key, " is not a string")), "";
    return value->get<std::string>();
  }
  template <typename Enum>
  Enum Named(const char* key, absl::StatusOr<Enum> (*parse)(std::string_view)) {
    const absl::StatusOr<Enum> value = parse(Text(key));
    if (!value.ok()) return Fail(std::string(value.status().message())), Enum{};
    return *value;
  }
  const Json& Array(const char* key) {
    static const Json empty = Json::array();
    const Json* value = Find(key);
    if (value == nullptr || !value->is_array())
      return Fail(absl::StrCat(key, " is not an array")), empty;
    return *value;
  }
  // The value, or null if it is null or faulty.
  const Json& NullOr(const char* key, bool (Json::*is_right)() const noexcept, const Json& null) {
    const Json* value = Find(key);
    if (value != nullptr && (value->is_null() || (value->*is_right)())) return *value;
    Fail(absl::StrCat(key, " is missing or of the wrong type"));
    return null;
  }
  std::vector<int64_t> Integers(const char* key) {
    std::vector<int64_t> out;
    for (const Json& item : Array(key)) {
      if (!IsInteger(item)) Fail(absl::StrCat(key, " holds something other than integers"));
      out.push_back(IsInteger(item) ? item.get<int64_t>() : 0);
    }
    return out;
  }
  std::vector<TensorId> Ids(const char* key) {
    std::vector<TensorId> out;
    for (int64_t value : Integers(key)) out.emplace_back(ToIndex(value, key));
    return out;
  }
  std::vector<std::pair<TensorId, TensorId>> Pairs(const char* key) {
    std::vector<std::pair<TensorId, TensorId>> out;
    for (const Json& pair : Array(key)) {
      if (!pair.is_array() || pair.size() != 2 || !IsInteger(pair[0]) || !IsInteger(pair[1])) {
        return Fail(absl::StrCat(key, " holds something other than pairs of integers")), out;
      }
      out.emplace_back(ToIndex(pair[0].get<int64_t>(), key), ToIndex(pair[1].get<int64_t>(), key));
    }
    return out;
  }
  // Whether the object has the field, the value of which must then be `value`.
  bool Has(const char* key, const Json& value) {
    const Json* found = Find(key);
    if (found != nullptr && *found != value) Fail(absl::StrCat(key, " is not ", value.dump()));
    return found != nullptr;
  }
  // A field that is left out if it is empty.
  std::string TextUnlessEmpty(const char* key) {
    if (!object_.is_object() || !object_.contains(key)) return "";
    std::string text = Text(key);
    if (text.empty()) Fail(absl::StrCat(key, " is empty; an empty field must be left out"));
    return text;
  }
  // A field that is left out if it has this value.
  int64_t IntegerUnless(int64_t left_out, const char* key) {
    const std::optional<int64_t> value = OptionalInteger(key);
    if (value == left_out)
      Fail(absl::StrCat(key, " is ", left_out, "; a field of ", left_out, " must be left out"));
    return value.value_or(left_out);
  }
  // Each key must be requested at most once.
  const Json* Find(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    ++found_;
    return &*found;
  }

  void Fail(std::string_view what) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrFormat("plan: %s: %s", where_, what));
  }
  const absl::Status& status() const { return status_; }
  // To be called after all fields have been read: a field that was not requested is a fault.
  absl::Status Finish() {
    if (object_.is_object() && found_ < object_.size()) Fail("has unknown fields");
    return status_;
  }

 private:
  static bool IsInteger(const Json& value) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{kMostBytes};
    return value.get<int64_t>() >= -kMostBytes && value.get<int64_t>() <= kMostBytes;
  }
  int32_t ToIndex(int64_t value, const char* key) {
    if (value >= 0 && value <= std::numeric_limits<int32_t>::max())
      return static_cast<int32_t>(value);
    Fail(absl::StrCat(key, ": ", value, " is not an id"));
    return 0;
  }

  const Json& object_;
  std::string where_;
  size_t found_ = 0;
  absl::Status status_;
};

absl::StatusOr<Region> ReadRegion(const Json& json, const std::string& where) {
  Reader reader(json, where);
  const Region region = {reader.Integer("offset"), reader.Integer("bytes")};
  RETURN_IF_ERROR(reader.Finish());
  return region;
}

absl::StatusOr<PlanTensor> ReadTensor(const Json& json, const std::string& where) {
  Reader reader(json, where);
  const std::vector<int64_t> dims = reader.Integers("shape");
  PlanTensor tensor = {.id = TensorId(reader.Index("id")),
                       .name = reader.Text("name"),
                       .role = reader.Named("role", ParseRole),
                       .shape = Shape({dims.begin(), dims.end()}),
                       .dtype = reader.Named("dtype", ParseDType),
                       .bytes = reader.Integer("bytes"),
                       .host_offset = reader.OptionalInteger("host_offset")};
  RETURN_IF_ERROR(reader.Finish());
  return tensor;
}

absl::StatusOr<PlanStep> ReadStep(const Json& json, const std::string& where) {
  Reader reader(json, where);
  PlanStep step = {.id = StepId(reader.Index("id")),
                   .layer = reader.Text("layer"),
                   .type = reader.Text("type"),
                   .phase = reader.Named("phase", ParsePhase),
                   .reads = reader.Ids("reads"),
                   .writes = reader.Ids("writes"),
                   .accumulates = reader.Ids("accumulates"),
                   .rerun_reads = reader.Ids("rerun_reads"),
                   .in_place = reader.Pairs("in_place")};
  RETURN_IF_ERROR(reader.Finish());
  return step;
}

absl::StatusOr<ComputeAction> ReadCompute(Reader& reader, const std::string& where) {
  ComputeAction action = {.step = StepId(reader.Index("step")),
                          .recompute = reader.Boolean("recompute")};
  static const Json none = nullptr;
  const Json& engines = reader.NullOr("engines", &Json::is_array, none);
  if (engines.is_array() && engines.empty())
    reader.Fail("engines is empty; a step without a choice of engines has null");
  for (const Json& json : engines.is_array() ? engines : Json::array()) {
    Reader engine(json, absl::StrCat(where, ".engines"));
    action.engines.push_back(
        {engine.Text("engine"), engine.Integer("batch"), engine.Has("adds", true)});
    RETURN_IF_ERROR(engine.Finish());
  }
  const Json& workspace = reader.NullOr("workspace", &Json::is_object, none);
  if (workspace.is_object()) {
    ASSIGN_OR_RETURN(action.workspace, ReadRegion(workspace, absl::StrCat(where, ".workspace")));
  }
  RETURN_IF_ERROR(reader.Finish());
  return action;
}

absl::StatusOr<Action> ReadAction(const Json& json, const std::string& where) {
  Reader reader(json, where);
  const std::string op = reader.Text("op");
  if (op == "compute") return ReadCompute(reader, where);
  Action action;
  if (op == "wait") {
    action = WaitAction{reader.Named("stream", ParseStream), reader.Integer("on")};
  } else if (op == "collective") {
    action = CollectiveAction{StepId(reader.Index("step"))};
  } else {
    const TensorId tensor(reader.Index("tensor"));
    if (op == "alloc") {
      action = AllocAction{tensor, {reader.Integer("offset"), reader.Integer("bytes")}};
    } else if (op == "free") {
      action = FreeAction{tensor};
    } else if (op == "offload") {
      action = OffloadAction{tensor, reader.Has("pool", "peer") ? Pool::kPeer : Pool::kHost,
                             reader.Integer("offset")};
    } else if (op == "prefetch") {
      action = PrefetchAction{tensor};
    } else {
      reader.Fail(absl::StrCat("unknown op '", op, "'"));
    }
  }
  RETURN_IF_ERROR(reader.Finish());
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
  if (largest <= kMostBytes / count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("plan: its ", count, " tensors and actions have sizes of up to ", largest,
                   " bytes, the sum of which may exceed 2^60"));
}

// Errors: the format is another one, or is missing.
absl::Status CheckFormat(Reader& reader) {
  const int64_t format = reader.Integer("neap_plan");
  RETURN_IF_ERROR(reader.status());
  if (format == kPlanFormat) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan: this file is plan format ", format,
                                                 "; this version reads format ", kPlanFormat,
                                                 ": plan again"));
}

template <typename T>
absl::Status ReadAll(Reader& reader, const char* key,
                     absl::StatusOr<T> (*read)(const Json&, const std::string&),
                     std::vector<T>& out) {
  for (const Json& json : reader.Array(key)) {
    ASSIGN_OR_RETURN(T item, read(json, absl::StrCat(key, "[", out.size(), "]")));
    out.push_back(std::move(item));
  }
  return absl::OkStatus();
}

// Errors: it is not JSON, or an object has a field twice; the parser alone would keep one of them.
absl::StatusOr<Json> Parse(std::string_view text) {
  std::vector<std::vector<std::string>> keys;  // of the objects that are not yet complete
  std::optional<std::string> twice;
  const auto remember = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      std::vector<std::string>& known = keys.back();
      known.push_back(parsed.get<std::string>());
      if (std::find(known.begin(), known.end() - 1, known.back()) != known.end() - 1)
        twice = known.back();
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), remember, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("plan: the text is not JSON");
  if (!twice.has_value()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat("plan: an object has the field \"", *twice, "\" twice"));
}

}  // namespace

absl::StatusOr<Plan> Plan::FromJson(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  Reader reader(json, "the plan");
  RETURN_IF_ERROR(CheckFormat(reader));
  Plan plan = {.net = reader.Text("net"),
               .batch = reader.Integer("batch"),
               .sub_batches = reader.IntegerUnless(1, "sub_batches"),
               .dtype = reader.Named("dtype", ParseDType),
               .layout = reader.Named("layout", ParseLayout),
               .policy = reader.Text("policy"),
               .device = reader.Text("device"),
               .device_kind = reader.TextUnlessEmpty("device_kind"),
               .budget_bytes = reader.Integer("budget_bytes"),
               .arena_bytes = reader.Integer("arena_bytes"),
               .peak_bytes = reader.Integer("peak_bytes"),
               .peak_activation_bytes = reader.Integer("peak_activation_bytes"),
               .host_peak_bytes = reader.Integer("host_peak_bytes"),
               .peer_peak_bytes = reader.IntegerUnless(0, "peer_peak_bytes"),
               .host_pool_bytes = reader.Integer("host_pool_bytes"),
               .peer_pool_bytes = reader.IntegerUnless(0, "peer_pool_bytes"),
               .host_resident_bytes = reader.IntegerUnless(0, "host_resident_bytes"),
               .predicted_ms = reader.Number("predicted_ms")};
  RETURN_IF_ERROR(reader.status());
  if (const Json* incoming = reader.Find("incoming_batch")) {
    ASSIGN_OR_RETURN(plan.incoming_batch, ReadRegion(*incoming, "incoming_batch"));
  }
  RETURN_IF_ERROR(ReadAll(reader, "tensors", ReadTensor, plan.tensors));
  RETURN_IF_ERROR(ReadAll(reader, "steps", ReadStep, plan.steps));
  RETURN_IF_ERROR(ReadAll(reader, "actions", ReadAction, plan.actions));
  RETURN_IF_ERROR(reader.Finish());
  RETURN_IF_ERROR(IdCheck(plan).Run());
  RETURN_IF_ERROR(CheckSums(plan));
  return plan;
}

}  // namespace neap
