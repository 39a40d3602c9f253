// The one file that includes cudnn_frontend.h: it takes half a minute to compile.
#include "neap/layers/cuda/cudnn_convolution.h"

#include "neap/layers/cuda/cudnn_library.h"

// What cudnn-frontend calls of cuDNN, in the library that has been loaded. Its own functions have
// another namespace: a program may be linked with others of the same names.
#define cudnn_frontend neap_cudnn_frontend
#define cudnnCreate ::neap::LoadedCudnn().create
#define cudnnDestroy ::neap::LoadedCudnn().destroy
#define cudnnGetErrorString ::neap::LoadedCudnn().get_error_string
#define cudnnGetLastErrorString ::neap::LoadedCudnn().get_last_error_string
#define cudnnGetStream ::neap::LoadedCudnn().get_stream
#define cudnnGetVersion ::neap::LoadedCudnn().get_version
#define cudnnSetStream ::neap::LoadedCudnn().set_stream
#define cudnnBackendCreateDescriptor ::neap::LoadedCudnn().backend_create_descriptor
#define cudnnBackendDestroyDescriptor ::neap::LoadedCudnn().backend_destroy_descriptor
#define cudnnBackendExecute ::neap::LoadedCudnn().backend_execute
#define cudnnBackendFinalize ::neap::LoadedCudnn().backend_finalize
#define cudnnBackendGetAttribute ::neap::LoadedCudnn().backend_get_attribute
#define cudnnBackendSetAttribute ::neap::LoadedCudnn().backend_set_attribute
#define NV_CUDNN_DISABLE_EXCEPTION
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/cuda_status.h"
#include "neap/layers/cuda/cudnn_engines.h"

