#include "neap/layers/cuda/conv/cudnn_convolution.h"

#include <cstdlib>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/cuda/conv/cudnn_graph.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap {

namespace {

namespace fe = cudnn::fe;
using cudnn::ConvolutionGraph;
using cudnn::CudnnStatus;
using cudnn::FrontendStatus;
using cudnn::Handle;
using cudnn::ListingHandles;
using cudnn::NewHandle;

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
    RETURN_IF_ERROR(CheckTrusted(problem, Version()));
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
