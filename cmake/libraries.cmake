# Where the program finds the libraries that it was linked with: beside it, wherever it lies and whoever runs it.
#
#   built      build/lmtrain          build/lib/               hard links into the cache of scripts/setup.sh, or copies
#   installed  PREFIX/bin/lmtrain     PREFIX/lib/lmtrain/      copies, with those of the system but the C and C++ runtime
set(LMTRAIN_LIBRARIES ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN TRUE)
set(CMAKE_BUILD_RPATH $ORIGIN/lib)
set(LMTRAIN_INSTALLED_LIBRARIES lib/lmtrain)
if(SKBUILD)
  set(LMTRAIN_INSTALLED_LIBRARIES lib)
endif()

# lmtrain_place(FILE...): puts files into LMTRAIN_LIBRARIES under their names, unless they are there.
function(lmtrain_place)
  file(MAKE_DIRECTORY ${LMTRAIN_LIBRARIES})
  foreach(file IN LISTS ARGN)
    cmake_path(GET file FILENAME name)
    file(REAL_PATH ${file} file)
    set(placed ${LMTRAIN_LIBRARIES}/${name})
    if(EXISTS ${placed})
      foreach(path file placed)
        file(SIZE ${${path}} ${path}_size)
        file(TIMESTAMP ${${path}} ${path}_time)
      endforeach()
      if("${file_size} ${file_time}" STREQUAL "${placed_size} ${placed_time}")
        continue()
      endif()
    endif()
    file(CREATE_LINK ${file} ${placed} RESULT problem)
    if(NOT problem EQUAL 0)  # another file system
      execute_process(COMMAND cp --preserve=mode,timestamps ${file} ${placed} COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
endfunction()

# `cmake --install`, in components, so that a package takes what its system does not have:
#
#   program     bin/lmtrain, lib/lmtrain/liblmtrain_nccl.so where it is built, completions, documentation
#   libraries   lib/lmtrain: libtorch, Arrow and what these bring (build/lib)
#   system      lib/lmtrain: libraries of the system, but the C and C++ runtime of every Linux
#   cuda        lib/lmtrain: what is loaded where there is a GPU, if it was set up
#
# A wheel has `program` and `system`, in the folder site-packages/lmtrain, and finds the others in the wheels of torch and
# pyarrow beside it (cmake/wheel.cmake).
function(lmtrain_install)
  # An RPATH that the libraries of libraries are looked for in too, and that LD_LIBRARY_PATH does not override.
  target_link_options(lmtrain PRIVATE LINKER:--disable-new-dtags)
  if(SKBUILD)
    set(rpath $ORIGIN/../lib $ORIGIN/../../torch/lib $ORIGIN/../../pyarrow $ORIGIN/../../nvidia/cu13/lib)
  else()
    set(rpath $ORIGIN/../lib/lmtrain)
  endif()
  set_target_properties(lmtrain PROPERTIES INSTALL_RPATH "${rpath}")
  set(runtime "^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s))\\.so")
  install(TARGETS lmtrain RUNTIME_DEPENDENCY_SET needed RUNTIME DESTINATION bin COMPONENT program)
  install(RUNTIME_DEPENDENCY_SET needed
    PRE_EXCLUDE_REGEXES ${runtime}
    POST_EXCLUDE_REGEXES "^${LMTRAIN_LIBRARIES}/"
    LIBRARY DESTINATION ${LMTRAIN_INSTALLED_LIBRARIES} COMPONENT system)
  if(SKBUILD)
    # A wheel has no links: a library would be in it twice, under its own name and under the one that programs ask for.
    install(CODE "
      file(GLOB links \"\${CMAKE_INSTALL_PREFIX}/${LMTRAIN_INSTALLED_LIBRARIES}/*\")
      foreach(link IN LISTS links)
        if(IS_SYMLINK \"\${link}\")
          file(REAL_PATH \"\${link}\" library)
          file(RENAME \"\${library}\" \"\${link}\")
        endif()
      endforeach()" COMPONENT system)
    return()
  endif()
  install(RUNTIME_DEPENDENCY_SET needed
    PRE_EXCLUDE_REGEXES ${runtime}
    POST_INCLUDE_REGEXES "^${LMTRAIN_LIBRARIES}/"
    POST_EXCLUDE_REGEXES "."
    LIBRARY DESTINATION ${LMTRAIN_INSTALLED_LIBRARIES} COMPONENT libraries)
  # Looked for at the time of the installation.
  install(CODE "
    if(EXISTS \"${TORCH_ROOT}/../nvidia/cudnn\")
      file(GLOB cuda_libraries \"${TORCH_ROOT}/../nvidia/*/lib/*.so*\" \"${TORCH_ROOT}/lib/libtorch_cuda*.so\"
           \"${TORCH_ROOT}/lib/libc10_cuda.so\" \"${TORCH_ROOT}/lib/libtorch_nvshmem.so\" \"${TORCH_ROOT}/lib/libcaffe2_nvrtc.so\")
      file(INSTALL \${cuda_libraries} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/lmtrain\")
    endif()" COMPONENT cuda)
endfunction()
