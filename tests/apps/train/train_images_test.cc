// neap train, eval and predict on folders of images: --val, --skip-bad, --log-dir.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/image_files.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// Reddish, greenish and bluish photographs: JPEG files, every fourth a PNG.
void WriteColors(const std::string& directory, int images_per_class, uint32_t seed) {
  const std::vector<std::string> classes = {"blue", "green", "red"};
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::filesystem::path folder = std::filesystem::path(directory) / classes[c];
    std::filesystem::create_directories(folder);
    for (int i = 0; i < images_per_class; ++i) {
      TestImage photo = Photo(30 + i, 26, seed + static_cast<uint32_t>(i));
      for (size_t p = 0; p < photo.rgb.size(); ++p) {
        if (p % 3 != 2 - c) photo.rgb[p] /= 3;
      }
      const std::string name = folder / std::to_string(100 + i);
      WriteText(name + (i % 4 == 0 ? ".png" : ".jpg"),
                i % 4 == 0 ? PngBytes(photo) : JpegBytes(photo));
    }
  }
}

struct Folders {
  ScratchDirectory root;
  std::string train = root.File("train");
  std::string val = root.File("val");

  Folders() {
    WriteColors(train, 16, 1);
    WriteColors(val, 5, 100);
  }
};

Args TrainOn(const std::string& directory) {
  return {"train",    "resnet-cifar", "--depth",   "8",
          "--image",  "16",           "--classes", "3",
          "--batch",  "12",           "--lr",      "0.05",
          "--device", "cpu",          "--data",    "imagefolder:" + directory};
}

std::vector<Json> EventsOf(const std::vector<Json>& lines, const std::string& event) {
  std::vector<Json> found;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
               [&](const Json& line) { return line.at("event") == event; });
  return found;
}

TEST_CASE("a folder of images trains, and --val reports top-1 and top-5 after every epoch") {
  const Folders folders;
  const Args args = Joined(TrainOn(folders.train), {"--epochs", "10", "--augment", "--color-jitter",
                                                    "0.2", "--val", folders.val});
  const std::vector<Json> lines = RunForJson(args);
  const std::vector<Json> epochs = EventsOf(lines, "epoch");
  REQUIRE(epochs.size() == 10);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(epochs[i].at("epoch") == i + 1);
    CHECK(epochs[i].at("step") == 4 * (i + 1));  // 48 images
    const Json& validation = epochs[i].at("validation");
    CHECK(validation.at("images") == 15);
    CHECK(validation.at("correct_top5") == 15);  // there are three classes
  }
  CHECK(epochs.back().at("validation").at("accuracy") > 0.9);
  CHECK(lines.back().at("peaks_equal") == true);

  Args other = Joined(args, {"--workers", "1"});
  CHECK(LossesOf(RunForJson(other)) == LossesOf(lines));

  // Epochs that do not end with a batch: after 40 of 48 images, after 90 of 96, and at the end.
  const Outcome text = RunNeap(
      Joined(TrainOn(folders.train), {"--batch", "10", "--steps", "10", "--val", folders.val}));
  CHECK(text.exit_code == 0);
  for (const char* line :
       {"epoch 1/2, step 4: top-1 ", "epoch 2/2, step 9: top-1 ", "epoch 2/2, step 10: top-1 "})
    CHECK(text.out.find(line) != std::string::npos);
  CHECK(text.out.find("of 15 images), top-5 100.00%, loss ") != std::string::npos);
}

TEST_CASE("neap eval and predict read folders of images") {
  const Folders folders;
  const std::string weights = folders.root.File("run.safetensors");
  const std::vector<Json> lines = RunForJson(
      Joined(TrainOn(folders.train), {"--epochs", "2", "--val", folders.val, "--save", weights}));
  const Args net = {
      "resnet-cifar", "--depth",   "8",       "--image", "16",
      "--classes",    "3",         "--batch", "4",       "--device",
      "cpu",          "--weights", weights,   "--data",  "imagefolder:" + folders.val};
  const std::vector<Json> evaluated = RunForJson(Joined({"eval"}, net));
  const Json validation = EventsOf(lines, "epoch").back().at("validation");
  CHECK(evaluated.back().at("correct") == validation.at("correct"));
  CHECK(evaluated.back().at("correct_top5") == 15);
  CHECK(evaluated.back().at("loss").get<double>() ==
        doctest::Approx(validation.at("loss").get<double>()).epsilon(1e-4));
  CHECK(RunNeap(Joined({"predict"}, net)).exit_code == 0);
}

