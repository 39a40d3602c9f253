// How fast ResNet-50 trains if its graph, or the size of its images, is another one in every step:
// stochastic depth (Huang et al., 2016) with 16 graphs, and 8 sizes from 160 to 288. Each graph and
// each size also trains by itself, for comparison.
//
//   example_changing_graphs cuda:0 256          in bf16, 256 images of 224x224
//   example_changing_graphs cpu 2 32 1          in fp32, an eighth as wide, 2 images of 32x32, and
//                                               one round instead of ten
#include <neap/neap.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int64_t kBlocks = 16;        // of ResNet-50
constexpr double kLastSurvives = 0.5;  // the paper's p_L; it falls linearly from the first block

struct Setting {
  std::string device = "cpu";
  int64_t batch = 2;
  int64_t image = 224;
  int rounds = 10;  // each graph and size, by itself and in turns
};

bool IsOnGpu(const Setting& setting) { return setting.device != "cpu"; }

neap::nets::ResNetOptions Options(const Setting& setting) {
  neap::nets::ResNetOptions options = {.image = setting.image, .batch = setting.batch};
  if (!IsOnGpu(setting)) {
    options.width = 8;
    return options;
  }
  options.dtype = neap::DType::kBf16;
  options.layout = neap::Layout::kChannelsLast;
  return options;
}

std::vector<neap::Graph> DrawGraphs(const Setting& setting) {
  std::mt19937 random(1);
  std::vector<neap::Graph> graphs;
  while (graphs.size() < 16) {
    neap::nets::ResNetOptions options = Options(setting);
    for (int64_t block = 0; block < kBlocks; ++block) {
      const double depth = static_cast<double>(block + 1) / kBlocks;
      const double survives = 1 - depth * (1 - kLastSurvives);
      if (std::generate_canonical<double, 32>(random) >= survives) options.dropped.push_back(block);
    }
    const neap::Graph graph = neap::nets::ResNet(options);
    if (std::find(graphs.begin(), graphs.end(), graph) == graphs.end()) graphs.push_back(graph);
  }
  return graphs;
}

// 8 sizes around that of the network, with as many images as have about as many pixels.
std::vector<neap::GraphSize> Sizes(const Setting& setting) {
  std::vector<neap::GraphSize> sizes;
  for (int64_t step = 0; step < 8; ++step) {
    const int64_t image = setting.image * (160 + 128 * step / 7) / 224;
    const int64_t batch = setting.batch * setting.image * setting.image / (image * image);
    sizes.push_back({.extents = {image, image}, .batch = std::max<int64_t>(batch, 2)});
  }
  return sizes;
}

neap::Batch RandomBatch(int64_t images, int64_t image, bool states_size) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  neap::Batch batch;
  batch.images.resize(static_cast<size_t>(images * 3 * image * image));
  for (float& value : batch.images) value = normal(random);
  for (int64_t i = 0; i < images; ++i) batch.labels.push_back(static_cast<int32_t>(i % 1000));
  if (states_size) batch.height = batch.width = image;
  return batch;
}

// A step of one of several variants.
using Variant = std::function<absl::Status(neap::Session& session)>;

// Milliseconds for each step of the variants, one after another, as often as there are rounds. Two
// steps are in flight.
absl::StatusOr<std::vector<double>> Train(neap::Session& session, const std::vector<Variant>& each,
                                          int rounds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> ms;
  Clock::time_point last = Clock::now();
  int in_flight = 0;
  const auto finish = [&]() -> absl::Status {
    RETURN_IF_ERROR(session.Finish().status());
    --in_flight;
    const Clock::time_point now = Clock::now();
    ms.push_back(std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
    return absl::OkStatus();
  };
  for (int round = 0; round < rounds; ++round) {
    for (const Variant& variant : each) {
      if (in_flight == 2) RETURN_IF_ERROR(finish());
      RETURN_IF_ERROR(variant(session));
      ++in_flight;
    }
  }
  while (in_flight > 0) RETURN_IF_ERROR(finish());
  return ms;
}

double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum;
}

