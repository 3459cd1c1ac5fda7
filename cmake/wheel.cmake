# A wheel for pip (pyproject.toml): what is different in its build. scikit-build-core sets SKBUILD, Python_EXECUTABLE and the
# folders of a wheel.
#
#   BIN/lmtrain                     a shell script that starts the program (packaging/lmtrain.sh)
#   site-packages/lmtrain/bin/      the program; it looks for libtorch and Arrow in site-packages/torch and site-packages/pyarrow
#   site-packages/lmtrain/lib/      libraries of the system that it was built on
#   PREFIX/share/                   completions, licences
#
# The program is built against torch and pyarrow of the environment into which pip installs, where they have the versions of
# scripts/setup.sh, else against those that scripts/setup.sh unpacks into its cache: pip installs the requirements of a
# package after it has built it.
function(lmtrain_wheel_library variable package option setting)
  if(${variable})
    return()
  endif()
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
                  OUTPUT_VARIABLE installed OUTPUT_STRIP_TRAILING_WHITESPACE)
  # pip hides the packages of the environment from what it calls, and with them itself.
  set(setup ${CMAKE_COMMAND} -E env --unset=PYTHONPATH --unset=PYTHONNOUSERSITE)
  set(script ${CMAKE_SOURCE_DIR}/scripts/setup.sh)
  set(problem 1)
  if(EXISTS ${installed}/${package})
    execute_process(COMMAND ${setup} ${setting}=${installed} ${script} ${option}
                    RESULT_VARIABLE problem OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT problem EQUAL 0)
    execute_process(COMMAND ${setup} ${script} --libraries OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${setup} ${script} ${option}
                    OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(${variable} ${root} PARENT_SCOPE)
endfunction()
lmtrain_wheel_library(ARROW_ROOT pyarrow --print-arrow-root LMTRAIN_ARROW)
lmtrain_wheel_library(TORCH_ROOT torch --print-torch-root LMTRAIN_TORCH)

install(PROGRAMS packaging/lmtrain.sh DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME lmtrain COMPONENT program)