TEST_CASE("neap eval and predict skip and list files that cannot be decoded, with any --workers") {
  const Folders folders;
  const std::string weights = folders.root.File("run.safetensors");
  REQUIRE(RunNeap(Joined(TrainOn(folders.train), {"--steps", "1", "--save", weights})).exit_code ==
          0);
  const std::string bad = folders.val + "/green/101.jpg";
  WriteText(bad, "no image");
  const Args net = {
      "resnet-cifar", "--depth",   "8",       "--image", "16",
      "--classes",    "3",         "--batch", "4",       "--device",
      "cpu",          "--weights", weights,   "--data",  "imagefolder:" + folders.val};
  const std::string error = bad + ": the file is neither JPEG nor PNG";
  for (const char* command : {"eval", "predict"})
    CheckRefused(Joined({command}, net), 1, {error.c_str()});

  const Args skips = Joined(net, {"--skip-bad"});
  const Json evaluated = RunForJson(Joined({"eval"}, skips)).back();
  CHECK(evaluated.at("bad_files") == Json::array({error}));
  CHECK(evaluated.at("images") == 15);
  CHECK(RunForJson(Joined({"eval"}, Joined(skips, {"--workers", "1"}))).back() == evaluated);
  const std::string listed = "skipped 1 files that cannot be decoded, 1 in all\n  " + error + "\n";
  const std::string text = RunNeap(Joined({"eval"}, skips)).out;
  CHECK(text.find("of 15 images)") != std::string::npos);
  CHECK(text.find(listed) != std::string::npos);

  const Outcome predicted = RunNeap(Joined({"predict"}, skips));
  CHECK(predicted.exit_code == 0);
  CHECK(predicted.err == "neap: " + listed);
  CHECK(std::count(predicted.out.begin(), predicted.out.end(), '\n') == 15);  // with the header
  CHECK(predicted.out.find(bad) == std::string::npos);
  CHECK(RunNeap(Joined({"predict"}, Joined(skips, {"--workers", "1"}))).out == predicted.out);

  for (const char* command : {"eval", "predict"}) {
    CheckRefused(Joined({command}, Joined(skips, {"--data", "synthetic"})), 2,
                 {"--skip-bad needs --data imagefolder:DIR"});
    CheckRefused(Joined({command}, Joined(net, {"--exif-orientation", "--data", "synthetic"})), 2,
                 {"--exif-orientation needs --data imagefolder:DIR"});
  }
}

TEST_CASE("a file that cannot be decoded ends training, or is skipped and listed") {
  const Folders folders;
  const std::string bad = folders.train + "/green/105.jpg";
  WriteText(bad, ReadText(bad).substr(0, 500));
  const Args args = Joined(TrainOn(folders.train), {"--epochs", "2"});
  CheckRefused(args, 1, {bad, "Premature end of JPEG file"});

  const std::vector<Json> epochs = EventsOf(RunForJson(Joined(args, {"--skip-bad"})), "epoch");
  REQUIRE(epochs.size() == 2);
  std::vector<std::string> listed = epochs[0].at("bad_files");
  for (const std::string error : epochs[1].at("bad_files")) listed.push_back(error);
  CHECK(listed == std::vector<std::string>{bad + ": Premature end of JPEG file"});
  CHECK(epochs[1].at("all_bad_files") == 1);

  const Outcome text = RunNeap(Joined(args, {"--skip-bad"}));
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("skipped 1 files that cannot be decoded, 1 in all\n  " + bad) !=
        std::string::npos);
}

// Of 48 images, the one that is met at last.
TEST_CASE("a file that cannot be decoded costs no step before it: they are saved, and go on") {
  const Folders folders;
  const std::string bad = folders.train + "/green/105.jpg";
  WriteText(bad, ReadText(bad).substr(0, 500));
  for (const char* device : {"cpu", "cpu,cpu"}) {
    CAPTURE(device);
    const std::string saved = folders.root.File("saved.safetensors");
    const std::string weights = folders.root.File("weights.safetensors");
    std::filesystem::remove(saved);
    const Args args = Joined(TrainOn(folders.train), {"--batch", "4", "--epochs", "1", "--device",
                                                      device, "--save", saved});
    const Outcome outcome = RunNeap(Joined(args, {"--weights-out", weights, "--json"}));
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.err.find(bad + ": Premature end of JPEG file") != std::string::npos);
    const size_t last = outcome.out.rfind('\n', outcome.out.size() - 2);
    const Json end = Json::parse(outcome.out.substr(last + 1));
    REQUIRE(end.at("steps") > 0);
    CHECK(end.at("steps") < 12);
    CHECK(end.at("interrupted") == false);
    CHECK(end.at("failure").get<std::string>().find(bad) != std::string::npos);
    CHECK(end.at("saved") == Json::array({saved, weights}));
    const std::vector<Json> rest = RunForJson(Joined(args, {"--resume", saved, "--skip-bad"}));
    CHECK(rest.back().at("steps") == 12 - end.at("steps").get<int64_t>());
  }
}

