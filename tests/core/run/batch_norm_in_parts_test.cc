// Batch norms with the statistics of each part of a batch: training agrees with the same network in
// float64, written here as PyTorch trains it in parts: for each part, forward and backward of the
// sum of its losses over the number of images of the whole batch, and one step of the optimizer at
// the end.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/random_graph.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr size_t kMlpFeatures = 6, kMlpHidden = 5, kMlpClasses = 3;
constexpr float kMlpRate = 0.2F, kMlpEpsilon = 1e-5F, kMlpMomentum = 0.1F;
constexpr TrainingOptions kNormalisedTraining = {.optimizer = {.momentum = 0},
                                                 .learning_rate = {.base = kMlpRate}};

Graph NormalisedMlp(int64_t batch) {
  Graph net({.name = "mlp", .batch = batch});
  std::string x = net.Input({kMlpFeatures, 1, 1});
  x = net.Add("first", FullyConnected{.out_features = kMlpHidden}, {x});
  x = net.Add("bn", BatchNorm{.epsilon = kMlpEpsilon, .momentum = kMlpMomentum}, {x});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("second", FullyConnected{.out_features = kMlpClasses}, {x}),
           SoftmaxCrossEntropy{});
  return net;
}

Batch NormalisedBatch(uint64_t seed, int64_t size) {
  Batch batch = {.size = size};
  const auto images = static_cast<uint64_t>(size);
  for (uint64_t i = 0; i < images * kMlpFeatures; ++i)
    batch.images.push_back(2 * ToUnitFloat(Philox({seed, 1, i})[0]) - 1);
  for (uint64_t i = 0; i < images; ++i)
    batch.labels.push_back(static_cast<int32_t>(Philox({seed, 2, i})[0] % kMlpClasses));
  batch.labels[1] = kNoLabel;
  return batch;
}

using Matrix = std::vector<std::vector<double>>;  // rows of images

Matrix Zeros(size_t rows, size_t columns) {
  return Matrix(rows, std::vector<double>(columns));  // NOLINT(modernize-return-braced-init-list)
}

// The network, its gradients and running statistics in float64.
class MlpReference {
 public:
  explicit MlpReference(Session& session) {
    for (const auto& [name, rows] : std::map<std::string, size_t>{{"first.weight", kMlpHidden},
                                                                  {"first.bias", kMlpHidden},
                                                                  {"bn.weight", kMlpHidden},
                                                                  {"bn.bias", kMlpHidden},
                                                                  {"second.weight", kMlpClasses},
                                                                  {"second.bias", kMlpClasses}}) {
      const std::vector<float> values = *session.Values(name);
      params_[name] = std::vector<double>(values.begin(), values.end());
    }
  }

  // The loss of a step whose batch is run in parts of these sizes.
  double Step(const Batch& batch, const std::vector<size_t>& parts) {
    gradients_.clear();
    for (const auto& [name, values] : params_) gradients_[name].resize(values.size());
    double loss = 0;
    size_t first = 0;
    for (const size_t images : parts) {
      loss += Part(batch, first, images);
      first += images;
    }
    for (auto& [name, values] : params_) {
      for (size_t i = 0; i < values.size(); ++i) values[i] -= kMlpRate * gradients_[name][i];
    }
    return loss;
  }

  std::map<std::string, std::vector<double>> Persistent() const {
    std::map<std::string, std::vector<double>> all = params_;
    all["bn.running_mean"] = mean_;
    all["bn.running_var"] = variance_;
    return all;
  }

