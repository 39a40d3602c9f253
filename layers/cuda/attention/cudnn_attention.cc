#include "neap/layers/cuda/attention/cudnn_attention.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "neap/core/base/units.h"
#include "neap/layers/cuda/device/cudnn_frontend.h"

namespace neap {
namespace {

namespace fe = cudnn::fe;
using cudnn::CudnnStatus;
using cudnn::FrontendStatus;
using cudnn::Handle;
using SdpaNode = std::shared_ptr<fe::graph::Tensor_attributes>;

// That neap is tested with. A device that is present is not opened with an older one
// (CudnnConvolutions::ForDevice), so this is for descriptions.
constexpr size_t kOldestVersion = 91900;
constexpr int kHopper = 90;
constexpr int64_t kDescribedDims = 64;  // of a head, for which the workspace was measured

enum SdpaUid : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kBias,
  kOutput,
  kLse,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
};

std::string SdpaText(const SdpaTensor& t) {
  return absl::StrCat(t.heads, "x", t.positions, "x", t.dims, " by ", t.image_step, ",",
                      t.head_step, ",", t.position_step);
}

// The graph of a problem, which exposes the configuration of the engine before it is built.
class SdpaGraph : public fe::graph::Graph {
 public:
  explicit SdpaGraph(const SdpaProblem& problem) : problem_(problem) {
    set_io_data_type(cudnn::DataTypeOf(problem.dtype));
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(fe::DataType_t::FLOAT);
    problem.phase == Phase::kForward ? AddForward() : AddBackward();
  }

  // Finds the configurations that heuristics recommend, the best first. Errors: UNIMPLEMENTED if
  // there is none.
  absl::Status Lower(cudnnHandle_t handle) {
    RETURN_IF_ERROR(Supported(validate()));
    RETURN_IF_ERROR(Supported(build_operation_graph(handle)));
    for (const auto& node : sub_nodes) {
      if (node->override_heuristics_query().first != -1)
        return Unsupported("the frontend would choose an engine itself");
    }
    fe::get_heuristics_list(std::vector{fe::HeurMode_t::A}, *operation_graph, fe::allowAllConfig,
                            configs_, /*evaluate_all=*/true, /*sm_count=*/-1, device_properties);
    if (configs_.empty()) {
      return Unsupported(
          absl::StrCat("heuristics know none, ", fe::detail::get_last_error_string_()));
    }
    return absl::OkStatus();
  }

  // Of the best configuration, with what the frontend adds to the engine's.
  absl::StatusOr<int64_t> WorkspaceBytes() { return WorkspaceBytesOf(configs_.front()); }

  // Builds the first configuration that can be built and needs no more than was listed: the library
  // recommends some that its compiler refuses for a shape.
  absl::Status Build(int64_t listed_bytes) {
    const std::string call = "cudnn build sdpa";
    fe::EngineConfigList fitting;
    for (const auto& config : configs_) {
      const absl::StatusOr<int64_t> bytes = WorkspaceBytesOf(config);
      if (bytes.ok() && *bytes <= listed_bytes) fitting.push_back(config);
    }
    const auto count = static_cast<int64_t>(fitting.size());
    plans.enqueue_engine_configs(std::move(fitting));
    RETURN_IF_ERROR(FrontendStatus(plans.query_properties(), call, problem_));
    absl::Status why = Unsupported("none of its configurations fits the workspace");
    for (built_ = 0; built_ < count; ++built_) {
      why = BuildPlan(call, listed_bytes);
      if (why.ok()) return why;
    }
    return why;
  }
  // Of Build().
  int64_t built() const { return built_; }

 private:
  absl::StatusOr<int64_t> WorkspaceBytesOf(fe::ManagedOpaqueDescriptor config) {
    int64_t bytes = 0;
    RETURN_IF_ERROR(Supported(fe::detail::get_workspace_size(config, bytes)));
    return bytes + get_fe_workspace_size_subtree();
  }

  absl::Status BuildPlan(const std::string& call, int64_t listed_bytes) {
    RETURN_IF_ERROR(FrontendStatus(build_plan_at_index(built_), call, problem_));
    int64_t bytes = 0;
    RETURN_IF_ERROR(
        FrontendStatus(get_workspace_size_plan_at_index(built_, bytes), call, problem_));
    if (bytes <= listed_bytes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(call, ": the plan needs ", bytes,
                                            " bytes of workspace, its engine listed ", listed_bytes,
                                            " (", problem_.ToString(), ")"));
  }

  absl::Status Unsupported(const std::string& why) const {
    return absl::UnimplementedError(
        absl::StrCat("cuDNN has no engine for ", problem_.ToString(), ": ", why));
  }
  absl::Status Supported(fe::error_t error) const {
    return error.is_good() ? absl::OkStatus() : Unsupported(error.get_message());
  }

