#!/bin/sh
# Copies from the image to a folder of the host what containers get: the toolkit tree, the library
# and what it is linked with, and npuctl, which knows by its own place where these are. Files are
# replaced, not overwritten: programs that run have the old ones mapped.
# usage: install-on-host.sh FOLDER [ROOT]     FOLDER: absolute; ROOT: of the image
set -eu
folder=$1
cd "${2:-/}"
mkdir -p "$folder/lib"
find usr/lib -maxdepth 2 -name libaclclient.so.1 -exec \
    cp -a --remove-destination --parents usr/bin/npuctl usr/include/acl \
    usr/lib/npud/ascend-toolkit {} "$folder" \;
for library in $(ldd usr/bin/npuctl | awk '/libprotobuf-c|libcjson/ { print $3 }'); do
    cp -L --remove-destination "$library" "$folder/lib/"
done
