// neap.nets: one function for each network of the registry, and one for plans files of nnU-Net.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/python/argument_names.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "neap/nets/registry.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

// "alexnet-torchvision" as a name in Python.
std::string PythonName(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

// Binds a function with the options of every network.
void BindNet(nb::module_& module, const std::string& python_name, const std::string& text,
             std::string name) {
  module.def(
      python_name.c_str(),
      [name = std::move(name)](std::optional<int64_t> batch, std::optional<int64_t> image,
                               std::optional<int64_t> channels, std::optional<int64_t> classes,
                               std::optional<int64_t> depth,
                               std::optional<std::array<int64_t, 4>> blocks,
                               std::optional<int64_t> growth_rate, std::optional<float> dropout,
                               bool aux_logits, const DTypeName& dtype, const std::string& layout) {
        return Checked(nets::Build(name, {.batch = batch,
                                          .image = image,
                                          .channels = channels,
                                          .classes = classes,
                                          .depth = depth,
                                          .blocks = blocks,
                                          .growth_rate = growth_rate,
                                          .dropout = dropout,
                                          .aux_logits = aux_logits,
                                          .dtype = dtype.Parsed(),
                                          .layout = Checked(ParseLayout(layout))}));
      },
      nb::kw_only(), "batch"_a = 32, "image"_a = nb::none(), "channels"_a = nb::none(),
      "classes"_a = nb::none(), "depth"_a = nb::none(), "blocks"_a = nb::none(),
      "growth_rate"_a = nb::none(), "dropout"_a = nb::none(), "aux_logits"_a = false,
      "dtype"_a = "fp32", "layout"_a = "nchw", text.c_str());
}

}  // namespace

void BindNets(nb::module_& module) {
  nb::module_ nets = module.def_submodule("nets", "The networks that neap has.");
  for (const nets::Network& network : nets::Networks()) {
    const std::string text = absl::StrCat(std::string(network.description), "; ", network.input(),
                                          " and ", network.classes, " classes by default.");
    BindNet(nets, PythonName(network.name), text, std::string(network.name));
  }
  nets.def(
      "nnunet",
      [](const std::string& file, std::optional<int64_t> batch, std::optional<int64_t> channels,
         std::optional<int64_t> classes, bool other_normalizations, const DTypeName& dtype,
         const std::string& layout) {
        return Checked(nets::Build(absl::StrCat("nnunet:", file),
                                   {.batch = batch,
                                    .channels = channels,
                                    .classes = classes,
                                    .other_normalizations = other_normalizations,
                                    .dtype = dtype.Parsed(),
                                    .layout = Checked(ParseLayout(layout))}));
      },
      "file"_a, nb::kw_only(), "batch"_a = nb::none(), "channels"_a = nb::none(),
      "classes"_a = nb::none(), "other_normalizations"_a = false, "dtype"_a = "fp32",
      "layout"_a = "nchw",
      "The network of a plans file of nnU-Net, 'FILE' or 'FILE#CONFIGURATION'. Without numbers, it "
      "has the plan's batch\nand channels, and the classes of dataset.json beside the file. One "
      "whose volumes are not normalised as\nopen_dataset() does it is refused, unless "
      "`other_normalizations`.");
}

}  // namespace neap::python
