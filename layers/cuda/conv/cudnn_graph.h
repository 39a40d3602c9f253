// A convolution as a graph of cudnn-frontend: its engines as heuristics list them, and the plan
// that is built of one. Private to layers/cuda/conv/cudnn_convolution.cc, the one file that
// includes it. Lower() comes first, then List() or Build().
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/cuda/device/cudnn_frontend.h"

namespace neap::cudnn {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Position in the variant pack: pointers are passed in this order.
enum Uid : int64_t { kX = 1, kWeight = 2, kY = 3, kBias = 4 };

// Of N, C and the spatial axes.
inline std::vector<int64_t> Strides(const TensorSpec& t) {
  const bool channels_last = t.layout == Layout::kChannelsLast;
  std::vector<int64_t> strides(t.shape.dims().size());
  int64_t step = channels_last ? t.shape.c() : 1;
  for (size_t axis = strides.size() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= t.shape.dims()[axis];
  }
  strides[0] = t.shape.c() * t.shape.positions();
  strides[1] = channels_last ? 1 : step;
  return strides;
}

inline fe::graph::Tensor_attributes Attributes(const TensorSpec& t, Uid uid) {
  fe::graph::Tensor_attributes attributes;
  attributes.set_dim({t.shape.dims().begin(), t.shape.dims().end()})
      .set_stride(Strides(t))
      .set_data_type(DataTypeOf(t.dtype))
      .set_uid(uid);
  return attributes;
}

// A number for each of the problem's axes.
inline std::vector<int64_t> PerAxis(const ConvolutionProblem& problem, const Extents& extents) {
  const Extents each = extents.Along(problem.axes());
  return {each.values().begin(), each.values().end()};
}

template <typename Operation>
Operation WithWindow(const ConvolutionProblem& problem) {
  Operation operation;
  operation.set_padding(PerAxis(problem, problem.padding))
      .set_stride(PerAxis(problem, problem.stride))
      .set_dilation(PerAxis(problem, problem.dilation));
  return operation;
}

inline std::string EngineId(const fe::ManagedOpaqueDescriptor& config) {
  return fe::detail::get_engine_tag(config);
}

// The type of the sums.
inline fe::DataType_t SumTypeOf(const ConvolutionProblem& problem) {
  return problem.half_accumulation ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

inline EngineNotes NotesOf(cudnnBackendDescriptor_t config) {
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
    const std::vector<int64_t> stride = PerAxis(problem_, problem_.stride);
    const std::vector<int64_t> padding = PerAxis(problem_, problem_.padding);
    const std::vector<int64_t> dilation = PerAxis(problem_, problem_.dilation);
    const int64_t axes = problem_.axes();
    const fe::ConvDesc window = fe::ConvDescBuilder()
                                    .setComputeType(SumTypeOf(problem_))
                                    .setMathMode(CUDNN_CROSS_CORRELATION)
                                    .setSpatialDimCount(axes)
                                    .setSpatialStride(axes, stride.data())
                                    .setPrePadding(axes, padding.data())
                                    .setPostPadding(axes, padding.data())
                                    .setDilation(axes, dilation.data())
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
    const std::vector<int64_t> ones(static_cast<size_t>(problem_.axes()), 1);
    const TensorSpec bias = {.shape = SpatialShape(1, problem_.y.shape.c(), ones),
                             .dtype = problem_.y.dtype,
                             .layout = problem_.y.layout};
    sums = pointwise(sums, tensor(Attributes(bias, kBias)),
                     fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    return pointwise(sums,
                     fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  }

  ConvolutionProblem problem_;
};

}  // namespace neap::cudnn
