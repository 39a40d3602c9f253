// What libraries list for a problem, kept between runs of the program, because listing the engines
// of a network can take seconds (DenseNet-201: five).
//
//   std::shared_ptr<EngineLists> lists = KeptEngineLists::Open(path);  // layers/profile
//   DescribedCatalog("h200", {}, {.lists = lists});
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace neap {

// It is only a help: what cannot be kept or found is listed again. *Threads*: any number at a time.
class EngineLists {
 public:
  virtual ~EngineLists() = default;
  // `library` is all that the list depends on besides the problem: the library, its version, the
  // device. nullopt if nothing is kept for this.
  virtual std::optional<std::string> Find(std::string_view library, std::string_view problem) = 0;
  virtual void Keep(std::string_view library, std::string_view problem, std::string_view list) = 0;
};

}  // namespace neap
