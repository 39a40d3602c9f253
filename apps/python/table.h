// Tables as NumPy structured arrays: the columns, then row by row a tuple of Python values. To be
// used with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace neap::python {

struct TableColumn {
  std::string name;
  std::string type;  // NumPy's name; "U" gets the length of the longest text
};

class Table {
 public:
  explicit Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  // `row` has as many values as there are columns.
  void Add(nanobind::tuple row) { rows_.append(std::move(row)); }
  nanobind::object ToNumpy() const;

 private:
  std::vector<TableColumn> columns_;
  nanobind::list rows_;
};

}  // namespace neap::python
