#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/program.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

Plan SomePlan(uint32_t seed) {
  const int axes = 1 + static_cast<int>((seed + 1) % 3);  // 2 of the first
  const Graph graph = testing::RandomGraph(
      seed, {.axes = axes, .image = axes == 3 ? 4 : 8, .ports = seed % 2 == 1});
  const Program program = BuildProgram(graph, {}).value();
  DefaultCatalog catalog;
  return MakePlan(program, {}, DescribedDevice("h200").value(), catalog).value().plan;
}

// A plan with every kind of action and every optional field.
Json FullPlan() {
  Json plan =
      Json::parse(R"({"neap_plan": 2, "net": "n", "batch": 2, "dtype": "tf32", "layout": "nhwc",
    "policy": "p", "device": "d", "budget_bytes": 4096, "arena_bytes": 2048, "peak_bytes": 2048,
    "peak_activation_bytes": 8, "host_peak_bytes": 8, "host_pool_bytes": 2048, "predicted_ms": 0.5,
    "tensors": [{"id": 0, "name": "x", "role": "input", "shape": [2, 1], "dtype": "fp32", "bytes": 8},
                {"id": 1, "name": "y", "role": "activation", "shape": [2, 1], "dtype": "fp32", "bytes": 8}],
    "steps": [{"id": 0, "layer": "l", "type": "relu", "phase": "forward", "reads": [0], "writes": [1],
               "accumulates": [], "rerun_reads": [0], "in_place": [[1, 0]]}],
    "actions": [{"op": "alloc", "tensor": 0, "offset": 0, "bytes": 1024}, {"op": "free", "tensor": 0},
                {"op": "offload", "tensor": 0, "offset": 1024}, {"op": "prefetch", "tensor": 0},
                {"op": "wait", "stream": "d2h", "on": 2},
                {"op": "compute", "step": 0, "recompute": true, "engines": [{"engine": "e", "batch": 2}],
                 "workspace": {"offset": 1024, "bytes": 1024}},
                {"op": "compute", "step": 0, "recompute": false, "engines": null, "workspace": null}]})");
  return plan;
}

// Paths to every value in `json`, the root's own left out.
void AllPaths(const Json& json, const Json::json_pointer& at,
              std::vector<Json::json_pointer>& paths) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      paths.push_back(at / key);
      AllPaths(value, at / key, paths);
    }
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) {
      paths.push_back(at / i);
      AllPaths(json[i], at / i, paths);
    }
  }
}

void CheckRefused(const Json& json) {
  const std::string text = json.dump();
  CAPTURE(text);
  const auto plan = Plan::FromJson(text);
  CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(plan.status().message()).find("plan: ") == 0);
}

TEST_CASE("a micro-batch that adds survives a round trip through JSON") {
  Json json = FullPlan();
  Json& engines = json["actions"][5]["engines"];
  engines =
      Json::parse(R"([{"engine": "e", "batch": 1}, {"engine": "e", "batch": 1, "adds": true}])");
  const absl::StatusOr<Plan> plan = Plan::FromJson(json.dump());
  REQUIRE(plan.ok());
  const std::vector<EngineUse> parts = std::get<ComputeAction>(plan->actions[5]).engines;
  CHECK(parts == std::vector<EngineUse>{{"e", 1}, {"e", 1, true}});
  CHECK(Plan::FromJson(plan->ToJson())->actions == plan->actions);
  engines[1]["adds"] = false;
  CheckRefused(json);
}

TEST_CASE("plans survive a round trip through JSON unchanged") {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const Plan plan = SomePlan(seed);
    const absl::StatusOr<Plan> back = Plan::FromJson(plan.ToJson());
    REQUIRE(back.ok());
    CHECK(*back == plan);
    CHECK(back->Hash() == plan.Hash());
  }
  const absl::StatusOr<Plan> full = Plan::FromJson(FullPlan().dump());
  REQUIRE(full.ok());
  CHECK(Json::parse(full->ToJson()) == FullPlan());
  CHECK(full->tensors[0].shape == Shape{2, 1});
}

