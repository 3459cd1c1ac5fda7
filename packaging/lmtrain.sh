#!/bin/sh
# Starts the lmtrain of a wheel, with the libraries of the wheels of torch and pyarrow. Python is not needed.
#
# It lies in bin/ of a Python environment, the program in site-packages/lmtrain/bin/, which looks for torch and pyarrow beside
# itself. An environment that also sees the packages of its system may have them there: the prefix that pyvenv.cfg names.
here=$(dirname "$(readlink -f "$0")")
program=
for site in "$here"/../lib*/python3*/*-packages "$here"/..; do
  if [ -x "$site/lmtrain/bin/lmtrain" ]; then
    program=$site/lmtrain/bin/lmtrain
    break
  fi
done
if [ -z "$program" ]; then
  echo "lmtrain: there is no site-packages/lmtrain/bin/lmtrain beside $here; install the wheel again" >&2
  exit 70
fi
home=$(sed -n 's/^home *= *//p' "$here/../pyvenv.cfg" 2>/dev/null)
for folder in torch/lib pyarrow; do
  if [ -d "$site/$folder" ]; then continue; fi
  for other in ${home:+"$home"/../lib*/python3*/*-packages "$home"/../local/lib*/python3*/*-packages}; do
    if [ -d "$other/$folder" ]; then
      LD_LIBRARY_PATH=$other/$folder:$other/nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
      export LD_LIBRARY_PATH
      continue 2
    fi
  done
  echo "lmtrain: there is no $folder in $(readlink -f "$site"); install torch 2.11.0 and pyarrow 26.0.1 there, with pip" >&2
  exit 70
done
exec "$program" "$@"
