#!/usr/bin/env bash
# Builds the packages twice: in folders with other names, with another umask, time zone and
# language. The packages must be the same, byte by byte.
# usage: mk/check-reproducible.sh FOLDER     in the top directory of a tree
set -eu
folder=$1

bash mk/deb.sh "$folder/one"
(umask 027 && TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 bash mk/deb.sh "$folder/other/deeper" copy)
packages=0
failed=0
for deb in "$folder"/one/*.deb; do
    packages=$((packages + 1))
    cmp "$deb" "$folder/other/deeper/${deb##*/}" || failed=1
done
if [ "$packages" = 0 ] || [ "$failed" = 1 ]; then
    echo 'check-reproducible: FAILED'
    exit 1
fi
echo "check-reproducible: $packages packages are the same in two builds"
