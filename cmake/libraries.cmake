# Where the program finds the libraries that it was linked with: beside it, wherever it lies and whoever runs it.
#
#   built      build/lmtrain          build/lib/               hard links into the cache of scripts/setup.sh, or copies
#   installed  PREFIX/bin/lmtrain     PREFIX/lib/lmtrain/      copies, with those of the system but the C and C++ runtime
set(LMTRAIN_LIBRARIES ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN TRUE)
set(CMAKE_BUILD_RPATH $ORIGIN/lib)

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

# `cmake --install`: the program, and the libraries that it needs beyond the C and C++ runtime of every Linux.
function(lmtrain_install)
  # An RPATH that the libraries of libraries are looked for in too, and that LD_LIBRARY_PATH does not override.
  target_link_options(lmtrain PRIVATE LINKER:--disable-new-dtags)
  set_target_properties(lmtrain PROPERTIES INSTALL_RPATH $ORIGIN/../lib/lmtrain)
  install(TARGETS lmtrain
    RUNTIME_DEPENDENCIES PRE_EXCLUDE_REGEXES "^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s))\\.so"
    RUNTIME DESTINATION bin
    LIBRARY DESTINATION lib/lmtrain)
  # What is loaded where there is a GPU, if it was set up. Looked for at the time of the installation.
  if(LMTRAIN_TORCH)
    install(CODE "
      if(EXISTS \"${TORCH_ROOT}/../nvidia/cudnn\")
        file(GLOB cuda_libraries \"${TORCH_ROOT}/../nvidia/*/lib/*.so*\" \"${TORCH_ROOT}/lib/libtorch_cuda*.so\"
             \"${TORCH_ROOT}/lib/libc10_cuda.so\" \"${TORCH_ROOT}/lib/libtorch_nvshmem.so\" \"${TORCH_ROOT}/lib/libcaffe2_nvrtc.so\")
        file(INSTALL \${cuda_libraries} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/lmtrain\")
      endif()")
  endif()
endfunction()