TEST_CASE("the kind of device is written if a plan has one, and read back") {
  const Plan silent = Plan::FromJson(FullPlan().dump()).value();
  CHECK(silent.device_kind.empty());
  CHECK(silent.ToJson().find("device_kind") == std::string::npos);
  Json json = FullPlan();
  json["device_kind"] = "cuda";
  const Plan plan = Plan::FromJson(json.dump()).value();
  CHECK(plan.device_kind == "cuda");
  CHECK(Plan::FromJson(plan.ToJson()).value() == plan);
  CHECK(SomePlan(1).device_kind == "cuda");  // of the H200
  for (const Json& kind : {Json(""), Json(1), Json(nullptr)}) {
    json["device_kind"] = kind;
    CheckRefused(json);
  }
}

TEST_CASE("the bytes of the incoming batch are written if a plan has any, and read back") {
  Json json = FullPlan();
  const Plan without = Plan::FromJson(json.dump()).value();
  CHECK(!without.incoming_batch.has_value());
  CHECK(without.ToJson().find("incoming") == std::string::npos);
  json["incoming_batch"] = {{"offset", 1024}, {"bytes", 3072}};
  const Plan plan = Plan::FromJson(json.dump()).value();
  CHECK(plan.incoming_batch == Region{1024, 3072});
  CHECK(Plan::FromJson(plan.ToJson()).value() == plan);
  CHECK(plan.Hash() != without.Hash());
  for (const char* const broken :
       {"null", "0", "[]", "{}", R"({"offset": 0})", R"({"offset": 0, "bytes": "1"})",
        R"({"offset": 0, "bytes": 1024, "end": 1024})", R"({"offset": 0, "bytes": 1e30})"}) {
    json["incoming_batch"] = Json::parse(broken);
    CheckRefused(json);
  }
}

TEST_CASE(
    "the pool of an offload and the bytes on a peer are written where they are not the host's") {
  Json json = FullPlan();
  const Plan host = Plan::FromJson(json.dump()).value();
  CHECK(host.ToJson().find("\"pool\"") == std::string::npos);
  CHECK(host.ToJson().find("peer") == std::string::npos);
  json["peer_peak_bytes"] = 1024;
  json["peer_pool_bytes"] = 3072;
  json["actions"][2]["pool"] = "peer";
  const absl::StatusOr<Plan> peer = Plan::FromJson(json.dump());
  REQUIRE(peer.ok());
  CHECK(peer->peer_peak_bytes == 1024);
  CHECK(peer->peer_pool_bytes == 3072);
  CHECK(std::get<OffloadAction>(peer->actions[2]).pool == Pool::kPeer);
  CHECK(Plan::FromJson(peer->ToJson()).value() == *peer);
  CHECK(peer->Hash() != host.Hash());
  for (const Json& pool : {Json("host"), Json("disk"), Json(1), Json(nullptr)}) {
    Json broken = json;
    broken["actions"][2]["pool"] = pool;
    CheckRefused(broken);
  }
  json["actions"][3]["pool"] = "peer";  // a prefetch reads from where the copy is
  CheckRefused(json);
  for (const char* field : {"peer_peak_bytes", "peer_pool_bytes", "host_resident_bytes"}) {
    for (const Json& bytes : {Json(0), Json("1"), Json(0.5), Json(nullptr)}) {
      Json broken = FullPlan();
      broken[field] = bytes;
      CheckRefused(broken);
    }
  }
}

TEST_CASE("the place of an offload's copy survives a round trip through JSON") {
  const Plan plan = Plan::FromJson(FullPlan().dump()).value();
  CHECK(std::get<OffloadAction>(plan.actions[2]).offset == 1024);
  CHECK(plan.host_pool_bytes == 2048);
}