  fe::graph::Tensor_attributes Attributes(const SdpaTensor& t, SdpaUid uid) const {
    fe::graph::Tensor_attributes attributes;
    attributes.set_dim({problem_.images, t.heads, t.positions, t.dims})
        .set_stride({t.image_step, t.head_step, t.position_step, 1})
        .set_data_type(cudnn::DataTypeOf(problem_.dtype))
        .set_uid(uid);
    return attributes;
  }
  fe::graph::Tensor_attributes LseAttributes() const {
    const int64_t heads = problem_.query.heads, queries = problem_.query.positions;
    fe::graph::Tensor_attributes attributes;
    attributes.set_dim({problem_.images, heads, queries, 1})
        .set_stride({heads * queries, queries, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT)
        .set_uid(kLse);
    return attributes;
  }
  SdpaNode BiasNode() {
    fe::graph::Tensor_attributes attributes = Attributes(*problem_.bias, kBias);
    const SdpaTensor& bias = *problem_.bias;
    if (bias.image_step == 0)
      attributes.set_dim({1, bias.heads, bias.positions, bias.dims})
          .set_stride(
              {bias.heads * bias.positions * bias.dims, bias.head_step, bias.position_step, 1});
    return tensor(attributes);
  }
  void SetResult(const SdpaNode& node, const fe::graph::Tensor_attributes& attributes) {
    *node = attributes;
    node->set_output(true);
  }

  template <typename Options>
  void SetOptions(Options& options) {
    options.set_attn_scale(problem_.scale);
    if (problem_.causal) options.set_causal_mask(true);
    if (problem_.bias.has_value()) options.set_bias(BiasNode());
  }

  void AddForward() {
    fe::graph::SDPA_attributes options;
    options.set_name("sdpa").set_generate_stats(problem_.lse);
    SetOptions(options);
    const auto [output, lse] =
        sdpa(tensor(Attributes(problem_.query, kQuery)), tensor(Attributes(problem_.key, kKey)),
             tensor(Attributes(problem_.value, kValue)), options);
    SetResult(output, Attributes(problem_.output, kOutput));
    if (problem_.lse) SetResult(lse, LseAttributes());
  }

  void AddBackward() {
    fe::graph::SDPA_backward_attributes options;
    options.set_name("sdpa_backward").set_deterministic_algorithm(problem_.deterministic);
    SetOptions(options);
    const auto [dquery, dkey, dvalue] = sdpa_backward(
        tensor(Attributes(problem_.query, kQuery)), tensor(Attributes(problem_.key, kKey)),
        tensor(Attributes(problem_.value, kValue)), tensor(Attributes(problem_.output, kOutput)),
        tensor(Attributes(problem_.output, kOutputGradient)), tensor(LseAttributes()), options);
    SetResult(dquery, Attributes(problem_.query_gradient.value_or(problem_.query), kQueryGradient));
    SetResult(dkey, Attributes(problem_.key_gradient.value_or(problem_.key), kKeyGradient));
    SetResult(dvalue, Attributes(problem_.value, kValueGradient));
  }

  SdpaProblem problem_;
  fe::EngineConfigList configs_;
  int64_t built_ = 0;  // the index of the plan
};

class BuiltSdpa final : public SdpaPlan {
 public:
  BuiltSdpa(Handle handle, SdpaProblem problem, std::unique_ptr<SdpaGraph> graph)
      : handle_(std::move(handle)), problem_(std::move(problem)), graph_(std::move(graph)) {}

  absl::Status Execute(const SdpaPointers& p, void* workspace) override {
    std::unordered_map<int64_t, void*> pointers = {
        {kQuery, p.query}, {kKey, p.key}, {kValue, p.value}, {kOutput, p.output}};
    if (problem_.bias.has_value()) pointers[kBias] = p.bias;
    if (problem_.phase != Phase::kForward) {
      pointers.insert({{kLse, p.lse},
                       {kOutputGradient, p.doutput},
                       {kQueryGradient, p.dquery},
                       {kKeyGradient, p.dkey},
                       {kValueGradient, p.dvalue}});
    } else if (problem_.lse) {
      pointers[kLse] = p.lse;
    }
    return FrontendStatus(
        graph_->execute_plan_at_index(handle_.get(), pointers, workspace, graph_->built()),
        "cudnn execute sdpa", problem_);
  }

 private:
  Handle handle_;
  SdpaProblem problem_;
  std::unique_ptr<SdpaGraph> graph_;
};

Engine EngineOf(const SdpaProblem& problem, int64_t workspace_bytes) {
  return {.id = problem.deterministic ? "cudnn-sdpa-deterministic" : "cudnn-sdpa",
          .workspace_bytes = workspace_bytes,
          .deterministic = problem.phase == Phase::kForward || problem.deterministic,
          .notes = "tensor-core",
          .uses_tensor_cores = true};
}

class PresentAttention final : public CudnnAttention {
 public:
  // `plans` builds and executes plans on `device`.
  PresentAttention(Handle plans, int device) : plans_(std::move(plans)), listing_(device) {}