namespace neap {

std::string ConvolutionProblem::ToString() const {
  return absl::StrCat(std::string(Name(phase)), " x ", x.ToString(), " weight ", weight.ToString(),
                      " y ", y.ToString(), " stride ", stride.h(), "x", stride.w(), " padding ",
                      padding.h(), "x", padding.w(), " dilation ", dilation.h(), "x", dilation.w(),
                      accumulate ? " accumulated" : "", relu ? " bias relu" : "",
                      half_accumulation ? " added in fp16" : "");
}

namespace {

namespace fe = cudnn_frontend;

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Position in the variant pack: pointers are passed in this order.
enum Uid : int64_t { kX = 1, kWeight = 2, kY = 3, kBias = 4 };

absl::Status FrontendStatus(fe::error_t error, std::string_view call,
                            const ConvolutionProblem& problem) {
  if (error.is_good()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(std::string(call), ": ", error.get_message(), " (", problem.ToString(), ")"));
}

absl::Status CudnnStatus(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(std::string(call), ": ", cudnnGetErrorString(status)));
}

std::vector<int64_t> Strides(const TensorSpec& t) {
  const int64_t c = t.shape.c(), h = t.shape.h(), w = t.shape.w();
  if (t.layout == Layout::kChannelsLast) return {c * h * w, 1, w * c, c};
  return {c * h * w, h * w, w, 1};
}

fe::DataType_t DataTypeOf(DType dtype) {
  if (dtype == DType::kFp16) return fe::DataType_t::HALF;
  return dtype == DType::kBf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

fe::graph::Tensor_attributes Attributes(const TensorSpec& t, Uid uid) {
  fe::graph::Tensor_attributes attributes;
  attributes.set_dim({t.shape.n(), t.shape.c(), t.shape.h(), t.shape.w()})
      .set_stride(Strides(t))
      .set_data_type(DataTypeOf(t.dtype))
      .set_uid(uid);
  return attributes;
}

template <typename Operation>
Operation WithWindow(const ConvolutionProblem& problem) {
  Operation operation;
  operation.set_padding({problem.padding.h(), problem.padding.w()})
      .set_stride({problem.stride.h(), problem.stride.w()})
      .set_dilation({problem.dilation.h(), problem.dilation.w()});
  return operation;
}

std::string EngineId(const fe::ManagedOpaqueDescriptor& config) {
  return fe::detail::get_engine_tag(config);
}

// The type of the sums.
fe::DataType_t SumTypeOf(const ConvolutionProblem& problem) {
  return problem.half_accumulation ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

EngineNotes NotesOf(cudnnBackendDescriptor_t config) {
  return {.tensor_core = fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_TENSOR_CORE>(config),
          .winograd = fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_WINOGRAD>(config),
          .fft = fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_FFT>(config),
          .reduced_precision_reduction =
              fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>(config),
          .nondeterministic = fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>(config),
          .down_converts_inputs =
              fe::hasNumericalNote<CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>(config),
          .is_compiled = fe::hasBehaviorNote<CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION>(config)};
}

// A frontend graph that exposes its engine configurations before any of them is built.
class ConvolutionGraph : public fe::graph::Graph {
 public:
  explicit ConvolutionGraph(const ConvolutionProblem& problem) : problem_(problem) {
    set_io_data_type(fe::DataType_t::FLOAT);
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(SumTypeOf(problem));
    AddOperation();
  }

  absl::Status Lower(cudnnHandle_t handle) {
    RETURN_IF_ERROR(FrontendStatus(validate(), "cudnn validate", problem_));
    return FrontendStatus(build_operation_graph(handle), "cudnn build_operation_graph", problem_);
  }

  // By all heuristics, each engine once.
  absl::StatusOr<HeuristicList> List() {
    fe::EngineConfigList configs;
    const std::vector<cudnnStatus_t> statuses = fe::get_heuristics_list(
        std::vector{fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK},
        *operation_graph, fe::allowAllConfig, configs, /*evaluate_all=*/true, /*sm_count=*/-1,
        device_properties);
    if (configs.empty()) RETURN_IF_ERROR(CheckThereIsNone(statuses));
    HeuristicList list = {.is_complete = std::all_of(statuses.begin(), statuses.end(), SaysAll)};
    std::unordered_set<std::string> seen;
    for (fe::ManagedOpaqueDescriptor& config : configs) {
      HeuristicEngine engine = {.id = EngineId(config),
                                .notes = NotesOf(config->get_backend_descriptor())};
      if (!seen.insert(engine.id).second) continue;
      if (fe::detail::get_workspace_size(config, engine.workspace_bytes).is_bad()) {
        list.is_complete = false;
        continue;
      }
      list.engines.push_back(std::move(engine));
    }
    return list;
  }

  // Builds the engine as the plan at index 0. Replaces the frontend's create_execution_plan(),
  // which lacks the knobs that cuDNN 9 calls deprecated and its heuristics still return.
  absl::Status Build(const EngineChoice& choice, const std::string& call) {
    fe::detail::backend_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    RETURN_IF_ERROR(FrontendStatus(
        fe::detail::create_engine(engine, choice.engine, operation_graph->get_raw_desc(),
                                  device_properties),
        call, problem_));
    std::vector<fe::detail::backend_descriptor> knobs;
    for (const auto& [number, value] : choice.knobs) {
      const auto type = static_cast<cudnnBackendKnobType_t>(number);
      fe::detail::backend_descriptor knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
      const cudnnBackendDescriptor_t raw = knob.get_ptr();
      RETURN_IF_ERROR(CudnnStatus(fe::detail::set_attribute(raw, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                                            CUDNN_TYPE_KNOB_TYPE, 1, &type),
                                  call));
      RETURN_IF_ERROR(CudnnStatus(fe::detail::set_attribute(raw, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                                            CUDNN_TYPE_INT64, 1, &value),
                                  call));
      RETURN_IF_ERROR(CudnnStatus(fe::detail::finalize(raw), call));
      knobs.push_back(std::move(knob));
    }
    fe::ManagedOpaqueDescriptor config =
        fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RETURN_IF_ERROR(
        FrontendStatus(fe::detail::create_engine_config(config, engine, knobs), call, problem_));
    plans.enqueue_engine_configs({config});
    RETURN_IF_ERROR(FrontendStatus(plans.query_properties(), call, problem_));
    return FrontendStatus(build_plan_at_index(0), call, problem_);
  }

  // The built plan's workspace can differ from the one that its configuration announced.
  absl::Status CheckWorkspace(int64_t listed_bytes, const std::string& call) const {
    int64_t bytes = 0;
    RETURN_IF_ERROR(FrontendStatus(get_workspace_size_plan_at_index(0, bytes), call, problem_));
    if (bytes <= listed_bytes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(call, ": the plan needs ", bytes,
                                            " bytes of workspace, its engine listed ", listed_bytes,
                                            " (", problem_.ToString(), ")"));
  }

 private:
  // Whether the heuristic has listed all engines that it knows, or there are none. An installation
  // that lacks a part has others.
  static bool SaysAll(cudnnStatus_t status) {
    switch (status) {
      case CUDNN_STATUS_SUCCESS:
        return true;
      case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
      case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
      case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
      case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
        return false;
      default:
        return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
    }
  }

  // Returns an error unless the statuses of heuristics that list nothing, one per heuristic, mean
  // that there is no engine.
  absl::Status CheckThereIsNone(const std::vector<cudnnStatus_t>& statuses) const {
    for (const cudnnStatus_t status : statuses) {
      if (SaysAll(status)) continue;
      return absl::InternalError(absl::StrCat("cudnn heuristics: ", cudnnGetErrorString(status),
                                              ", ", fe::detail::get_last_error_string_(), " (",
                                              problem_.ToString(), ")"));
    }
    return absl::OkStatus();
  }

  // The frontend's own operation overwrites the gradient: it has no beta.
  fe::error_t create_cudnn_operations(
      std::unordered_set<int64_t>& uids, std::vector<std::shared_ptr<fe::Operation>>& operations,
      fe::graph::managed_backend_descriptor_t& raw_operations,
      std::unordered_map<int64_t, std::shared_ptr<fe::Tensor>>& tensors) const override {
    if (!problem_.accumulate)
      return Graph::create_cudnn_operations(uids, operations, raw_operations, tensors);
    const int64_t stride[] = {problem_.stride.h(), problem_.stride.w()};
    const int64_t padding[] = {problem_.padding.h(), problem_.padding.w()};
    const int64_t dilation[] = {problem_.dilation.h(), problem_.dilation.w()};
    const fe::ConvDesc window = fe::ConvDescBuilder()
                                    .setComputeType(SumTypeOf(problem_))
                                    .setMathMode(CUDNN_CROSS_CORRELATION)
                                    .setSpatialDimCount(2)
                                    .setSpatialStride(2, stride)
                                    .setPrePadding(2, padding)
                                    .setPostPadding(2, padding)
                                    .setDilation(2, dilation)
                                    .build();
    fe::Operation operation =
        fe::OperationBuilder(fe::DescriptorType_t::OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
            .setxDesc(*tensors.at(kX))
            .setdyDesc(*tensors.at(kY))
            .setdwDesc(*tensors.at(kWeight))
            .setcDesc(window)
            .setAlpha(1.0F)
            .setBeta(1.0F)
            .build();
    if (operation.get_status() != CUDNN_STATUS_SUCCESS)
      return {fe::error_code_t::CUDNN_BACKEND_API_FAILED, operation.get_error()};
    operations.push_back(std::make_shared<fe::Operation>(std::move(operation)));
    uids.insert({kX, kWeight, kY});
    return {};
  }

  void AddOperation() {
    Tensor result;
    if (problem_.phase == Phase::kForward) {
      result = conv_fprop(tensor(Attributes(problem_.x, kX)),
                          tensor(Attributes(problem_.weight, kWeight)),
                          WithWindow<fe::graph::Conv_fprop_attributes>(problem_));
      if (problem_.relu) result = WithRelu(std::move(result));
      *result = Attributes(problem_.y, kY);
    } else if (problem_.phase == Phase::kBackwardData) {
      result = conv_dgrad(tensor(Attributes(problem_.y, kY)),
                          tensor(Attributes(problem_.weight, kWeight)),
                          WithWindow<fe::graph::Conv_dgrad_attributes>(problem_));
      *result = Attributes(problem_.x, kX);
    } else {
      result = conv_wgrad(tensor(Attributes(problem_.y, kY)), tensor(Attributes(problem_.x, kX)),
                          WithWindow<fe::graph::Conv_wgrad_attributes>(problem_));
      *result = Attributes(problem_.weight, kWeight);
    }
    result->set_output(true);
  }

  // relu(sums + bias), neither of which is stored.
  Tensor WithRelu(Tensor sums) {
    const TensorSpec bias = {.shape = {1, problem_.y.shape.c(), 1, 1},
                             .dtype = problem_.y.dtype,
                             .layout = problem_.y.layout};
    sums = pointwise(sums, tensor(Attributes(bias, kBias)),
                     fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    return pointwise(sums,
                     fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  }

  ConvolutionProblem problem_;
};

// cuDNN's handle, which stays alive as long as any plan made with it.
using Handle = std::shared_ptr<std::remove_pointer_t<cudnnHandle_t>>;

absl::StatusOr<Handle> NewHandle() {
  cudnnHandle_t raw = nullptr;
  RETURN_IF_ERROR(CudnnStatus(cudnnCreate(&raw), "cudnnCreate"));
  return Handle(raw, [](cudnnHandle_t h) { cudnnDestroy(h); });
}

// Handles with which threads list engines at the same time, one each. A device that is not present
// needs none.
class ListingHandles {
 public:
  explicit ListingHandles(std::optional<int> device) : device_(device) {}

  absl::StatusOr<Handle> Take() {
    if (!device_.has_value()) return Handle();
    RETURN_IF_ERROR(CudaStatus(cudaSetDevice(*device_), "cudaSetDevice"));
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return NewHandle();
    Handle handle = std::move(free_.back());
    free_.pop_back();
    return handle;
  }
  void Return(Handle handle) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(handle));
  }

 private:
  const std::optional<int> device_;
  std::mutex mutex_;
  std::vector<Handle> free_;  // guarded by mutex_
};

class BuiltPlan final : public ConvolutionPlan {
 public:
  BuiltPlan(Handle handle, ConvolutionProblem problem, std::unique_ptr<ConvolutionGraph> graph)
      : handle_(std::move(handle)), problem_(std::move(problem)), graph_(std::move(graph)) {}

  absl::Status Execute(const ConvolutionPointers& pointers, void* workspace) override {
    void* by_uid[] = {pointers.x, pointers.weight, pointers.y, pointers.bias};
    const int count = problem_.relu ? 4 : 3;
    return FrontendStatus(graph_->execute_plan_at_index(handle_.get(), by_uid, count, workspace, 0),
                          "cudnn execute", problem_);
  }

 private:
  Handle handle_;
  ConvolutionProblem problem_;
  std::unique_ptr<ConvolutionGraph> graph_;
};

class CudnnConvolutionsImpl final : public CudnnConvolutions {
 public:
  // `plans` builds and executes plans on `device`. Both are absent for a device that is not
  // present.
  CudnnConvolutionsImpl(Handle plans, std::optional<int> device,
                        std::shared_ptr<const fe::DeviceProperties> properties, LibraryLists lists)
      : plans_(std::move(plans)),
        listing_(device),
        properties_(std::move(properties)),
        lists_(std::move(lists)) {}

  size_t Version() const override { return cudnnGetVersion(); }

  absl::StatusOr<std::vector<Engine>> Engines(const ConvolutionProblem& problem) override {
    const std::string key = problem.ToString();
    {
      const std::lock_guard lock(mutex_);
      if (auto found = engines_.find(key); found != engines_.end()) return found->second;
    }
    ASSIGN_OR_RETURN(const std::vector<HeuristicEngine> list, List(problem, key));
    absl::StatusOr<std::vector<Engine>> engines = Offered(list, problem);
    if (engines->empty())
      engines = absl::UnimplementedError(absl::StrCat("cuDNN has no engine for ", key));
    const std::lock_guard lock(mutex_);
    return engines_.emplace(key, std::move(engines)).first->second;
  }

  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Build(const ConvolutionProblem& problem,
                                                         std::string_view engine) override {
    if (plans_ == nullptr) return absl::FailedPreconditionError("a described device cannot run");
    ASSIGN_OR_RETURN(EngineChoice choice, ParseEngineId(engine));
    ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionGraph> graph, Lowered(problem, plans_));
    const std::string call = absl::StrCat("cudnn build ", std::string(engine));
    ASSIGN_OR_RETURN(const int64_t listed_bytes, ListedWorkspace(problem, engine));
    absl::Status built = graph->Build(choice, call);
    if (built.ok()) built = graph->CheckWorkspace(listed_bytes, call);
    if (!built.ok()) {
      Doubt(problem);
      return built;
    }
    return std::make_unique<BuiltPlan>(plans_, problem, std::move(graph));
  }

 private:
  absl::StatusOr<std::vector<HeuristicEngine>> List(const ConvolutionProblem& problem,
                                                    const std::string& key) {
    std::optional<std::vector<HeuristicEngine>> kept = lists_.Find(key);
    if (!kept.has_value()) return ListAnew(problem, key);
    const std::lock_guard lock(mutex_);
    read_.insert(key);
    return *std::move(kept);
  }

  absl::StatusOr<std::vector<HeuristicEngine>> ListAnew(const ConvolutionProblem& problem,
                                                        const std::string& key) {
    ASSIGN_OR_RETURN(Handle handle, listing_.Take());
    absl::StatusOr<HeuristicList> list = ListWith(problem, handle);
    listing_.Return(std::move(handle));
    RETURN_IF_ERROR(list.status());
    if (list->is_complete) lists_.Keep(key, list->engines);
    return std::move(list->engines);
  }

  absl::StatusOr<HeuristicList> ListWith(const ConvolutionProblem& problem,
                                         const Handle& handle) const {
    ASSIGN_OR_RETURN(const std::unique_ptr<ConvolutionGraph> graph, Lowered(problem, handle));
    return graph->List();
  }

  // The list of an engine that has failed may be a wrong one that was kept: it is replaced, once.
  void Doubt(const ConvolutionProblem& problem) {
    const std::string key = problem.ToString();
    {
      const std::lock_guard lock(mutex_);
      if (read_.erase(key) == 0) return;
    }
    ListAnew(problem, key).IgnoreError();
  }

  absl::StatusOr<int64_t> ListedWorkspace(const ConvolutionProblem& problem, std::string_view id) {
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, Engines(problem));
    for (const Engine& engine : engines) {
      if (engine.id == id) return engine.workspace_bytes;
    }
    return absl::NotFoundError(
        absl::StrCat("cuDNN lists no engine '", std::string(id), "' for ", problem.ToString()));
  }

  absl::StatusOr<std::unique_ptr<ConvolutionGraph>> Lowered(const ConvolutionProblem& problem,
                                                            const Handle& handle) const {
    auto graph = std::make_unique<ConvolutionGraph>(problem);
    if (properties_ != nullptr) graph->set_device_properties(properties_);
    RETURN_IF_ERROR(graph->Lower(handle.get()));
    return graph;
  }

  const Handle plans_;
  ListingHandles listing_;
  std::shared_ptr<const fe::DeviceProperties> properties_;
  LibraryLists lists_;
  std::mutex mutex_;                       // guards read_ and engines_
  absl::flat_hash_set<std::string> read_;  // problems whose lists were kept and are not doubted
  absl::flat_hash_map<std::string, absl::StatusOr<std::vector<Engine>>> engines_;  // or none
};

// cuDNN's description of the device; empty if it has none.
std::string DescriptionOf(int device) {
  fe::DeviceProperties properties;
  std::vector<uint8_t> json;
  if (properties.set_device_id(device).build().is_bad() || properties.serialize(json).is_bad())
    return "";
  return {json.begin(), json.end()};
}

// Lists are kept for this way to ask: raise it when ConvolutionGraph asks for others.
constexpr int kListing = 1;

// `where` is " on " a GPU that is present, or " for " one that is not.
LibraryLists ListsOf(std::shared_ptr<EngineLists> lists, std::string_view where,
                     const std::string& properties_json) {
  if (lists == nullptr) return {};
  const std::string kind = KindOfGpu(properties_json);
  if (kind.empty()) return {};
  const char* const tf32 = std::getenv("NVIDIA_TF32_OVERRIDE");  // cuDNN obeys it
  return {.library = absl::StrCat("cuDNN ", cudnnGetVersion(), " by cudnn-frontend ",
                                  CUDNN_FRONTEND_VERSION, ", listing ", kListing,
                                  tf32 == nullptr ? "" : absl::StrCat(", TF32 override ", tf32),
                                  std::string(where), kind),
          .lists = std::move(lists)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnConvolutions>> CudnnConvolutions::ForDevice(
    void* stream, std::shared_ptr<EngineLists> lists) {
  // The oldest version that neap is tested with. Older ones are refused: 9.14, for one, lists
  // engines that make misaligned writes (tf32, NHWC, channels not a multiple of 4).
  constexpr size_t kOldestVersion = 91900;
  RETURN_IF_ERROR(LoadCudnn());
  if (const size_t version = cudnnGetVersion(); version < kOldestVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the cuDNN found is version ", version, "; ",
                                                      kOldestVersion, " or newer is needed"));
  }
  ASSIGN_OR_RETURN(Handle plans, NewHandle());
  RETURN_IF_ERROR(CudnnStatus(cudnnSetStream(plans.get(), static_cast<cudaStream_t>(stream)),
                              "cudnnSetStream"));
  int device = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  LibraryLists kept = ListsOf(std::move(lists), " on ", DescriptionOf(device));
  return std::make_unique<CudnnConvolutionsImpl>(std::move(plans), device, nullptr,
                                                 std::move(kept));
}

absl::StatusOr<std::unique_ptr<CudnnConvolutions>> CudnnConvolutions::ForDescribedDevice(
    std::string_view properties_json, std::shared_ptr<EngineLists> lists) {
  RETURN_IF_ERROR(LoadCudnn());
  auto properties = std::make_shared<fe::DeviceProperties>();
  fe::error_t error = properties->deserialize({properties_json.begin(), properties_json.end()});
  if (error.is_bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuDNN rejects the device description: ", error.get_message()));
  }
  LibraryLists kept = ListsOf(std::move(lists), " for ", std::string(properties_json));
  return std::make_unique<CudnnConvolutionsImpl>(Handle(), std::nullopt, std::move(properties),
                                                 std::move(kept));
}

}  // namespace neap