 private:
  // y = x W^T + b
  Matrix Linear(const Matrix& x, const std::string& layer) const {
    const std::vector<double>& weight = params_.at(layer + ".weight");
    const std::vector<double>& bias = params_.at(layer + ".bias");
    Matrix y;
    for (const std::vector<double>& row : x) {
      y.emplace_back(bias);
      for (size_t i = 0; i < weight.size(); ++i)
        y.back()[i / row.size()] += weight[i] * row[i % row.size()];
    }
    return y;
  }
  Matrix LinearBackward(const Matrix& x, const Matrix& dy, const std::string& layer) {
    const std::vector<double>& weight = params_.at(layer + ".weight");
    Matrix dx = Zeros(x.size(), x[0].size());
    for (size_t n = 0; n < x.size(); ++n) {
      const size_t width = x[n].size();
      for (size_t i = 0; i < weight.size(); ++i) {
        dx[n][i % width] += weight[i] * dy[n][i / width];
        gradients_[layer + ".weight"][i] += x[n][i % width] * dy[n][i / width];
      }
      for (size_t c = 0; c < dy[n].size(); ++c) gradients_[layer + ".bias"][c] += dy[n][c];
    }
    return dx;
  }

  double Part(const Batch& batch, size_t first, size_t images) {
    const auto count = static_cast<double>(images);
    Matrix x = Zeros(images, kMlpFeatures);
    for (size_t n = 0; n < images; ++n) {
      for (size_t i = 0; i < kMlpFeatures; ++i)
        x[n][i] = static_cast<double>(batch.images[(first + n) * kMlpFeatures + i]);
    }
    const Matrix hidden = Linear(x, "first");
    Matrix normed = hidden, relu = hidden;  // normed: (x - mean) / deviation
    std::vector<double> deviation(kMlpHidden);
    for (size_t c = 0; c < kMlpHidden; ++c) {
      double sum = 0, squares = 0;
      for (const auto& row : hidden) sum += row[c];
      const double mean = sum / count;
      for (const auto& row : hidden) squares += (row[c] - mean) * (row[c] - mean);
      deviation[c] = std::sqrt(squares / count + kMlpEpsilon);
      mean_[c] = (1 - kMlpMomentum) * mean_[c] + kMlpMomentum * mean;
      variance_[c] = (1 - kMlpMomentum) * variance_[c] + kMlpMomentum * squares / (count - 1);
      for (size_t n = 0; n < images; ++n) {
        normed[n][c] = (hidden[n][c] - mean) / deviation[c];
        relu[n][c] = std::max(0.0, params_["bn.weight"][c] * normed[n][c] + params_["bn.bias"][c]);
      }
    }
    const Matrix logits = Linear(relu, "second");
    double loss = 0;
    Matrix dlogits = Zeros(images, kMlpClasses);
    for (size_t n = 0; n < images; ++n) {
      const int32_t label = batch.labels[first + n];
      if (label == kNoLabel) continue;
      double sum = 0;
      for (const double logit : logits[n]) sum += std::exp(logit);
      const auto size = static_cast<double>(batch.size);
      loss += (std::log(sum) - logits[n][static_cast<size_t>(label)]) / size;
      for (size_t c = 0; c < kMlpClasses; ++c) {
        const double target = static_cast<int32_t>(c) == label ? 1 : 0;
        dlogits[n][c] = (std::exp(logits[n][c]) / sum - target) / size;
      }
    }
    Matrix dy = LinearBackward(relu, dlogits, "second");
    Matrix dhidden = dy;
    for (size_t c = 0; c < kMlpHidden; ++c) {
      double dgamma = 0, dbeta = 0;
      for (size_t n = 0; n < images; ++n) {
        if (relu[n][c] <= 0) dy[n][c] = 0;
        dgamma += dy[n][c] * normed[n][c];
        dbeta += dy[n][c];
      }
      for (size_t n = 0; n < images; ++n) {
        dhidden[n][c] = params_["bn.weight"][c] / deviation[c] *
                        (dy[n][c] - dbeta / count - normed[n][c] * dgamma / count);
      }
      gradients_["bn.weight"][c] += dgamma;
      gradients_["bn.bias"][c] += dbeta;
    }
    LinearBackward(x, dhidden, "first");
    return loss;
  }

  std::map<std::string, std::vector<double>> params_, gradients_;
  std::vector<double> mean_ = std::vector<double>(kMlpHidden, 0);
  std::vector<double> variance_ = std::vector<double>(kMlpHidden, 1);
};

}  // namespace

