# Defines GLPK::GLPK: the GNU Linear Programming Kit, which has no CMake files of its own. Installed too, for programs
# that use find_package(neap).
include(FindPackageHandleStandardArgs)
find_path(GLPK_INCLUDE_DIR glpk.h)
find_library(GLPK_LIBRARY glpk)
mark_as_advanced(GLPK_INCLUDE_DIR GLPK_LIBRARY)
if(GLPK_INCLUDE_DIR)
  file(STRINGS ${GLPK_INCLUDE_DIR}/glpk.h glpk_lines REGEX "#define GLP_(MAJOR|MINOR)_VERSION +[0-9]+")
  string(REGEX REPLACE ".*MAJOR_VERSION +([0-9]+).*MINOR_VERSION +([0-9]+).*" "\\1.\\2" GLPK_VERSION "${glpk_lines}")
endif()
find_package_handle_standard_args(GLPK REQUIRED_VARS GLPK_LIBRARY GLPK_INCLUDE_DIR VERSION_VAR GLPK_VERSION)
if(GLPK_FOUND AND NOT TARGET GLPK::GLPK)
  add_library(GLPK::GLPK UNKNOWN IMPORTED)
  set_target_properties(GLPK::GLPK PROPERTIES IMPORTED_LOCATION ${GLPK_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${GLPK_INCLUDE_DIR})
endif()
