# cpack -G DEB: the packages neap (the command, and the shared library) and libneap-dev (headers, static library, and the files
# for find_package and pkg-config), for the distribution on which they are built.
set(CPACK_PACKAGE_NAME neap)
set(CPACK_PACKAGE_CONTACT "neap developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL neap libneap-dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_NEAP_PACKAGE_NAME neap)
# Of the libraries that the files are linked with, among which there are none of CUDA.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBNEAP-DEV_PACKAGE_NAME libneap-dev)
set(CPACK_DEBIAN_LIBNEAP-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBNEAP-DEV_PACKAGE_DEPENDS
    "neap (= ${PROJECT_VERSION}), libabsl-dev, libdnnl-dev, ocl-icd-opencl-dev, libsqlite3-dev, zlib1g-dev, libopenmpi-dev, libjpeg-dev, libpng-dev, libnifti2-dev, libprotobuf-dev")
include(CPack)
