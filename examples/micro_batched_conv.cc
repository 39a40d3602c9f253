// Runs a single convolution in micro-batches, without a network, as u-cuDNN does below a framework.
// The second convolution of AlexNet is profiled, planned within a workspace, and run in memory that
// belongs to this program: forward and both backward steps, each next to the fastest engine for
// the whole batch in the same workspace.
//
//   example_micro_batched_conv [WORKSPACE [PROFILE]]    # 64MiB, micro_batched_conv.db
#include <neap/advanced.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

// conv2 of AlexNet, or a smaller convolution in less workspace if there is no GPU.
struct Problem {
  neap::TensorSpec x;
  neap::Convolution layer;
  int64_t workspace_bytes = 0;
};
Problem ProblemFor(const neap::Device& device) {
  if (device.description().kind == "cuda") {
    return {.x = {{256, 64, 27, 27}},
            .layer = {.out_channels = 192, .kernel = 5, .padding = 2},
            .workspace_bytes = 64 * neap::kMiB};
  }
  return {.x = {{8, 16, 7, 7}},
          .layer = {.out_channels = 16, .kernel = 5, .padding = 2},
          .workspace_bytes = 64 * neap::kKiB};
}

absl::StatusOr<std::vector<neap::StepSignature>> StepsOf(const Problem& problem) {
  std::vector<neap::StepSignature> steps;
  for (neap::Phase phase :
       {neap::Phase::kForward, neap::Phase::kBackwardParams, neap::Phase::kBackwardData}) {
    ASSIGN_OR_RETURN(neap::StepSignature step,
                     neap::SignatureOf(problem.layer, phase, {problem.x}));
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::StatusOr<std::unique_ptr<neap::Device>> OpenDevice() {
  absl::StatusOr<std::unique_ptr<neap::Device>> gpu = neap::CudaDevice::Open(0);
  return gpu.ok() ? std::move(gpu) : neap::CpuDevice::Open();
}

absl::StatusOr<neap::ProfileDatabase> OpenProfile(const std::string& path, neap::Device& device) {
  return neap::ProfileDatabase::Open(
      path, {.name = device.description().name, .versions = device.backend().Versions()});
}

// The operands of a step in device memory, filled with random numbers.
class Operands {
 public:
  static absl::StatusOr<Operands> Make(const neap::StepSignature& step, neap::Device& device) {
    Operands operands;
    std::mt19937 random(1);
    for (const neap::OperandSpec& operand : step.operands) {
      const int64_t bytes = operand.tensor.size_bytes();
      ASSIGN_OR_RETURN(neap::Buffer host, device.Allocate(neap::MemoryKind::kPinnedHost, bytes));
      ASSIGN_OR_RETURN(neap::Buffer buffer, device.Allocate(neap::MemoryKind::kDevice, bytes));
      auto* const values = reinterpret_cast<float*>(host.data());
      std::generate_n(values, operand.tensor.elements(),
                      [&] { return static_cast<float>(random()) * 0x1p-31F - 1.0F; });
      RETURN_IF_ERROR(device.Copy(neap::Stream::kCompute, buffer.data(), host.data(), bytes));
      RETURN_IF_ERROR(device.Synchronize());
      operands.addresses_.push_back(buffer.data());
      operands.buffers_.push_back(std::move(buffer));
    }
    return operands;
  }
  absl::Span<void* const> addresses() const { return addresses_; }

 private:
  std::vector<neap::Buffer> buffers_;
  std::vector<void*> addresses_;
};

// Runs the step by the configuration. Returns the tensors that it wrote, one after another.
absl::StatusOr<std::vector<float>> Run(const neap::StepSignature& step,
                                       const neap::Configuration& configuration,
                                       neap::Device& device) {
  ASSIGN_OR_RETURN(const Operands operands, Operands::Make(step, device));
  ASSIGN_OR_RETURN(const neap::Buffer workspace,
                   device.Allocate(neap::MemoryKind::kDevice,
                                   std::max<int64_t>(configuration.workspace_bytes, 1)));
  ASSIGN_OR_RETURN(const std::unique_ptr<neap::Kernel> kernel,
                   neap::MakeDividedKernel(device.backend(), step, configuration.parts,
                                           configuration.workspace_bytes));
  RETURN_IF_ERROR(kernel->Run({.operands = operands.addresses(),
                               .workspace = workspace.data(),
                               .workspace_bytes = configuration.workspace_bytes}));
  std::vector<float> written;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    if (step.operands[i].access == neap::Access::kRead) continue;
    const int64_t bytes = step.operands[i].tensor.size_bytes();
    ASSIGN_OR_RETURN(neap::Buffer host, device.Allocate(neap::MemoryKind::kPinnedHost, bytes));
    RETURN_IF_ERROR(
        device.Copy(neap::Stream::kCompute, host.data(), operands.addresses()[i], bytes));
    RETURN_IF_ERROR(device.Synchronize());
    const auto* const values = reinterpret_cast<const float*>(host.data());
    written.insert(written.end(), values, values + step.operands[i].tensor.elements());
  }
  return written;
}

// The largest difference, relative to the largest value; infinite if either has a NaN.
double Difference(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double by = std::abs(double{got[i]} - double{want[i]});
    difference =
        std::max(difference, std::isnan(by) ? std::numeric_limits<double>::infinity() : by);
    largest = std::max(largest, std::abs(double{want[i]}));
  }
  return difference / largest;
}

