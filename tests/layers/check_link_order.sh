#!/usr/bin/env bash
# A program that is linked with sentencepiece and libtorch must have sentencepiece first: both export FLAGS_minloglevel, and of the two
# the first one serves both (CMakeLists.txt says what happens otherwise).
#   tests/layers/check_link_order.sh PROGRAM...
set -euo pipefail
problems=0
for program in "$@"; do
  libraries=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  sentencepiece=$(grep -n '^libsentencepiece\.so' <<<"$libraries" | cut -d: -f1 || true)
  c10=$(grep -n '^libc10\.so' <<<"$libraries" | cut -d: -f1 || true)
  [ -n "$sentencepiece" ] && [ -n "$c10" ] || continue
  [ "$sentencepiece" -lt "$c10" ] || { echo "$program: libc10 comes before libsentencepiece"; problems=$((problems + 1)); }
done
[ "$problems" -eq 0 ]
