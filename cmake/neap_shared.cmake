# libneap.so, of the same objects as libneap.a. Only the symbols of namespace neap are visible (cmake/neap.map), so that a
# program may use other versions of what is linked statically into it. Its name changes with every minor version, because
# that may change the interface (docs/compatibility.md).
option(NEAP_SHARED "Also build the shared library" ON)
if(NOT NEAP_SHARED OR NEAP_SANITIZE)  # a sanitizer's runtime is in the executable
  return()
endif()
add_library(neap_shared SHARED $<TARGET_OBJECTS:neap>)
set_target_properties(neap_shared PROPERTIES
  OUTPUT_NAME neap VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINKER_LANGUAGE CXX LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/neap.map)
target_link_options(neap_shared PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/neap.map)
target_compile_features(neap_shared PUBLIC cxx_std_20)
target_include_directories(neap_shared PUBLIC $<BUILD_INTERFACE:${NEAP_INCLUDE}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(neap_shared PUBLIC ${NEAP_PUBLIC_LIBRARIES} PRIVATE ${NEAP_PRIVATE_LIBRARIES})