TEST_CASE("a validation that fails is reported; training goes on, and ends with its error") {
  const Folders folders;
  const std::string bad = folders.val + "/green/101.jpg";
  const std::string good = ReadText(bad);
  WriteText(bad, "no image");
  const std::string saved = folders.root.File("saved.safetensors");
  const Args args =
      Joined(TrainOn(folders.train), {"--epochs", "2", "--val", folders.val, "--save", saved});
  for (const char* device : {"cpu", "cpu,cpu"}) {
    CAPTURE(device);
    const Outcome outcome = RunNeap(Joined(args, {"--device", device}));
    CHECK(outcome.exit_code == 1);
    for (const char* part : {"epoch 1/2, step 4: the validation has failed: ",
                             "epoch 2/2, step 8: the validation has failed: ", "done after 8 steps",
                             "measured peak", "saved "})
      CHECK_MESSAGE(outcome.out.find(part) != std::string::npos, part);
    CHECK(outcome.err.find(bad) != std::string::npos);
  }
  WriteText(bad, good);
  CHECK(RunForJson(Joined(args, {"--resume", saved})).back().at("steps") == 0);
}

TEST_CASE("Ctrl-C in the last validation is no success") {
  const Folders folders;
  WriteColors(folders.val, 150, 100);
  const std::string saved = folders.root.File("saved.safetensors");
  Process training =
      Process::Start({"train", "densenet-cifar", "--depth", "40", "--image", "16", "--batch", "2",
                      "--steps", "1", "--device", "cpu", "--data", "imagefolder:" + folders.train,
                      "--val", folders.val, "--save", saved});
  while (training.Running() && training.Output().find("step 1/1") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  training.Signal(SIGINT);
  const Outcome outcome = training.Wait();
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.out.find("interrupted after 1 steps") != std::string::npos);
  CHECK(std::filesystem::exists(saved));
}

TEST_CASE("--save-best keeps the weights of the best validation, also in a resumed run") {
  const Folders folders;
  const std::string best = folders.root.File("best.safetensors");
  const std::string saved = folders.root.File("saved.safetensors");
  const Args args = Joined(TrainOn(folders.train), {"--val", folders.val, "--save-best", best,
                                                    "--save", saved, "--ema", "0.5"});
  const auto epochs = EventsOf(RunForJson(Joined(args, {"--epochs", "4"})), "epoch");
  REQUIRE(epochs.size() == 4);
  Json expected;  // of the best validation so far
  const auto take = [&](const Json& epoch) {
    const Json& validation = epoch.at("validation");
    const bool better = expected.is_null() || validation.at("correct") > expected.at("correct") ||
                        (validation.at("correct") == expected.at("correct") &&
                         validation.at("loss") < expected.at("loss"));
    if (better) expected = validation;
    CHECK(epoch.at("best") == better);
  };
  for (const Json& epoch : epochs) take(epoch);
  const auto check_best = [&] {
    const Args eval = {"eval",      "resnet-cifar", "--depth",   "8",
                       "--image",   "16",           "--classes", "3",
                       "--batch",   "12",           "--device",  "cpu",
                       "--weights", best,           "--data",    "imagefolder:" + folders.val};
    const Json evaluated = RunForJson(eval).back();
    CHECK(evaluated.at("correct") == expected.at("correct"));
    CHECK(evaluated.at("loss").get<double>() == doctest::Approx(expected.at("loss").get<double>()));
  };
  check_best();
  const auto more =
      EventsOf(RunForJson(Joined(args, {"--epochs", "6", "--resume", saved})), "epoch");
  REQUIRE(more.size() == 2);
  for (const Json& epoch : more) take(epoch);
  check_best();
  CheckRefused(Joined(TrainOn(folders.train), {"--save-best", best}), 2, {"--val"});
}

