# What is installed beside the program: completions, which the built program writes itself, licences, the documentation and the
# examples.
#
#   build/share/bash-completion/completions/     lmtrain
#   build/share/zsh/site-functions/              _lmtrain
#   build/share/fish/vendor_completions.d/       lmtrain.fish
function(lmtrain_install_share)
  set(share ${CMAKE_BINARY_DIR}/share)
  set(written ${share}/.written)
  add_custom_command(OUTPUT ${written}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:lmtrain> -D SHARE=${share}
            -P ${CMAKE_SOURCE_DIR}/cmake/write_share.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${written}
    DEPENDS lmtrain ${CMAKE_SOURCE_DIR}/cmake/write_share.cmake
    COMMENT "Completions" VERBATIM)
  # All that is installed, without tests and benchmarks.
  add_custom_target(lmtrain_installed ALL DEPENDS ${written})
  if(TARGET lmtrain_nccl)
    add_dependencies(lmtrain_installed lmtrain_nccl)
  endif()

  if(SKBUILD)
    set(to ${SKBUILD_DATA_DIR}/share)
  else()
    set(to share)
  endif()
  foreach(folder bash-completion zsh fish)
    install(DIRECTORY ${share}/${folder} DESTINATION ${to} COMPONENT program)
  endforeach()
  set(doc ${to}/doc/lmtrain)
  # Licences of what lies in lib/lmtrain: torch, Arrow and NVIDIA's libraries from the wheels, others as Debian has them.
  lmtrain_install_licences(${doc}/licenses/torch libraries ${TORCH_ROOT}/../torch-*.dist-info/licenses/*)
  lmtrain_install_licences(${doc}/licenses/cuda libraries ${TORCH_ROOT}/../nvidia_cuda_runtime-*.dist-info/licenses/*)
  lmtrain_install_licences(${doc}/licenses/arrow libraries ${ARROW_ROOT}/../pyarrow-*.dist-info/licenses/*)
  foreach(package libsentencepiece0 libpcre2-8-0 libutf8proc2 liblzma5)
    lmtrain_install_licences(${doc}/licenses/${package} system /usr/share/doc/${package}/copyright)
  endforeach()
  if(SKBUILD)
    return()
  endif()
  install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${doc} COMPONENT program)
  install(DIRECTORY docs DESTINATION ${doc} COMPONENT program
    PATTERN benchmarks EXCLUDE PATTERN decisions EXCLUDE)
  install(DIRECTORY configs data DESTINATION ${doc}/examples COMPONENT program)
endfunction()

# lmtrain_install_licences(FOLDER COMPONENT PATTERN): the files, if there are any.
function(lmtrain_install_licences folder component pattern)
  file(GLOB files ${pattern})
  if(files)
    install(FILES ${files} DESTINATION ${folder} COMPONENT ${component})
  endif()
endfunction()
