#!/bin/sh
# Keeps seven daily copies of a folder; unchanged files are hard links to the day before.
set -eu

source=${1:?usage: backup.sh SOURCE TARGET}
target=${2:?usage: backup.sh SOURCE TARGET}
today=$(date +%Y-%m-%d)
last=$(ls -1 "$target" 2>/dev/null | grep -E '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' | tail -n 1 || true)

if [ "$last" = "$today" ]; then
	echo "there is a copy of today already: $target/$today" >&2
	exit 0
fi

if [ -n "$last" ]; then
	rsync -a --delete --link-dest="$target/$last" "$source/" "$target/.$today.part/"
else
	rsync -a "$source/" "$target/.$today.part/"
fi
mv "$target/.$today.part" "$target/$today"	# appears whole or not at all

ls -1 "$target" | head -n -7 | while read -r old; do
	rm -rf "${target:?}/$old"
done