  absl::StatusOr<Engine> Find(const SdpaProblem& problem) override {
    ASSIGN_OR_RETURN(Handle handle, listing_.Take());
    const absl::StatusOr<int64_t> bytes = ListWith(problem, handle);
    listing_.Return(std::move(handle));
    RETURN_IF_ERROR(bytes.status());
    return EngineOf(problem, *bytes);
  }

  absl::StatusOr<std::unique_ptr<SdpaPlan>> Build(const SdpaProblem& problem) override {
    ASSIGN_OR_RETURN(std::unique_ptr<SdpaGraph> graph, Lowered(problem, plans_));
    ASSIGN_OR_RETURN(const int64_t listed_bytes, graph->WorkspaceBytes());
    RETURN_IF_ERROR(graph->Build(listed_bytes));
    return std::make_unique<BuiltSdpa>(plans_, problem, std::move(graph));
  }

 private:
  absl::StatusOr<int64_t> ListWith(const SdpaProblem& problem, const Handle& handle) const {
    ASSIGN_OR_RETURN(const std::unique_ptr<SdpaGraph> graph, Lowered(problem, handle));
    return graph->WorkspaceBytes();
  }

  absl::StatusOr<std::unique_ptr<SdpaGraph>> Lowered(const SdpaProblem& problem,
                                                     const Handle& handle) const {
    auto graph = std::make_unique<SdpaGraph>(problem);
    RETURN_IF_ERROR(graph->Lower(handle.get()));
    return graph;
  }

  const Handle plans_;
  cudnn::ListingHandles listing_;
};

// What cuDNN 9.19 lists on an H200 for heads of 64 dimensions, 197 and 1,024 positions, and 3 to
// 128 images, causal or not: 16 bits for each pair of positions, in tiles, and a number of fp32 for
// each query (cudnn_attention.h).
int64_t WorkspaceOnHopper(const SdpaProblem& problem) {
  constexpr int64_t kTile = 128, kUnit = 1024;
  if (problem.phase == Phase::kForward) return kUnit;
  const int64_t heads = problem.images * problem.query.heads;
  const int64_t pairs =
      RoundUp(problem.query.positions, kTile) * RoundUp(problem.key.positions, kTile);
  const int64_t sums = heads * problem.query.positions * int64_t{sizeof(float)};
  return heads * pairs * 2 + (sums / kUnit + 1) * kUnit;
}

// Whether that is known of a problem like this one, but for its numbers of images, heads and
// positions.
bool IsLikeMeasured(const SdpaProblem& problem) {
  return !problem.bias.has_value() && (problem.phase == Phase::kForward || problem.deterministic) &&
         problem.query.dims == kDescribedDims && problem.value.dims == kDescribedDims &&
         problem.key.heads == problem.query.heads && problem.value.heads == problem.query.heads;
}

class DescribedAttention final : public CudnnAttention {
 public:
  explicit DescribedAttention(int sm_version) : sm_version_(sm_version) {}

  absl::StatusOr<Engine> Find(const SdpaProblem& problem) override {
    const bool is_known =
        cudnnGetVersion() >= kOldestVersion && sm_version_ == kHopper && IsLikeMeasured(problem);
    if (is_known) return EngineOf(problem, WorkspaceOnHopper(problem));
    return absl::UnimplementedError(absl::StrCat(
        "it is not known what cuDNN has on a described device for ", problem.ToString()));
  }
  absl::StatusOr<std::unique_ptr<SdpaPlan>> Build(const SdpaProblem& /*problem*/) override {
    return absl::FailedPreconditionError("a described device cannot run");
  }

 private:
  const int sm_version_;
};

}  // namespace

std::string SdpaProblem::ToString() const {
  return absl::StrCat("sdpa ", std::string(Name(phase)), " ", std::string(Name(dtype)), " of ",
                      images, " query ", SdpaText(query), " key ", SdpaText(key), " value ",
                      SdpaText(value), " output ", SdpaText(output),
                      bias.has_value() ? absl::StrCat(" bias ", SdpaText(*bias)) : "",
                      causal ? " causal" : "", " scale ", scale, lse ? "" : " without lse",
                      deterministic ? " deterministic" : "");
}

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::ForDevice(void* stream) {
  RETURN_IF_ERROR(LoadCudnn());
  ASSIGN_OR_RETURN(Handle plans, cudnn::NewHandle());
  RETURN_IF_ERROR(CudnnStatus(cudnnSetStream(plans.get(), static_cast<cudaStream_t>(stream)),
                              "cudnnSetStream"));
  int device = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  return std::make_unique<PresentAttention>(std::move(plans), device);
}

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::ForDescribedDevice(
    std::string_view properties_json) {
  RETURN_IF_ERROR(LoadCudnn());
  const nlohmann::json json = nlohmann::json::parse(properties_json, nullptr, false);
  // cuDNN's deviceVer is 900 for compute capability 9.0.
  if (!json.is_object() || !json.contains("deviceVer") || !json["deviceVer"].is_number_integer())
    return absl::InvalidArgumentError("the device description has no number 'deviceVer'");
  return std::make_unique<DescribedAttention>(json["deviceVer"].get<int>() / 10);
}

}  // namespace neap
