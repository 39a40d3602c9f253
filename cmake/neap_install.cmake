# cmake --install: the library, its headers, the command, and the files for find_package(neap).
include(CMakePackageConfigHelpers)
include(installed_headers)

install(TARGETS neap EXPORT neap_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS neap_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(header ${NEAP_INSTALLED_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neap/${folder})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/core/neap.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neap)  # <neap/neap.h>
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A program that links a static library must also link the library's dependencies.
set(neap_cuda_link "")
if(NEAP_HAS_CUDA)
  get_target_property(neap_cuda_link neap_cuda_libraries INTERFACE_LINK_LIBRARIES)
endif()
set(neap_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/neap)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/neapConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/neapConfig.cmake
                              INSTALL_DESTINATION ${neap_config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/neapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT neap_targets NAMESPACE neap:: FILE neapTargets.cmake DESTINATION ${neap_config_folder})
install(FILES ${PROJECT_BINARY_DIR}/neapConfig.cmake ${PROJECT_BINARY_DIR}/neapConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/third_party/FindGLPK.cmake
        DESTINATION ${neap_config_folder})