TEST_CASE("two ranks train on the images of one, and evaluate each its part") {
  const Folders folders;
  const std::string bad = folders.train + "/red/110.jpg";
  WriteText(bad, "no image");
  const Args args = Joined(TrainOn(folders.train),
                           {"--epochs", "2", "--augment", "--skip-bad", "--val", folders.val});
  const std::vector<Json> alone = EventsOf(RunForJson(args), "epoch");
  Args both = args;
  *(std::find(both.begin(), both.end(), "--device") + 1) = "cpu,cpu";
  const std::vector<Json> shared = EventsOf(RunForJson(both), "epoch");
  REQUIRE(shared.size() == 2);
  CHECK(shared[1].at("validation").at("images") == 15);
  CHECK(shared[1].at("all_bad_files") == 1);
  CHECK(alone[1].at("all_bad_files") == 1);
}

TEST_CASE("the number of classes is that of the data where it is not given") {
  const Folders folders;
  const std::string saved = folders.root.File("c.safetensors");
  Args args = TrainOn(folders.train);
  const auto classes = std::find(args.begin(), args.end(), "--classes");
  args.erase(classes, classes + 2);
  const Args files = {"--steps", "1", "--save", saved};
  CHECK(RunForJson(Joined(args, files)).front().at("data").get<std::string>().find("3 classes") !=
        std::string::npos);
  // And that of the checkpoint where it is resumed.
  std::filesystem::remove_all(folders.train + "/red");
  const Args more = {"--steps", "2", "--resume", saved};
  CHECK(RunForJson(Joined(args, more)).front().at("data").get<std::string>().find("3 classes") !=
        std::string::npos);
}

TEST_CASE("the folder above train and val is that of both, with or without its format") {
  const Folders folders;
  const std::string root = folders.root.path();
  const std::vector<Json> apart =
      RunForJson(Joined(TrainOn(folders.train), {"--epochs", "2", "--val", folders.val}));
  const std::vector<Json> together = RunForJson(Joined(
      TrainOn(root), {"--data", root, "--epochs", "2", "--val", "imagefolder:" + root, "--eval"}));
  CHECK(LossesOf(together) == LossesOf(apart));
  const Json validation = EventsOf(apart, "epoch").back().at("validation");
  CHECK(EventsOf(together, "epoch").back().at("validation") == validation);
  CHECK(together.back().at("evaluation").at("images") == 15);
  const Outcome text = RunNeap(Joined(TrainOn(root), {"--steps", "1"}));
  CHECK((text.out + text.err).find("has a folder for each split, of which " + root + "/train") !=
        std::string::npos);
}

TEST_CASE("classes without images are refused, or allowed and said") {
  const Folders folders;
  std::filesystem::create_directories(folders.train + "/grey");
  const Args args = Joined(TrainOn(folders.train), {"--classes", "4", "--steps", "1"});
  CheckRefused(args, 1, {folders.train + "/grey: the class has no images"});
  const Outcome text = RunNeap(Joined(args, {"--allow-empty"}));
  CHECK(text.exit_code == 0);
  CHECK((text.out + text.err).find("/grey: the class has no images") != std::string::npos);
}

TEST_CASE("flags for images that contradict each other are refused") {
  const Folders folders;
  const Args images = TrainOn(folders.train);
  CheckRefused(Joined(images, {"--eval"}), 2, {"no test split", "--val"});
  CheckRefused(Joined(images, {"--color-jitter", "0.4"}), 2, {"--augment"});
  CheckRefused(Joined(images, {"--repeat-batch", "--val", folders.val}), 2, {"--repeat-batch"});
  const std::string masks = "masks:" + folders.train;
  for (const char* const flag : {"--skip-bad", "--allow-empty", "--exif-orientation"}) {
    CheckRefused(Joined(kTiny, {flag}), 2, {flag, "imagefolder:DIR"});
    CheckRefused(Joined(kTiny, {flag, "--data", masks, "--val", masks}), 2,
                 {flag, "needs --data imagefolder:DIR or --val imagefolder:DIR"});
  }
  CheckRefused(Joined(images, {"--classes", "2"}), 1, {"has 3 classes", "--classes 3"});
  std::filesystem::rename(folders.val + "/red", folders.val + "/pink");
  CheckRefused(Joined(images, {"--val", folders.val}), 1, {"--val", "'pink'", folders.val});
}

}  // namespace
}  // namespace neap::testing
