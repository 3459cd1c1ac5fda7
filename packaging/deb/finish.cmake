# Called by cpack between the installation and the packing: brings what was installed into the form of Debian's policy.
file(GLOB_RECURSE program "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/lmtrain")
list(FILTER program INCLUDE REGEX "/bin/lmtrain$")
list(LENGTH program found)
if(NOT found EQUAL 1)
  message(FATAL_ERROR "No bin/lmtrain below ${CPACK_TEMPORARY_INSTALL_DIRECTORY}: ${program}")
endif()
cmake_path(GET program PARENT_PATH usr)
cmake_path(GET usr PARENT_PATH usr)
set(doc ${usr}/share/doc/lmtrain)
set(source ${CPACK_LMTRAIN_SOURCE_DIR})

set(PROGRAM ${program})
set(FOLDER ${usr}/share/man/man1)
include(${source}/cmake/write_manual.cmake)
file(GLOB manual ${FOLDER}/*.1)
if(manual)
  execute_process(COMMAND gzip -9n ${manual} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)

file(REMOVE ${doc}/LICENSE)  # Debian has its text in /usr/share/common-licenses
configure_file(${source}/packaging/deb/copyright ${doc}/copyright COPYONLY)
configure_file(${source}/packaging/deb/lintian-overrides ${usr}/share/lintian/overrides/lmtrain COPYONLY)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
set(version "${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
# SOURCE_DATE_EPOCH, if it is set, makes the package reproducible.
set(now)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(now -d @$ENV{SOURCE_DATE_EPOCH})
endif()
execute_process(COMMAND date -uR ${now} OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog.Debian "lmtrain (${version}) unstable; urgency=medium

  * Packaged by cpack; /usr/share/doc/lmtrain/changelog.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9n ${doc}/changelog ${doc}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)

file(GLOB libraries ${usr}/lib/lmtrain/*)
file(CHMOD ${libraries} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(GLOB_RECURSE texts ${usr}/share/*)
file(CHMOD ${texts} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