TEST_CASE("the place of a tensor that is on the host between iterations is written") {
  Json json = FullPlan();
  CHECK(!Plan::FromJson(json.dump())->tensors[0].on_host());
  CHECK(Plan::FromJson(json.dump())->ToJson().find("host_offset") == std::string::npos);
  json["tensors"][0]["host_offset"] = 0;
  json["tensors"][1]["host_offset"] = 1024;
  json["host_resident_bytes"] = 2048;
  const absl::StatusOr<Plan> plan = Plan::FromJson(json.dump());
  REQUIRE(plan.ok());
  CHECK(plan->tensors[0].host_offset == 0);
  CHECK(plan->tensors[1].host_offset == 1024);
  CHECK(plan->host_resident_bytes == 2048);
  CHECK(Plan::FromJson(plan->ToJson()).value() == *plan);
  for (const Json& offset : {Json("0"), Json(true), Json(0.5), Json(nullptr)}) {
    json["tensors"][1]["host_offset"] = offset;
    CheckRefused(json);
  }
}

TEST_CASE("a tensor that is in the caller's memory says so, and others say nothing of it") {
  Json json = FullPlan();
  const Plan before = Plan::FromJson(json.dump()).value();
  CHECK(!before.tensors[0].is_external);
  CHECK(before.ToJson().find("external") == std::string::npos);
  json["tensors"][0]["external"] = true;
  const absl::StatusOr<Plan> plan = Plan::FromJson(json.dump());
  REQUIRE(plan.ok());
  CHECK(plan->tensors[0].is_external);
  CHECK(!plan->tensors[1].is_external);
  CHECK(Plan::FromJson(plan->ToJson()).value() == *plan);
  CHECK(plan->Hash() != before.Hash());
  for (const Json& value : {Json(false), Json("true"), Json(1), Json(nullptr)}) {
    json["tensors"][0]["external"] = value;
    CheckRefused(json);
  }
}

TEST_CASE("a field that is missing is refused, whichever it is") {
  std::vector<Json::json_pointer> paths;
  AllPaths(FullPlan(), Json::json_pointer(), paths);
  for (const Json::json_pointer& path : paths) {
    Json broken = FullPlan();
    Json& parent = broken[path.parent_pointer()];
    if (!parent.is_object()) continue;
    parent.erase(path.back());
    CAPTURE(path.to_string());
    CheckRefused(broken);
  }
}

TEST_CASE("a value of the wrong type is refused, whichever it is") {
  std::vector<Json::json_pointer> paths;
  AllPaths(FullPlan(), Json::json_pointer(), paths);
  const std::vector<Json> wrong = {"text", true, Json::object(), 0.5, Json::array({0.5}), nullptr};
  for (const Json::json_pointer& path : paths) {
    for (const Json& value : wrong) {
      Json broken = FullPlan();
      Json& target = broken[path];
      const bool same_kind =
          target.type() == value.type() ||
          (target.is_number() && value.is_number_float() && path.to_string() == "/predicted_ms");
      const bool may_be_null =
          value.is_null() && (path.back() == "engines" || path.back() == "workspace");
      if ((same_kind && !value.is_array()) || may_be_null) continue;
      if (target.is_null() && value.is_object() && path.back() == "workspace") continue;
      target = value;
      CAPTURE(path.to_string());
      CheckRefused(broken);
    }
  }
}

TEST_CASE("an unknown field is refused in every object") {
  std::vector<Json::json_pointer> paths = {Json::json_pointer()};
  AllPaths(FullPlan(), Json::json_pointer(), paths);
  for (const Json::json_pointer& path : paths) {
    Json broken = FullPlan();
    if (!broken[path].is_object()) continue;
    broken[path]["surprise"] = 1;
    CheckRefused(broken);
  }
}

TEST_CASE("a field that appears twice is refused in every object") {
  const std::string good = FullPlan().dump();
  for (size_t at = good.find('{'); at != std::string::npos; at = good.find('{', at + 1)) {
    // The object's first field, again in front of it.
    const size_t end = good.find(':', at);
    const std::string field = good.substr(at + 1, end - at);
    const std::string bad = good.substr(0, at + 1) + field + "0," + good.substr(at + 1);
    CAPTURE(bad);
    CHECK(Json::accept(bad));
    const absl::Status status = Plan::FromJson(bad).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()) ==
          "plan: an object has the field " + field.substr(0, field.size() - 1) + " twice");
  }
}

