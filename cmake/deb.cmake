# `cpack` in the build folder makes a Debian package of what `cmake --install` installs: the program, and in /usr/lib/lmtrain
# libtorch and Arrow, which Debian does not have in these versions. Other libraries are those of Debian, as dependencies.
set(LMTRAIN_MAINTAINER "lmtrain <lmtrain@invalid>" CACHE STRING "Who answers for the Debian package: NAME <ADDRESS>")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lmtrain)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "${LMTRAIN_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pretrains Llama language models from text")
set(CPACK_PACKAGE_DESCRIPTION
"lmtrain trains the tokenizer, orders the data, trains and evaluates the model,
and writes checkpoints that Hugging Face transformers opens as they are. One
JSON file describes a run. A run that was stopped or killed goes on from its
newest checkpoint; on a CPU it ends with the same bits as if it had never
stopped.
.
The package brings libtorch 2.11 and Arrow 26 in a folder of its own. It
computes on CPUs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)  # to compress: all processors

set(CPACK_COMPONENTS_ALL program libraries)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LMTRAIN_LIBRARIES})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What Debian's policy wants otherwise than other systems.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/deb/finish.cmake)
set(CPACK_LMTRAIN_SOURCE_DIR ${CMAKE_SOURCE_DIR})
include(CPack)