// Trains each variant by itself, and then all in turns; says how fast that is, and which step took
// longest.
absl::Status Compare(const char* what, neap::Session& session, const std::vector<Variant>& each,
                     int rounds) {
  const int warm_up = std::min(rounds, 3);
  RETURN_IF_ERROR(Train(session, each, warm_up).status());  // makes and records the kernels
  double alone = 0;
  for (const Variant& variant : each) {
    RETURN_IF_ERROR(Train(session, {variant}, warm_up).status());
    ASSIGN_OR_RETURN(const std::vector<double> ms, Train(session, {variant}, rounds));
    alone += Sum(ms);
    const neap::MemoryUse use = session.memory();
    if (use.measured_peak_bytes != use.predicted_peak_bytes)
      std::printf("the measured peak is not the predicted one\n");
  }
  const neap::ExecutableStats before = session.executables();
  const int64_t plans = session.plan_cache().misses;
  ASSIGN_OR_RETURN(const std::vector<double> ms, Train(session, each, rounds));
  const bool later =
      session.executables().made > before.made || session.plan_cache().misses > plans;
  std::printf(
      "%zu %s: %.2f ms for a step by itself, %.2f ms in turns: %.1f%% of the speed; the longest "
      "step "
      "took %.2f ms; arena %lld bytes; %lld plans and %lld sets of kernels made before, %s later\n",
      each.size(), what, alone / static_cast<double>(ms.size()),
      Sum(ms) / static_cast<double>(ms.size()), 100 * alone / Sum(ms),
      *std::max_element(ms.begin(), ms.end()), static_cast<long long>(session.memory().arena_bytes),
      static_cast<long long>(plans), static_cast<long long>(before.made),
      later ? "others" : "none");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<neap::Device>> Open(const Setting& setting) {
  if (!IsOnGpu(setting)) return neap::CpuDevice::Open();
  return neap::CudaDevice::Open(std::atoi(setting.device.substr(5).c_str()));
}

absl::Status Run(const Setting& setting) {
  ASSIGN_OR_RETURN(const std::unique_ptr<neap::Device> device, Open(setting));
  const neap::TrainingOptions training = {.learning_rate = {.base = 0.01F}, .training_only = true};
  neap::Graph net = neap::nets::ResNet(Options(setting));
  {
    ASSIGN_OR_RETURN(neap::Session session, neap::CreateSession(net, *device, {}, training));
    const neap::Batch batch = RandomBatch(setting.batch, setting.image, /*states_size=*/false);
    std::vector<Variant> each;
    for (const neap::Graph& graph : DrawGraphs(setting)) {
      each.emplace_back([graph, &batch](neap::Session& trained) -> absl::Status {
        RETURN_IF_ERROR(trained.SetTrainingGraph(graph));
        return trained.Begin(batch);
      });
    }
    RETURN_IF_ERROR(Compare("graphs", session, each, setting.rounds));
  }
  const std::vector<neap::GraphSize> sizes = Sizes(setting);
  net.Sizes(sizes);
  ASSIGN_OR_RETURN(neap::Session session, neap::CreateSession(net, *device, {}, training));
  std::vector<Variant> each;
  for (const neap::GraphSize& size : sizes) {
    const auto batch = std::make_shared<const neap::Batch>(
        RandomBatch(size.batch, size.extents[0], /*states_size=*/true));
    each.emplace_back([batch](neap::Session& trained) { return trained.Begin(*batch); });
  }
  return Compare("sizes", session, each, setting.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  if (argc > 1) setting.device = argv[1];
  if (argc > 2) setting.batch = std::atoll(argv[2]);
  if (argc > 3) setting.image = std::atoll(argv[3]);
  if (argc > 4) setting.rounds = std::atoi(argv[4]);
  const absl::Status status = Run(setting);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