TEST_CASE("an empty list of engines is refused, which is written as null") {
  Json broken = FullPlan();
  broken["actions"][5]["engines"] = Json::array();
  CheckRefused(broken);
}

TEST_CASE("ids outside the tables, or that do not fit 32 bits, are refused") {
  for (const char* path : {"/tensors/0/id", "/steps/0/id", "/steps/0/reads/0", "/steps/0/writes/0",
                           "/steps/0/rerun_reads/0", "/steps/0/in_place/0/0",
                           "/steps/0/in_place/0/1", "/actions/0/tensor", "/actions/1/tensor",
                           "/actions/2/tensor", "/actions/3/tensor", "/actions/5/step"}) {
    for (const Json& value : {Json(-1), Json(2), Json(int64_t{1} << 32), Json(uint64_t{1} << 63)}) {
      Json broken = FullPlan();
      broken[Json::json_pointer(path)] = value;
      CheckRefused(broken);
    }
  }
  Json broken = FullPlan();
  broken["budget_bytes"] = uint64_t{1} << 63;
  CheckRefused(broken);
}

//   sizes that add up to more than 64 bits hold       on one of them, or on many together
TEST_CASE("numbers whose sums could overflow are refused, and others are accepted") {
  const Json full = FullPlan();
  std::vector<Json::json_pointer> paths;
  AllPaths(full, Json::json_pointer(), paths);
  constexpr int64_t kMax = int64_t{1} << 60;
  for (const Json::json_pointer& path : paths) {
    if (!full[path].is_number_integer()) continue;
    CAPTURE(path.to_string());
    for (const int64_t value : {std::numeric_limits<int64_t>::min(), -kMax - 1, kMax + 1,
                                std::numeric_limits<int64_t>::max()}) {
      Json broken = full;
      broken[path] = value;
      CheckRefused(broken);
    }
    for (const int64_t value : {-kMax, -kMax / 16, kMax / 16, kMax}) {
      Json large = full;
      large[path] = value;
      const absl::StatusOr<Plan> plan = Plan::FromJson(large.dump());
      if (plan.ok()) CHECK(!plan->Summary().empty());  // for the sanitizer
    }
  }
  Json plan = full;
  plan["tensors"][0]["bytes"] = plan["actions"][0]["bytes"] = kMax / 16;
  plan["budget_bytes"] = -kMax;
  REQUIRE(Plan::FromJson(plan.dump()).ok());
  CHECK(MemoryPerStep(*Plan::FromJson(plan.dump())).front().live_bytes == 1024);
  for (int i = 0; i < 16; ++i) plan["actions"].push_back(plan["actions"][0]);
  CheckRefused(plan);
}

TEST_CASE("a region that was never allocated is not freed, as far as sums go") {
  Json plan = FullPlan();
  plan["actions"][0] = plan["actions"][1];
  CHECK(MemoryPerStep(*Plan::FromJson(plan.dump())).back().live_bytes == 0);
}

TEST_CASE("a plan of format 1 is refused, and the message says what to do") {
  Json old = FullPlan();
  old["neap_plan"] = 1;
  CHECK(Plan::FromJson(old.dump()).status().message() ==
        "plan: this file is plan format 1; this version reads format 2: plan again");
  // Even if it differs in other respects.
  old["actions"][2].erase("offset");
  old.erase("host_pool_bytes");
  CHECK(Plan::FromJson(old.dump()).status().message() ==
        "plan: this file is plan format 1; this version reads format 2: plan again");
}

TEST_CASE("another version, and a text that is not JSON, are refused") {
  Json other = FullPlan();
  for (const Json& version : {Json(1), Json(3), Json("2"), Json(2.5), Json(nullptr)}) {
    other["neap_plan"] = version;
    CheckRefused(other);
  }
  for (const char* text :
       {"", "{", "nonsense", "[]", "1", "null", "{}", "{\"neap_plan\": 2}", "\xff\xfe"}) {
    CHECK(Plan::FromJson(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
  const std::string text = FullPlan().dump();
  for (size_t length = 0; length < text.size(); length += 7)
    CHECK(!Plan::FromJson(text.substr(0, length)).ok());
}

}  // namespace
}  // namespace neap