TEST_CASE("batch norms of unequal parts train as in float64") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  struct Division {
    int64_t batch, asked;
    std::vector<size_t> parts;
  };
  for (const Division& division : {Division{8, 1, {8}}, Division{8, 2, {4, 4}},
                                   Division{8, 3, {3, 3, 2}}, Division{11, 4, {3, 3, 3, 2}}}) {
    const int64_t batch = division.batch, asked = division.asked;
    CAPTURE(batch);
    CAPTURE(asked);
    const PlannerOptions planning = {.sub_batches = asked, .batch_norm_in_parts = true};
    Session session = Opened(NormalisedMlp(batch), *cpu, planning, kNormalisedTraining);
    CHECK(session.plan().batch_norm_in_parts == (asked > 1));
    MlpReference reference(session);
    for (uint64_t step = 0; step < 6; ++step) {
      const Batch images = NormalisedBatch(step, batch);
      const double expected = reference.Step(images, division.parts);
      CHECK(session.TrainStep(images).value() == doctest::Approx(expected).epsilon(1e-5));
    }
    for (const auto& tensor : reference.Persistent()) {
      const std::string& name = tensor.first;
      const auto& expected = tensor.second;
      CAPTURE(name);
      const std::vector<float> values = *session.Values(name);
      REQUIRE(values.size() == expected.size());
      for (size_t i = 0; i < values.size(); ++i)
        CHECK(static_cast<double>(values[i]) == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("batch norms of parts: random networks train to the same bits under every policy") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  constexpr const char* kPolicies[] = {"auto", "superneurons", "chen", "cost-aware"};
  for (uint32_t seed = 0; seed < testing::RandomSeeds(8); ++seed) {
    CAPTURE(seed);
    const DType dtype = seed % 3 == 0 ? DType::kFp32 : seed % 3 == 1 ? DType::kBf16 : DType::kFp16;
    const Graph graph = testing::RandomGraph(
        seed, {.batch = 8,
               .dtype = dtype,
               .layout = seed % 5 == 4 ? Layout::kChannelsLast : Layout::kChannelsFirst,
               .residual = seed % 4 == 1,
               .dense = seed % 4 == 2,
               .mobile = seed % 4 == 3});
    PlannerOptions options = {
        .policy = "keep-all", .sub_batches = 3, .batch_norm_in_parts = true, .in_place = false};
    Session unmanaged = Opened(graph, *cpu, options, kNormalisedTraining);
    Train(unmanaged, 3);
    options.policy = kPolicies[seed % std::size(kPolicies)];
    CAPTURE(options.policy);
    options.in_place = true;
    options.budget_bytes =
        Opened(graph, *cpu, options, kNormalisedTraining).planning().minimum_budget_bytes;
    Session managed = Opened(graph, *cpu, options, kNormalisedTraining);
    Train(managed, 3);
    CheckSameState(managed, unmanaged);
  }
}

TEST_CASE("a plan file says that batch norms are of parts, and is run so") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  const PlannerOptions planning = {.sub_batches = 3, .batch_norm_in_parts = true};
  Session planned = Opened(NormalisedMlp(8), *cpu, planning, kNormalisedTraining);
  const std::string json = planned.plan().ToJson();
  CHECK(json.find("\"batch_norm_in_parts\":true") != std::string::npos);
  CHECK(Plan::FromJson(json).value() == planned.plan());
  CHECK(planned.plan().Summary().find("in 3 sub-batches, batch norms of each alone") !=
        std::string::npos);
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  WriteText(file, json);
  const auto planner = PlannerFromFile(file, PlannerFor({.policy = "auto"})).value();
  Session read = Session::Create(NormalisedMlp(8), *cpu, planner, kNormalisedTraining).value();
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = NormalisedBatch(step, 8);
    CHECK(read.TrainStep(batch).value() == planned.TrainStep(batch).value());
  }
  CheckSameState(read, planned);
  CHECK(read.Evaluate(NormalisedBatch(4, 8)).ok());
}

}  // namespace neap