// "2 x 128 by eng40, 12.000 MiB"
std::string Text(const neap::Configuration& configuration) {
  std::string text;
  const std::vector<neap::EngineUse>& parts = configuration.parts;
  for (auto part = parts.begin(); part != parts.end();) {
    const auto next = std::find_if(part, parts.end(), [&](const auto& p) { return p != *part; });
    text += std::to_string(next - part) + " x " + std::to_string(part->batch) + " by " +
            part->engine + ", ";
    part = next;
  }
  return text + neap::FormatBytes(configuration.workspace_bytes);
}

// Micro-batches must give the results of the undivided step. The bits are equal if the same engine
// runs, except for sums over the batch, and except on a GPU, where an engine may compute
// differently for other batch sizes.
absl::Status CheckSame(const neap::StepSignature& step, const neap::Configuration& undivided,
                       const neap::Configuration& divided, neap::Device& device) {
  ASSIGN_OR_RETURN(const std::vector<float> want, Run(step, undivided, device));
  ASSIGN_OR_RETURN(const std::vector<float> got, Run(step, divided, device));
  const bool is_same_engine =
      std::all_of(divided.parts.begin(), divided.parts.end(),
                  [&](const auto& part) { return part.engine == undivided.parts.front().engine; });
  const bool are_same_bits = is_same_engine && device.description().kind == "cpu" &&
                             step.phase != neap::Phase::kBackwardParams;
  const double difference = Difference(got, want);
  std::cout << "  largest difference: " << difference << " of the largest value\n";
  if (difference <= (are_same_bits ? 0 : 1e-3)) return absl::OkStatus();
  return absl::InternalError("micro-batches gave another result");
}

absl::Status PlanAndRun(const neap::StepSignature& step, int64_t workspace_bytes,
                        const neap::KernelTimings& timings, neap::Profiler& profiler,
                        neap::Device& device) {
  neap::ConvolutionOptions options = {.workspace_limit_bytes = workspace_bytes,
                                      .timings = &timings};
  ASSIGN_OR_RETURN(const neap::Configuration divided,
                   neap::PlanConvolution(step, options, device.backend()));
  options.divisions = neap::DivisionPolicy::kUndivided;
  ASSIGN_OR_RETURN(const neap::Configuration undivided,
                   neap::PlanConvolution(step, options, device.backend()));
  ASSIGN_OR_RETURN(const double divided_seconds, profiler.MedianSeconds(step, divided));
  ASSIGN_OR_RETURN(const double undivided_seconds, profiler.MedianSeconds(step, undivided));
  std::cout << neap::Name(step.phase) << "\n  undivided:     " << undivided_seconds * 1e3 << " ms, "
            << Text(undivided) << "\n  micro-batches: " << divided_seconds * 1e3 << " ms, "
            << Text(divided) << "\n";
  return CheckSame(step, undivided, divided, device);
}

absl::Status Compare(absl::Span<char* const> arguments) {
  ASSIGN_OR_RETURN(const std::unique_ptr<neap::Device> device, OpenDevice());
  Problem problem = ProblemFor(*device);
  if (!arguments.empty()) {
    ASSIGN_OR_RETURN(problem.workspace_bytes, neap::ParseBytes(arguments[0]));
  }
  const std::string path = arguments.size() > 1 ? arguments[1] : "micro_batched_conv.db";
  ASSIGN_OR_RETURN(const std::vector<neap::StepSignature> steps, StepsOf(problem));
  ASSIGN_OR_RETURN(neap::ProfileDatabase database, OpenProfile(path, *device));
  ASSIGN_OR_RETURN(neap::Profiler profiler,
                   neap::Profiler::Create(
                       steps, {.workspace_limit_bytes = problem.workspace_bytes, .samples = 3},
                       *device, database));
  while (profiler.done() < profiler.total()) RETURN_IF_ERROR(profiler.MeasureNext());
  std::cout << device->description().name << ", " << profiler.measured() << " engines timed, "
            << neap::FormatBytes(problem.workspace_bytes) << " of workspace\n";
  ASSIGN_OR_RETURN(neap::ProfileDatabase measured, OpenProfile(path, *device));
  const neap::ProfiledTimings timings(std::move(measured));
  for (const neap::StepSignature& step : steps)
    RETURN_IF_ERROR(PlanAndRun(step, problem.workspace_bytes, timings, profiler, *device));
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = Compare(absl::MakeSpan(argv + 1, argv + argc));
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
