#include "apps/python/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace neap::python {

namespace nb = nanobind;

nb::object Table::ToNumpy() const {
  nb::list fields;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const TableColumn& column = columns_[i];
    std::string type = column.type;
    if (type == "U") {
      size_t longest = 1;
      for (const nb::handle row : rows_) longest = std::max(longest, nb::len(nb::object(row[i])));
      absl::StrAppend(&type, longest);
    }
    fields.append(nb::make_tuple(column.name.c_str(), type.c_str()));
  }
  const nb::object numpy = nb::module_::import_("numpy");
  return numpy.attr("array")(rows_, fields);
}

}  // namespace neap::python
