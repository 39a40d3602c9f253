# cmake --install: the library, its headers, the command, and the files for find_package(neap).
include(CMakePackageConfigHelpers)

# Component `neap` is the command and the shared library, `libneap-dev` what programs are built with.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libneap-dev)
install(TARGETS neap EXPORT neap_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET neap_shared)
  install(TARGETS neap_shared EXPORT neap_targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT neap NAMELINK_COMPONENT libneap-dev)
endif()
install(TARGETS neap_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT neap)
foreach(header ${NEAP_INSTALLED_HEADERS})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neap/${folder})
endforeach()
foreach(door ${NEAP_FRONT_DOORS})
  install(FILES ${PROJECT_SOURCE_DIR}/${door} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/neap)  # <neap/neap.h>
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT neap)

# A program that links a static library must also link the library's dependencies.
set(neap_cudart ${CMAKE_INSTALL_LIBDIR}/neap/libcudart_static.a)
if(NEAP_HAS_CUDA)
  file(REAL_PATH ${NEAP_CUDART} neap_cudart_of_toolkit)
  install(FILES ${neap_cudart_of_toolkit} DESTINATION ${CMAKE_INSTALL_LIBDIR}/neap RENAME libcudart_static.a)
endif()
set(neap_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/neap)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/neapConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/neapConfig.cmake
                              INSTALL_DESTINATION ${neap_config_folder} PATH_VARS neap_cudart)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/neapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT neap_targets NAMESPACE neap:: FILE neapTargets.cmake DESTINATION ${neap_config_folder})
install(FILES ${PROJECT_BINARY_DIR}/neapConfig.cmake ${PROJECT_BINARY_DIR}/neapConfigVersion.cmake
        DESTINATION ${neap_config_folder})

# neap.pc, for programs that are built without CMake. What libneap.a needs is in Libs.private, or in Libs where there is no
# shared library.
set(neap_private_libs -ldnnl -lsqlite3 -lz -pthread -ldl)
if(NEAP_HAS_IMAGES)
  list(APPEND neap_private_libs -ljpeg -lpng)
endif()
if(NEAP_HAS_NIFTI)
  list(APPEND neap_private_libs -lniftiio -lznz -lz -lm)
endif()
if(NEAP_HAS_ONNX)
  list(APPEND neap_private_libs -lprotobuf-lite)
endif()
if(NEAP_HAS_CUDA)
  list(APPEND neap_private_libs "\${libdir}/neap/libcudart_static.a" -lrt)
endif()
foreach(library ${MPI_CXX_LIBRARIES})
  if(NOT TARGET ${library})
    list(APPEND neap_private_libs ${library})
  endif()
endforeach()
list(JOIN neap_private_libs " " neap_private_libs)
if(TARGET neap_shared)
  set(neap_libs "")
else()
  set(neap_libs " ${neap_private_libs}")
endif()
file(RELATIVE_PATH neap_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/neap.pc.in ${PROJECT_BINARY_DIR}/neap.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/neap.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
